"""Two answers to one question side by side, synchronised by token, and replayed at their true speeds."""

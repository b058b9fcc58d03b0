"""Where a question is written: its field, how the answer begins, and attached files."""

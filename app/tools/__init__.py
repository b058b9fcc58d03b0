"""Tools that answers of the window may call: which there are, and what became of a call."""

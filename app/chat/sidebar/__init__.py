"""The list of conversations at the window's side."""

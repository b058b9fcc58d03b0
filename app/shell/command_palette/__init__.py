"""The command palette: everything the window can do, found by a few letters."""

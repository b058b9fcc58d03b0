"""The Preferences dialog: a page for each topic."""

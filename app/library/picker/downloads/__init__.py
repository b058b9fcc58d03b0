"""Downloads in the Models dialog: their page and their list."""

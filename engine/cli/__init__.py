"""The terminal: one line of errors, one JSON document, progress on stderr."""

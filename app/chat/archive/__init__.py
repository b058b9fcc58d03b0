"""Conversations on disk: one SQLite file that survives whatever happens to the program."""

"""Conversations on disk: the database that survives crashes, its thread, autosave, and export and import."""

"""Texts that a pair has read, in files: so that a conversation goes on after days without being read anew."""

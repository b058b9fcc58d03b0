"""Conversations as files: what is written and read, and how an import goes on in small steps."""

"""A conversation as plain data: a tree of messages, what is stored of it, and how events become answers."""

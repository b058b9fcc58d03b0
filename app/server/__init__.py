"""The local server in the window: its switch, its settings and key, and the log of who asks."""

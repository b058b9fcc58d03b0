"""The engine process as the window sees it: its process, the link to it, and its state."""

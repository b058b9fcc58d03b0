"""The hub as the application sees it, against a real server on this machine."""

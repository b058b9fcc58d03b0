"""Animations of an answer: its rounds as frames, how those are painted, their formats, and the dialog."""

"""Generating answers: the controller, the settings of a chat with their presets, and the token counter."""

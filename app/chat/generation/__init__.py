"""Generating answers: the controller, the settings of a chat with presets, the token count, and what fits the context."""

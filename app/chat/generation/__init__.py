"""Generating answers: the controller, a chat's settings and presets, the token count, and what fits the context."""

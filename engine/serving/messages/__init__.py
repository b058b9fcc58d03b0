"""Anthropic's Messages API: what is asked there, and the events and the message that answer it."""

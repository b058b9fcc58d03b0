"""Ollama's API: what is asked there, and the lines and the whole that answer it."""

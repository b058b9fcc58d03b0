"""Installs the engine's runtime: the runtime itself, the assistant that leads through it, and the command."""

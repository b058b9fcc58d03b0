"""The terminal: one line of errors, one JSON document, progress on stderr."""

from engine.cli.commands import run

__all__ = ["run"]

"""Loads what the first answers will need beside the window's thread: later, somebody would have to wait for it."""

from threading import Thread

from app.background import start

_LANGUAGES = ("python", "javascript", "bash", "json", "html", "cpp")


def warm_up() -> Thread:
    """Read what colours the commonest languages; returns the thread that does it."""
    return start("warming", _read)


def _read() -> None:
    from app.chat.code_colors import CodeColors  # noqa: PLC0415 - this is what takes its time

    colors = CodeColors("default")
    for language in _LANGUAGES:
        colors.html("x = 1", language)

"""Threads of the application: none of them ends silently."""

import threading


def report(error: BaseException) -> None:
    """Hand an error that a worker thread met and survived to `threading.excepthook`, which logs it and tells of it."""
    threading.excepthook(
        threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
    )

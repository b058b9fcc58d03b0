"""Folders that benchmarks are told."""

from argparse import ArgumentTypeError
from pathlib import Path


def made_folder(text: str) -> Path:
    """The folder of an option, made if it is missing."""
    try:
        Path(text).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentTypeError(f"{text} cannot be made: {error.strerror}") from error
    return Path(text)

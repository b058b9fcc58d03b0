"""What the commands without a window share: their parser, their exit codes, and printing."""

import argparse
import sys
from typing import NoReturn

BAD_INPUT = 2
INTERRUPTED = 130


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line, as those of `coppice-engine`."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        self.exit(BAD_INPUT, f"error: {message[:1].upper()}{message[1:]}. See `{self.prog} --help`.\n")


def print_line(text: str) -> None:
    """A line on stdout, at once."""
    print(text, flush=True)  # noqa: T201  # a terminal's job


def print_note(text: str) -> None:
    """A line for a person, on stderr."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201  # a terminal's job

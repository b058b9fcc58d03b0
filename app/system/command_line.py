"""What the commands without a window share: their parser, and the exit code for input that cannot be used."""

import argparse
from typing import NoReturn

BAD_INPUT = 2


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        self.exit(BAD_INPUT, f"error: {message}\n")

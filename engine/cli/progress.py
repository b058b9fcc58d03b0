"""What a command says beside its output: lines on stderr; stdout is for programs."""

import sys

from engine.protocol.messages import Loading


def say(line: str) -> None:
    """Print a line of progress to stderr."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201  # a terminal's job


def say_loading(event: Loading) -> None:
    """Print how far a load is."""
    say(event.stage if event.total == 1 else f"{event.stage}: {event.done} of {event.total}")

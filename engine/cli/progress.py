"""What a command says beside its output: lines on stderr; stdout is for programs."""

import sys

from engine.protocol.messages import Event, Loading, Reading


def say(line: str) -> None:
    """Print a line of progress to stderr."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201  # a terminal's job


def say_loading(event: Loading) -> None:
    """Print how far a load is."""
    say(event.stage if event.total == 1 else f"{event.stage}: {event.done} of {event.total}")


class ReadingSaid:
    """Prints how much of a prompt was read that takes long, a line for every tenth."""

    def __init__(self) -> None:
        self._tenths = 0

    def hear(self, event: Event) -> None:
        """Print a line, if it is due."""
        if isinstance(event, Reading) and int(10 * event.part) != self._tenths:
            self._tenths = int(10 * event.part)
            say(f"Reading the prompt: {10 * self._tenths} %")

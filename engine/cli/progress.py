"""What a command says: its progress in lines on stderr, as stdout is for programs, and one document of JSON there."""

import json
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from engine.protocol.messages import Event, Loading, Reading

# A terminal's commands begin with control characters, which texts of models and names of files may hold: Unicode has
# pictures of most. Ends of lines and tabs stay; what goes before an end of a line on Windows would overwrite it.
_PICTURES = (
    {each: chr(0x2400 + each) for each in range(0x20)} | {0x7F: "\u2421"} | dict.fromkeys(range(0x80, 0xA0), "\ufffd")
)
_VISIBLE = str.maketrans(_PICTURES | {"\t": "\t", "\n": "\n", "\r": ""})


def visible(text: str) -> str:
    """A text that commands a terminal nothing: no colour, no title, no place, and nothing in its clipboard."""
    return text.translate(_VISIBLE)


def say(line: str) -> None:
    """Print a line of progress to stderr."""
    print(visible(line), file=sys.stderr, flush=True)  # noqa: T201  # a terminal's job


def tell(text: str) -> None:
    """Print to stdout what a person is to read; on its way to another program it stays as it is."""
    sys.stdout.write(visible(text) if sys.stdout.isatty() else text)


def print_json(document: Mapping[str, Any]) -> None:
    """Print the one document of a command to stdout."""
    sys.stdout.write(json.dumps(document) + "\n")


class LoadingSaid:
    """Prints how far a load is: on a terminal in one line for each stage, elsewhere a line for every tenth of it."""

    def __init__(self) -> None:
        self._last = ("", -1)  # the stage, and the tenth of it
        self._written = 0  # characters of the line that is rewritten

    def hear(self, event: Loading) -> None:
        """Print or rewrite a line, if it is due."""
        line = event.stage if event.total == 1 else f"{event.stage}: {event.done} of {event.total}"
        last, self._last = self._last, (event.stage, 10 * event.done // event.total)
        if not sys.stderr.isatty():
            if self._last != last:
                say(line)
            return
        if event.stage != last[0]:
            self.end()
        line = visible(line)[: shutil.get_terminal_size().columns - 1]  # what wraps cannot be rewritten
        sys.stderr.write(f"\r{line.ljust(self._written)}")
        sys.stderr.flush()
        self._written = len(line)

    def end(self) -> None:
        """Something else is printed next."""
        if self._written:
            say("")
        self._written = 0


class ReadingSaid:
    """Prints how much of a prompt was read that takes long, a line for every tenth, and for every picture."""

    def __init__(self) -> None:
        self._tenths = 0
        self._picture = (0, 0)

    def hear(self, event: Event) -> None:
        """Print a line, if it is due."""
        if not isinstance(event, Reading):
            return
        if event.picture:
            if self._picture != (event.picture, event.pictures):
                self._picture = event.picture, event.pictures
                say(f"Looking at picture {event.picture} of {event.pictures}")
        elif int(10 * event.part) != self._tenths:
            self._tenths = int(10 * event.part)
            say(f"Reading the prompt: {10 * self._tenths} %")

"""What `serve` says on stderr: how the load goes, and a line for each request that is over."""

import threading
import time
from contextlib import suppress

from engine.cli.progress import LoadingSaid, say
from engine.protocol.messages import Loaded, Loading
from engine.protocol.sentences import shown
from engine.protocol.serving import Visit

OVER = ("done", "failed", "gone")


class ServingLog:
    """Writes one whole line at a time, from any thread. A terminal that is gone costs lines, never the server."""

    def __init__(self, quiet: bool = False) -> None:
        """`quiet`: nothing of requests."""
        self._quiet = quiet
        self._writing = threading.Lock()
        self._loading = LoadingSaid()

    def tell(self, event: object) -> None:
        """A `Visit`, as it stands now."""
        if isinstance(event, Visit) and event.state in OVER and not self._quiet:
            self.say(line_of(event))

    def tell_load(self, event: object) -> None:
        """An event of the load."""
        if isinstance(event, Loading):
            with self._writing, suppress(OSError, ValueError):
                self._loading.hear(event)
        elif isinstance(event, Loaded):
            self.say(f"{event.target.name} is loaded, for {event.context_tokens} tokens of context")
            if event.target.note:
                self.say(event.target.note)

    def say(self, line: str) -> None:
        """One line."""
        with self._writing, suppress(OSError, ValueError):
            self._loading.end()
            say(line)

    def end(self) -> None:
        """Nothing more is said of the load."""
        with self._writing, suppress(OSError, ValueError):
            self._loading.end()


def line_of(visit: Visit) -> str:
    """When, who, what, and what came of it; what a client wrote stands in quotes, without control characters."""
    parts = [
        time.strftime("%Y-%m-%d %H:%M:%S"),
        visit.client,
        shown(visit.agent),
        shown(visit.path),
        str(visit.status),
        f"{visit.prompt_tokens} + {visit.new_tokens} tokens" if visit.prompt_tokens else "",
        f"{visit.seconds:.2f} s",
        visit.state if visit.state != "done" else "",
        visit.words,
    ]
    return "  ".join(part for part in parts if part)

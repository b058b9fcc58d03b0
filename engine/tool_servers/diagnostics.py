"""What was seen of a connection beside its messages: why it ended, and what its server wrote to its error output."""

from collections import deque
from dataclasses import dataclass, field

MOST_LINES = 40
MOST_IN_A_LINE = 500  # characters


@dataclass(slots=True)
class Diagnostics:
    """`reason` and `hint`: why the connection ended, once that is known; `status`: the last one of HTTP from 400 on.

    `elsewhere`: where an address led last, if it was not followed; `knows_no_handshake`: the server has the newest
    protocol alone; `is_leaving`: what ends from now on ends because it is told to.
    """

    reason: str = ""
    hint: str = ""
    status: int = 0
    elsewhere: str = ""
    knows_no_handshake: bool = False
    is_leaving: bool = False
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_LINES))

    def saw(self, line: bytes) -> None:
        """Keep a line, as text that can be shown; empty ones are not kept."""
        text = "".join(each for each in line[: 4 * MOST_IN_A_LINE].decode("utf-8", "replace") if each.isprintable())
        if text.strip():
            self.lines.append(text if len(text) <= MOST_IN_A_LINE else text[: MOST_IN_A_LINE - 1] + "…")

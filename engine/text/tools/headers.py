"""Headers of messages in gpt-oss's format, where tools may be called: whom one is for, and what it is."""

import re
from collections.abc import Mapping

from engine.text.tools.call_syntax import HARMONY_CALL

RECIPIENT = re.compile(r"\bto=(?:functions\.)?([^\s<>{}]+)")
SAID = ("final", "commentary")  # the channels of the answer, and of what is said before a call


class Headers:
    """Collects the parts of a header between its control tokens, and says what the message behind it is."""

    def __init__(self, marks: Mapping[int, str], is_open: bool = False) -> None:
        """`marks`: the control tokens that are text where calls are. `is_open`: the answer begins inside a header."""
        self.marks = marks
        self.is_open = is_open
        self._parts: list[str] = []

    def add(self, part: str) -> None:
        """More of the header, up to a control token."""
        self.is_open = False
        self._parts.append(part.strip())

    def take(self) -> tuple[bool, str]:
        """Whether the message is a thought; if not, the mark that stands for its header: that of a call, or none."""
        header, self._parts = " ".join(filter(None, self._parts)), []
        if called := RECIPIENT.search(header):
            return False, HARMONY_CALL.format(name=called[1])
        words = header.split()
        return bool(words) and words != ["assistant"] and not any(each in words for each in SAID), ""

"""Where a text that is filled into a file ends: at a line that is indented less, or at the end of one that is late."""

import time
from collections.abc import Callable

INDENTS, BREAKS = " \t", "\r\n"


class LineLimits:
    """Lets text through as long as it is within its limits; both are about lines behind the first, as llama-server's.

    Blank lines may have any indentation.
    """

    def __init__(self, indent: int = 0, seconds: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        """`indent`: how many spaces and tabs a line begins with at least; `seconds`: since the first text; 0: any."""
        self.is_over = False
        self._indent, self._seconds, self._clock = indent, seconds, clock
        self._begin: float | None = None
        self._held = ""  # the end of a line, and what the next one begins with, as far as that is blank

    def let_through(self, text: str) -> str:
        """Take more text; returns what of it, and of the text held before, is certainly within the limits."""
        if self.is_over:
            return ""
        self._begin = self._clock() if self._begin is None else self._begin
        text, self._held = self._held + text, ""
        if "\n" in text and 0 < self._seconds < self._clock() - self._begin:
            self.is_over = True
            return text.partition("\n")[0]
        return self._indented(text) if self._indent else text

    def release(self) -> str:
        """What was held back; for the end of the text."""
        held, self._held = self._held, ""
        return held

    def _indented(self, text: str) -> str:
        end = text.find("\n")
        while end >= 0:
            begin = end + 1
            while begin < len(text) and text[begin] in INDENTS:
                begin += 1
            if begin == len(text):
                self._held = text[end:]
                return text[:end]
            if text[begin] not in BREAKS and begin - end - 1 < self._indent:
                self.is_over = True
                return text[:end]
            end = text.find("\n", begin)
        return text

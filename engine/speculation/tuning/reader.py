"""Which of several methods has read the text so far, and what becomes of one that memory ran out for."""

from collections.abc import Sequence

from engine.errors import OutOfMemory
from engine.protocol.sentences import joined, say
from engine.speculation.interfaces import Method

PAUSE = 4  # rounds until a method that had no memory to read the text is tried again; each time twice as many


class Reader:
    """Lets one method at a time read the text. `method`: the one that has; None before, and where memory ran out."""

    def __init__(self) -> None:
        self.method: Method | None = None
        self._refused, self._resting = "", 0  # a method that memory ran out for, and rounds until it may read again
        self._pause = PAUSE
        self._shortage: OutOfMemory | None = None  # the last of this answer

    def rest(self) -> None:
        """A round begins."""
        self._resting = max(0, self._resting - 1)

    def may_read(self, name: str) -> bool:
        """Whether a method may be asked to read in this round."""
        return not self._resting or name != self._refused

    def read(self, method: Method, tokens: Sequence[int]) -> bool:
        """Have a method read the text; False where memory ran out, which no answer is to end by."""
        self.method = None
        try:
            method.prefill(tokens)
        except OutOfMemory as error:
            self._shortage = error.with_traceback(None)
            self._refused, self._resting = method.name, self._pause
            self._pause *= 2
            return False
        self.method = method
        return True

    @property
    def words(self) -> str:
        """What memory has done to this answer, and what to do, for the person; empty if nothing."""
        if not self._shortage:
            return ""
        plainly = say("As long as the draft could not read the text, every pass wrote one token.")
        return joined((self._shortage.message, plainly, self._shortage.hint))

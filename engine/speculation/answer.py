"""The answer being written: its text, and when it ends."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from engine.protocol.messages import FinishReason


class TextSink(Protocol):
    """Turns tokens into text that is safe to show; `engine.text.reasoning_stream.ReasoningStream` is one."""

    @property
    def stopped(self) -> bool:
        """Whether the text has ended by itself."""

    def push(self, token: int) -> str:
        """Take a token, return the text that can be shown now."""

    def flush(self) -> str:
        """Return what was held back."""


@dataclass(frozen=True, slots=True)
class Written:
    """Text that can be shown, and how many of its characters came with each token; some came with none, or later."""

    text: str
    lengths: tuple[int, ...]


class Answer:
    """Ends at an end token, at a stop string, or when `max_new_tokens` are written, whichever comes first."""

    def __init__(self, sink: TextSink, end_tokens: Set[int], max_new_tokens: int) -> None:
        """`end_tokens` may be empty, to write on past every end. The end token counts as a token of the answer."""
        self.tokens: list[int] = []
        self.reason: FinishReason = "length"
        self._sink = sink
        self._end_tokens = end_tokens
        self._max_new_tokens = max_new_tokens
        self._ended = False
        self._unseen = ""
        self._lengths: list[int] = []  # of what each token wrote of `_unseen`

    @property
    def room(self) -> int:
        """Tokens the answer may still grow by; 0 once it has ended."""
        return 0 if self._ended else self._max_new_tokens - len(self.tokens)

    def extend(self, tokens: Sequence[int]) -> int:
        """Take the next tokens, up to the one that ends the answer; returns how many were taken."""
        for taken, token in enumerate(tokens, start=1):
            if self._push(token):
                return taken
        return len(tokens)

    def take_written(self) -> Written:
        """What can be shown and was not taken yet, of the tokens since then."""
        written = Written(self._unseen, tuple(self._lengths))
        self._unseen, self._lengths = "", []
        return written

    def take_rest(self) -> str:
        """The text that was not taken yet, with what was held back; for the end."""
        return self.take_written().text + self._sink.flush()

    def _push(self, token: int) -> bool:
        """Take the next token of the answer; True if it is the last one."""
        assert self.room, "an answer that has ended takes no more tokens"
        self.tokens.append(token)
        self._lengths.append(0)
        if token in self._end_tokens:
            self._ended, self.reason = True, "stop"
            return True
        text = self._sink.push(token)
        self._unseen += text
        self._lengths[-1] = len(text)
        if self._sink.stopped:
            self._ended, self.reason = True, "stop"
        return not self.room

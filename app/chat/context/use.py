"""How much of the context a conversation takes, in numbers and in words."""

from dataclasses import dataclass

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.settings.store import DROP, STOP, SUMMARISE

_CONSEQUENCES = {
    STOP: (mark("nearly full: the next answer may be cut off"), mark("too long to be answered")),
    DROP: (mark("nearly full: the oldest turns will be dropped"), mark("the oldest turns will be dropped")),
    SUMMARISE: (mark("nearly full: the oldest turns will be summarised"), mark("the oldest turns will be summarised")),
}


@dataclass(frozen=True, slots=True)
class ContextUse:
    """`tokens` of what will be read and `room` for the answer, of the context's `context_tokens`; 0: no model."""

    tokens: int = 0
    context_tokens: int = 0
    room: int = 0
    when_full: str = STOP

    @property
    def share(self) -> float:
        """The part of the context that is taken, from 0 to 1."""
        return min(1.0, self.tokens / self.context_tokens) if self.context_tokens else 0.0

    @property
    def is_full(self) -> bool:
        """Whether there is no room for even one token more."""
        return 0 < self.context_tokens <= self.tokens

    @property
    def is_scarce(self) -> bool:
        """Whether the answer might not find room."""
        return 0 < self.context_tokens < self.tokens + self.room

    @property
    def words(self) -> str:
        """Such as `1,200 of 4,096 tokens`, with what is about to happen; empty without a model."""
        if not self.context_tokens:
            return ""
        words = tr("{tokens:,} of {context:,} tokens")
        counted = words.format(tokens=Number(self.tokens), context=Number(self.context_tokens))
        nearly, full = _CONSEQUENCES[self.when_full]
        if self.is_full:
            return f"{counted} · {tr(full)}"
        return f"{counted} · {tr(nearly)}" if self.is_scarce else counted

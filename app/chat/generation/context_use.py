"""How full the context is, and what the next question will push out of it, in words."""

from dataclasses import dataclass
from enum import Enum

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.settings.generation import STOP, SUMMARISE
from engine.protocol.pictures import MOST_PICTURES

_NEARLY = 10  # less than this part of the context is left beside the answer
_MOST_NAMED = 8  # turns


class Level(Enum):
    """How it stands: enough room, little, turns that give way, or none for an answer."""

    OK = "ok"
    NEAR = "near"
    CUT = "cut"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class ContextUse:
    """`tokens` of what will be read and `reserve` for the answer, of the context's `context_tokens`; 0: no model.

    `left_out`: the first words of turns that will no longer be read with the next question, but perhaps as a summary;
    reading will begin at the turn `first` then, and have `tokens_after`. `unread_pictures`: so many of earlier turns
    are not read, because there are too many, or the model reads none.
    """

    tokens: int = 0
    context_tokens: int = 0
    reserve: int = 0
    when_full: str = STOP
    left_out: tuple[str, ...] = ()
    first: int = 0
    tokens_after: int = 0
    unread_pictures: int = 0

    @property
    def share(self) -> float:
        """The part of the context that is taken, from 0 to 1."""
        return min(1.0, self.tokens / self.context_tokens) if self.context_tokens else 0.0

    @property
    def level(self) -> Level:
        """What there is to be said of it."""
        needed = self.tokens_after if self.left_out else self.tokens
        if not self.context_tokens:
            return Level.OK
        if needed >= self.context_tokens:
            return Level.FULL
        if self.left_out:
            return Level.CUT
        spare = self.context_tokens - self.reserve - needed
        # Where turns give way there is something to be told before; else not until the answer might not find room.
        least = 0 if self.when_full == STOP or not self.reserve else self.context_tokens // _NEARLY
        return Level.NEAR if spare < least else Level.OK

    @property
    def is_answer_scarce(self) -> bool:
        """Whether less is left for the answer than it might need, whatever gives way."""
        needed = self.tokens_after if self.left_out else self.tokens
        return 0 < self.context_tokens < needed + self.reserve

    @property
    def words(self) -> str:
        """Such as `1,200 of 4,096 tokens`, with what is about to happen; empty without a model."""
        if not self.context_tokens:
            return ""
        words = tr("{tokens:,} of {context:,} tokens")
        counted = words.format(tokens=Number(self.tokens), context=Number(self.context_tokens))
        return " · ".join(filter(None, (counted, self.consequence, self._unread)))

    @property
    def consequence(self) -> str:
        """What is about to happen; empty where there is nothing to say."""
        match self.level:
            case Level.FULL if not self.reserve:
                return tr("full")  # while an answer is written
            case Level.FULL:
                alone = tr("this question alone is too long to be answered")
                return tr("too long to be answered") if self.when_full == STOP else alone
            case Level.CUT:
                return f"{self._cut}; {tr('the answer may still be cut off')}" if self.is_answer_scarce else self._cut
            case Level.NEAR:
                return self._near
        return ""

    @property
    def explanation(self) -> str:
        """The same at length, with the turns by their first words."""
        words = tr(
            "What the model reads of this chat, the message above included, has {tokens:,} tokens.\n"
            "Its context holds {context_tokens:,}; {room:,} of them are kept free for the answer."
        )
        figures = {"tokens": self.tokens, "context_tokens": self.context_tokens, "room": self.reserve}
        parts = [words.format(**{name: Number(number) for name, number in figures.items()})]
        if self.left_out:
            said = tr("With the next question these turns are no longer read:")
            told = tr("With the next question these turns are read as a summary only:")
            parts.append("\n".join((told if self.when_full == SUMMARISE else said, *self._named)))
        if self.unread_pictures:
            parts.append(
                tr("A model that reads no pictures is shown none; others are shown the last {count} of a chat.").format(
                    count=MOST_PICTURES
                )
            )
        parts.append(tr("Click to choose what happens with a full context."))
        return "\n\n".join(parts)

    @property
    def _unread(self) -> str:
        return tr("%n pictures above are not read", n=self.unread_pictures) if self.unread_pictures else ""

    @property
    def _cut(self) -> str:
        count = len(self.left_out)
        if self.when_full == SUMMARISE:
            return tr("%n oldest turns will be summarised", n=count)
        return tr("%n oldest turns will be left out", n=count)

    @property
    def _near(self) -> str:
        if self.is_answer_scarce:
            return tr("nearly full: the next answer may be cut off")
        if self.when_full == SUMMARISE:
            return tr("nearly full: soon the oldest turns will be summarised")
        return tr("nearly full: soon the oldest turns will be left out")

    @property
    def _named(self) -> list[str]:
        named = [f"– {each}" for each in self.left_out[:_MOST_NAMED]]
        further = len(self.left_out) - _MOST_NAMED
        return [*named, tr("and %n more", n=further)] if further > 0 else named

"""The text of an answer with the marks around its reasoning, where those are control tokens."""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Protocol

from engine.protocol.reasoning import CHANNELS, COMMON, THOUGHT_CHANNEL, Marks
from engine.text.text_stream import TextStream

_LONGEST_HEADER = 32  # tokens; what is longer is no header
_ANSWER = "final"  # the channel of the answer
_NAME = "thought\n"  # of a channel, in the first line of what it says


class Sign(Enum):
    """What a control token says of the text behind it."""

    THOUGHT = auto()
    NAMED_THOUGHT = auto()  # its first line is the name of the channel
    ANSWER = auto()
    HEADER = auto()  # whom a message is by, and which channel it belongs to
    MESSAGE = auto()


class Decoder(Protocol):
    """What is needed of a tokenizer."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the tokens."""


def signs_of(marks: Marks, vocabulary: Mapping[str, int]) -> dict[int, Sign]:
    """The tokens of these marks, and what each one says."""
    if marks == CHANNELS:
        names = {"<|start|>": Sign.HEADER, "<|channel|>": Sign.HEADER, "<|message|>": Sign.MESSAGE}
    elif marks == THOUGHT_CHANNEL:
        names = {marks.begin.removesuffix(_NAME): Sign.NAMED_THOUGHT, marks.end: Sign.ANSWER}
    else:
        names = {marks.begin: Sign.THOUGHT, marks.end: Sign.ANSWER}
    return {vocabulary[name]: sign for name, sign in names.items()}


class ReasoningStream:
    """A `TextStream` that writes `reasoning.COMMON` where control tokens say that a thought begins or ends.

    The rest of a control token's header, such as the name of a channel, is no text.
    """

    def __init__(
        self, text: TextStream, decoder: Decoder, signs: Mapping[int, Sign], shown: str = "", thinks: bool = False
    ) -> None:
        """`shown` is what the prompt wrote of the reasoning: it comes first. `thinks`: the text goes on inside it."""
        self._text = text
        self._decoder = decoder
        self._signs = signs
        self._shown = shown
        self._thinks = thinks
        self._header: list[int] | None = None
        self._name: str | None = None  # what there is of a channel's name so far

    @property
    def stopped(self) -> bool:
        """Whether a stop string has come."""
        return self._text.stopped

    def push(self, token: int) -> str:
        """Take the next token; return the text that can be shown now, which may be empty."""
        if self.stopped:
            return ""
        shown, self._shown = self._shown, ""
        sign = self._signs.get(token)
        if sign is not None:
            return shown + self._text.flush() + self._follow(sign)
        if self._header is None:
            return shown + self._without_name(self._text.push(token))
        self._header.append(token)
        if len(self._header) <= _LONGEST_HEADER:
            return shown
        tokens, self._header = self._header, None
        return shown + "".join(map(self._text.push, tokens))

    def flush(self) -> str:
        """End the text: return what was held back."""
        return self._text.flush()

    def _follow(self, sign: Sign) -> str:
        header, self._header, self._name = self._header or [], None, None
        match sign:
            case Sign.HEADER:
                self._header = []
                return ""
            case Sign.MESSAGE:
                name = self._decoder.decode(header).strip()
                return self._think() if name and name != _ANSWER else self._answer()
            case Sign.THOUGHT:
                return self._think()
            case Sign.NAMED_THOUGHT:
                self._name = ""
                return self._think()
            case Sign.ANSWER:
                return self._answer()

    def _without_name(self, text: str) -> str:
        if self._name is None:
            return text
        self._name += text
        if len(self._name) < len(_NAME) and _NAME.startswith(self._name):
            return ""
        text, self._name = self._name.removeprefix(_NAME), None
        return text

    def _think(self) -> str:
        said = "\n\n" if self._thinks else COMMON.begin
        self._thinks = True
        return said

    def _answer(self) -> str:
        said = COMMON.end if self._thinks else ""
        self._thinks = False
        return said

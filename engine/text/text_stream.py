"""The text of an answer, token by token: only what can no longer change is shown, up to the first stop string.

Not `tokenizers.DecodeStream`: behind byte tokens that make no character (`<0xFF>`) it raises or loses the characters
around them, and it has no end that gives back what it holds.
"""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Protocol

from engine.protocol.reasoning import COMMON
from engine.text.backend import REPLACEMENT
from engine.text.reasoning import ANSWER_CHANNEL, LONGEST_HEADER, NAME_LINE, Sign
from engine.text.tools.headers import Headers

# Tokens kept to decode the next one behind. An incomplete character is at most three bytes, so three tokens, long; a
# window that begins inside a character is right again from its fourth byte on. Eight leave room to spare.
WINDOW = 8


class StopStrings:
    """Lets text through up to the first stop string, which is swallowed with everything behind it.

    First is the one that is complete first; of two that are complete at the same character, the longer. So the result
    does not depend on how the text was cut into pieces.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        """`stop` may be empty; none of its strings may be."""
        assert all(stop), "an empty stop string is complete before the answer begins"
        self.completed = ""  # the stop string that was met
        self._stop = tuple(stop)
        self._longest = max(map(len, stop), default=0)
        self._held = ""

    def let_through(self, text: str) -> str:
        """Take more text; return what of it, and of the text held before, is certainly in no stop string."""
        if self.completed:
            return ""
        text = self._held + text
        ends = [(start + len(stop), start, stop) for stop in self._stop if (start := text.find(stop)) >= 0]
        if ends:
            _, start, self.completed = min(ends)
            self._held = ""
            return text[:start]
        cut = self._first_possible_start(text)
        self._held = text[cut:]
        return text[:cut]

    def release(self) -> str:
        """The beginning of a stop string that was held back; for the end of the text."""
        held, self._held = self._held, ""
        return held

    def _first_possible_start(self, text: str) -> int:
        """Where the longest end of the text begins that could still grow into a stop string."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if any(stop.startswith(text[start:]) for stop in self._stop):
                return start
        return len(text)


class Decoder(Protocol):
    """What a stream needs of a tokenizer."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the tokens."""

    def writes_text(self, token: int) -> bool:
        """Whether the token can appear in text at all."""


def channel_of(header: Sequence[int], decoder: Decoder) -> str:
    """The first word of a message's header; empty where it has none.

    What follows says of which type the content is: `final <|constrain|>json`, also without the space.
    """
    words = decoder.decode([*takewhile(decoder.writes_text, header)]).split()
    return words[0] if words else ""


class TextStream:
    """Turns tokens into text, at a cost per token that does not depend on the length of the answer.

    All texts returned, put together, are the decoded answer up to its first stop string.
    """

    def __init__(self, decoder: Decoder, stop: Sequence[str] = (), begun: Sequence[int] = ()) -> None:
        """Begin a text that ends at any of the `stop` strings; `begun` are the tokens before it, if it goes on."""
        self.stop = ""
        self._decoder = decoder
        self._stop = StopStrings(stop)
        self._window = [token for token in begun[-WINDOW:] if decoder.writes_text(token)]
        self._settled = len(self._settled_text())

    @property
    def stopped(self) -> bool:
        """Whether a stop string has come: `stop`."""
        return bool(self.stop)

    def push(self, token: int) -> str:
        """Take the next token; return the text that can be shown now, which may be empty.

        Held back are a character whose bytes are incomplete, and what may be the beginning of a stop string. After
        `stopped` everything is ignored, so a round of several tokens can be pushed one by one and left in the middle.
        """
        if self.stopped or not self._decoder.writes_text(token):
            return ""
        self._window.append(token)
        settled = self._settled_text()
        new = settled[self._settled :]
        if len(self._window) >= 2 * WINDOW:
            del self._window[:-WINDOW]
            settled = self._settled_text()
        self._settled = len(settled)
        return self._let_through(new)

    def flush(self) -> str:
        """End the text: return what was held back, an incomplete character as U+FFFD."""
        rest = self._decoder.decode(self._window)[self._settled :]
        self._window.clear()
        self._settled = 0
        return self._let_through(rest) + self._stop.release()

    def _settled_text(self) -> str:
        """The window's text without a last character that more bytes could still complete."""
        return self._decoder.decode(self._window).removesuffix(REPLACEMENT)

    def _let_through(self, text: str) -> str:
        text = self._stop.let_through(text)
        self.stop = self._stop.completed
        return text


class ReasoningStream:
    """A `TextStream` that writes `reasoning.COMMON` where control tokens say that a thought begins or ends.

    The rest of a control token's header, such as the name of a channel, is no text.
    """

    def __init__(
        self,
        text: TextStream,
        decoder: Decoder,
        signs: Mapping[int, Sign],
        shown: str = "",
        thinks: bool = False,
        headers: Headers | None = None,
    ) -> None:
        """`shown` is what the prompt wrote of the reasoning: it comes first. `thinks`: the text goes on inside it.

        `headers`: what reads them where tools may be called; control tokens that it knows are text then.
        """
        self._headers = headers
        self._text = text
        self._decoder = decoder
        self._signs = signs
        self._shown = shown
        self._thinks = thinks
        self._header: list[int] | None = [] if headers and headers.is_open else None
        self._name: str | None = None  # what there is of a channel's name so far

    @property
    def stopped(self) -> bool:
        """Whether a stop string has come."""
        return self._text.stopped

    @property
    def stop(self) -> str:
        """The stop string that has come; empty if none has."""
        return self._text.stop

    def push(self, token: int) -> str:
        """Take the next token; return the text that can be shown now, which may be empty."""
        if self.stopped:
            return ""
        shown, self._shown = self._shown, ""
        sign = self._signs.get(token)
        if sign is not None:
            return shown + self._text.flush() + self._follow(sign)
        if self._headers and token in self._headers.marks:
            return shown + self._text.flush() + self._mark(token)
        if self._header is None:
            return shown + self._without_name(self._text.push(token))
        self._header.append(token)
        if len(self._header) <= LONGEST_HEADER:
            return shown
        tokens, self._header = self._header, None
        return shown + "".join(map(self._text.push, tokens))

    def flush(self) -> str:
        """End the text: return what was held back."""
        if self._headers and self._headers.is_open:  # what was taken for a header had no end
            tokens, self._header = self._header or [], None
            return "".join(map(self._text.push, tokens)) + self._text.flush()
        return self._text.flush()

    def _mark(self, token: int) -> str:
        """A control token around calls is text, except inside a header."""
        assert self._headers
        if self._header is not None:
            self._headers.add(self._decoder.decode(self._header))
            self._header = []
            return ""
        return "" if self.stopped else self._headers.marks[token]

    def _follow(self, sign: Sign) -> str:
        header, self._header, self._name = self._header or [], None, None
        match sign:
            case Sign.HEADER:
                self._header = []
                if self._headers:
                    self._headers.add(self._decoder.decode(header))
                return ""
            case Sign.MESSAGE:
                return self._message(header)
            case Sign.THOUGHT:
                return self._think()
            case Sign.NAMED_THOUGHT:
                self._name = ""
                return self._think()
            case Sign.ANSWER:
                return self._answer()

    def _message(self, header: Sequence[int]) -> str:
        if self._headers is None:
            return self._answer() if channel_of(header, self._decoder) in ("", ANSWER_CHANNEL) else self._think()
        self._headers.add(self._decoder.decode(header))
        is_thought, mark = self._headers.take()
        return self._think() if is_thought else self._answer() + mark

    def _without_name(self, text: str) -> str:
        if self._name is None:
            return text
        self._name += text
        if len(self._name) < len(NAME_LINE) and NAME_LINE.startswith(self._name):
            return ""
        text, self._name = self._name.removeprefix(NAME_LINE), None
        return text

    def _think(self) -> str:
        said = "\n\n" if self._thinks else COMMON.begin
        self._thinks = True
        return said

    def _answer(self) -> str:
        said = COMMON.end if self._thinks else ""
        self._thinks = False
        return said

"""Where a constraint of the answer begins: behind the model's reasoning, which is free. States, as a grammar's."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby

from engine.text.grammars.grammar import NOTHING, AnswerState, Free
from engine.text.grammars.vocabulary import GrammarVocabulary
from engine.text.reasoning import ANSWER_CHANNEL, LONGEST_HEADER, Sign
from engine.text.text_stream import Decoder, channel_of
from engine.text.tools.headers import RECIPIENT

GAP = 2  # tokens of line breaks between reasoning and answer, which are part of neither


class Masks:
    """Bits for sets of tokens, and the tokens that a text goes on with; each is found once."""

    def __init__(self, vocabulary: GrammarVocabulary) -> None:
        self.vocabulary = vocabulary
        self.breaks = frozenset(token for token, text in vocabulary.spelled.items() if not text.strip(b"\n"))
        self._openings: dict[bytes, frozenset[int]] = {}
        self._closing: dict[tuple[bytes, int], dict[int, bytes]] = {}
        self._nearing: dict[tuple[bytes, ...], frozenset[int]] = {}

    def opening(self, rest: bytes) -> frozenset[int]:
        """Tokens whose text begins with `rest`, or is a beginning of it."""
        if rest not in self._openings:
            spelled = self.vocabulary.spelled.items()
            fitting = frozenset(token for token, text in spelled if text.startswith(rest) or rest.startswith(text))
            self._openings[rest] = fitting
        return self._openings[rest]

    def closing(self, mark: bytes, known: int) -> dict[int, bytes]:
        """Tokens that complete a mark of which so many bytes are there, with what else they write behind it."""
        if (mark, known) not in self._closing:
            parted = ((token, text.partition(mark[known:])) for token, text in self.vocabulary.spelled.items())
            fitting = {token: more for token, (before, _, more) in parted if more and not (known and before)}
            self._closing[mark, known] = fitting
        return self._closing[mark, known]

    def nearing(self, marks: tuple[bytes, ...]) -> frozenset[int]:
        """Tokens with one of the marks in their text, or with the beginning of one at its end."""
        if marks not in self._nearing:
            begun = {mark[:size] for mark in marks for size in range(1, len(mark))}
            found = re.compile(b"|".join([*map(re.escape, marks), *(re.escape(each) + rb"\Z" for each in begun)]))
            spelled = self.vocabulary.spelled.items() if marks else ()
            self._nearing[marks] = frozenset(token for token, text in spelled if found.search(text))
        return self._nearing[marks]

    def behind(self, state: AnswerState, text: bytes) -> AnswerState:
        """The state with more text behind it, whichever tokens write it."""
        tokens, spelled = self.vocabulary.encode(text), self.vocabulary.spelled
        if b"".join(spelled[token] for token in tokens) != text:
            return NOTHING
        return reduce(lambda state, token: state.follow(token), tokens, state)

    def all_but(self, tokens: Collection[int]) -> bytes:
        """Every token of the vocabulary but these."""
        bits = (1 << self.vocabulary.size) - 1
        for token in tokens:
            bits &= ~(1 << token)
        return bits.to_bytes(-(-self.vocabulary.size // 32) * 4, "little")

    def union(self, masks: Iterable[bytes]) -> bytes:
        """What one of them allows."""
        each = [*masks]
        bits = reduce(int.__or__, (int.from_bytes(mask, "little") for mask in each))
        return bits.to_bytes(max(map(len, each)), "little")

    def also(self, state: AnswerState, tokens: Collection[int]) -> bytes | None:
        """What the state allows, and these tokens; a state that is not possible allows none."""
        mask = state.allowed() if state.is_possible else b""
        if mask is None:
            return None
        size = max(len(mask), -(-self.vocabulary.size // 32) * 4)
        bits = int.from_bytes(mask, "little")
        for token in tokens:
            bits |= 1 << token
        return bits.to_bytes(size, "little")


@dataclass(frozen=True, slots=True)
class Gap(Free):
    """Behind the reasoning: line breaks, then the answer."""

    masks: Masks
    answer: AnswerState
    left: int = GAP

    def follow(self, token: int) -> AnswerState:
        """A line break is no text of the answer."""
        if self.left and token in self.masks.breaks:
            return Gap(self.masks, self.answer, self.left - 1)
        return self.answer.follow(token)

    def allowed(self) -> bytes | None:
        """Line breaks, and what the answer may begin with."""
        return self.masks.also(self.answer, self.masks.breaks if self.left else ())


@dataclass(frozen=True, slots=True)
class Thinking(Free):
    """Inside reasoning that a control token ends."""

    ends: Collection[int]
    behind: AnswerState

    def follow(self, token: int) -> AnswerState:
        """The answer comes behind its end."""
        return self.behind if token in self.ends else self


@dataclass(frozen=True, slots=True)
class Choosing(Free):
    """The model may reason first, which a control token begins, or answer."""

    masks: Masks
    begins: Collection[int]
    thinking: AnswerState
    answer: AnswerState

    def follow(self, token: int) -> AnswerState:
        """By the first token."""
        return self.thinking if token in self.begins else self.answer.follow(token)

    def allowed(self) -> bytes | None:
        """That token, and what the answer may begin with."""
        return self.masks.also(self.answer, self.begins)


@dataclass(frozen=True, slots=True)
class ThinkingInText(Free):
    """Inside reasoning whose end is ordinary text; `tail`: the last of it, which may be the beginning of that.

    What a token writes behind the end belongs to the answer already, and must fit the constraint.
    """

    masks: Masks
    end: bytes
    answer: AnswerState
    tail: bytes = b""

    def follow(self, token: int) -> AnswerState:
        """The answer begins behind the end."""
        text = self.tail + self.masks.vocabulary.spelled.get(token, b"")
        _, found, rest = text.partition(self.end)
        if not found:
            return ThinkingInText(self.masks, self.end, self.answer, text[max(0, len(text) - len(self.end) + 1) :])
        return self._behind(rest.lstrip(b"\n"))

    def allowed(self) -> bytes | None:
        """Anything but an end with a wrong beginning of the answer in the same token."""
        begun = (known for known in range(len(self.end)) if self.tail.endswith(self.end[:known]))
        ends = {token: more for known in begun for token, more in self.masks.closing(self.end, known).items()}
        wrong = [token for token, more in ends.items() if not self._behind(more.lstrip(b"\n")).is_possible]
        return self.masks.all_but(wrong) if wrong else None

    def _behind(self, text: bytes) -> AnswerState:
        """The answer that begins with this text."""
        return self.masks.behind(self.answer, text) if text else Gap(self.masks, self.answer)


@dataclass(frozen=True, slots=True)
class ChoosingInText(Free):
    """The model may reason first, which ordinary text begins, or answer; `said`: what could become either by now."""

    masks: Masks
    begin: bytes
    thinking: ThinkingInText
    answer: AnswerState
    said: bytes = b""

    def follow(self, token: int) -> AnswerState:
        """Both go on as long as the text is a beginning of the mark."""
        said = self.said + self.masks.vocabulary.spelled.get(token, b"")
        answer = self.answer.follow(token)
        if said.startswith(self.begin):
            return self.thinking
        if said != self.said and self.begin.startswith(said):
            return ChoosingInText(self.masks, self.begin, self.thinking, answer, said)
        return answer

    def allowed(self) -> bytes | None:
        """What either goes on with."""
        return self.masks.also(self.answer, self.masks.opening(self.begin[len(self.said) :]))


@dataclass(frozen=True, slots=True)
class Channels(Free):
    """Messages in channels, each with its header; the answer is what comes in that of answers.

    `header`: the tokens of one that is being written, else None. `calls`: by a tool's name what a message to it is.
    """

    signs: Mapping[int, Sign]
    decoder: Decoder
    answer: AnswerState
    header: tuple[int, ...] | None = None
    calls: Mapping[str, AnswerState] = field(default_factory=dict)

    def follow(self, token: int) -> AnswerState:
        """A header ends where its message begins."""
        sign, header = self.signs.get(token), self.header
        if sign is Sign.MESSAGE:
            return self._message(header or ())
        if sign is Sign.HEADER or (header is not None and len(header) < LONGEST_HEADER):
            header = (*header, token) if header is not None else ()
        else:
            header = None
        return Channels(self.signs, self.decoder, self.answer, header, self.calls)

    def _message(self, header: tuple[int, ...]) -> AnswerState:
        parts = [tuple(run) for is_sign, run in groupby(header, lambda token: token in self.signs) if not is_sign]
        if parts and channel_of(parts[-1], self.decoder) == ANSWER_CHANNEL:
            return self.answer
        runs = (run for is_text, run in groupby(header, self.decoder.writes_text) if is_text)
        called = RECIPIENT.search(" ".join(self.decoder.decode([*run]).strip() for run in runs))
        after = Channels(self.signs, self.decoder, self.answer, None, self.calls)
        return self.calls.get(called[1], after) if called else after

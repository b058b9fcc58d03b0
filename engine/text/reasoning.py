"""Where a model reasons: found in its tokens, its template and its prompt, and marked in the text of its answers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import CHANNELS, COMMON, MARKS, THOUGHT_CHANNEL, Marks
from engine.text.text_stream import Decoder, TextStream
from engine.text.tools.headers import Headers

_CONTROL = re.compile(r"<\|[^<>|]+\|?>|<[^<>|]+\|>|\[/?THINK\]|◁/?think▷|</?[a-z:]+>")

LONGEST_HEADER = 32  # tokens of a message's header; what is longer is none
ANSWER_CHANNEL = "final"
_NAME = "thought\n"  # of a channel, in the first line of what it says


@dataclass(frozen=True, slots=True)
class ReasoningText:
    """The reasoning before an answer; `is_open`: it has not ended, so there is no answer yet."""

    text: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class Opening:
    """How a prompt begins an answer. `marks` are those that it has opened itself, `shown` how they look in text."""

    text: str
    marks: Marks | None = None
    shown: str = ""


class Reasoning:
    """Knows the marks of one model: `own` as it writes them, `shown` as they stand in the text of its answers.

    They differ where its own are control tokens: those are no text, and would be lost with what they mean.
    """

    def __init__(self, added_tokens: Mapping[str, bool], template: str) -> None:
        """`added_tokens` says of each token beside the learnt vocabulary whether it is special."""
        controls = (each for each in MARKS if _are_controls(each, added_tokens))
        self._template = template
        self.is_control = True
        self.is_known = True  # that the model reasons: its tokens or its template say so
        self.own = next(controls, COMMON)
        if not _are_controls(self.own, added_tokens):
            written = next((each for each in MARKS if each.end in template), None)
            self.is_control, self.is_known = False, written is not None
            self.own = written or COMMON
        self.shown = COMMON if self.is_control else self.own

    def opening(self, prompt: str) -> Opening:
        """Whether the prompt opens the reasoning itself, as some templates do."""
        for marks in (self.own, *MARKS):
            mark = marks.begin.strip()
            if mark in self._template and prompt.rstrip().endswith(mark):
                space = prompt[len(prompt.rstrip()) :]
                shown = self.shown if marks == self.own else marks
                return Opening(prompt, marks, shown.begin.strip() + space)
        return Opening(prompt)

    def divide(self, text: str, marks: Marks) -> tuple[ReasoningText | None, str]:
        """The thought that a text begins with, between these marks, and the answer behind it."""
        here = text.lstrip()
        if not here.startswith(marks.begin.strip()):
            return None, text
        thought, found, answer = here[len(marks.begin.strip()) :].partition(marks.end)
        return ReasoningText(thought, not found), answer

    def write_on(self, opening: Opening, thought: ReasoningText | None, answer: str) -> str | None:
        """The text to put behind the prompt to continue the answer; None where that is the answer as it stands."""
        if opening.marks is None:
            if thought is None or not self.is_control:
                return None
            return self.own.begin + thought.text + ("" if thought.is_open else self.own.end + answer)
        end = opening.marks.end
        if thought is not None:
            space = opening.text[len(opening.text.rstrip()) :]
            return thought.text.removeprefix(space) + ("" if thought.is_open else end + answer)
        if end in answer:  # the text begins inside the thought
            return answer
        return f"{end}{answer}" if self.is_control else f"\n{end}\n\n{answer}"  # an answer without a thought

    def look_back(self, message: ChatMessage) -> ChatMessage:
        """An answer of an earlier turn for the template: with its reasoning only if that handles it."""
        if message.role != "assistant" or (not self.is_control and self.shown.end in self._template):
            return message
        thought, answer = self.divide(message.content, self.shown)
        return replace(message, content=answer.lstrip()) if thought else message


def _are_controls(marks: Marks, added_tokens: Mapping[str, bool]) -> bool:
    """Whether the tokenizer has the marks as tokens that it leaves out of text."""
    names = _CONTROL.findall(marks.begin + marks.end)
    return all(name in added_tokens for name in names) and any(added_tokens.get(name) for name in names)


class Sign(Enum):
    """What a control token says of the text behind it."""

    THOUGHT = auto()
    NAMED_THOUGHT = auto()  # its first line is the name of the channel
    ANSWER = auto()
    HEADER = auto()  # whom a message is by, and which channel it belongs to
    MESSAGE = auto()


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
                return self._message(self._decoder.decode(header))
            case Sign.THOUGHT:
                return self._think()
            case Sign.NAMED_THOUGHT:
                self._name = ""
                return self._think()
            case Sign.ANSWER:
                return self._answer()

    def _message(self, header: str) -> str:
        name = header.strip()
        if self._headers is None:
            return self._think() if name and name != ANSWER_CHANNEL else self._answer()
        self._headers.add(header)
        is_thought, mark = self._headers.take()
        return self._think() if is_thought else self._answer() + mark

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

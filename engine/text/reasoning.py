"""Where a model reasons: found in its tokens, its template and its prompt."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import CHANNELS, COMMON, MARKS, THOUGHT_CHANNEL, Marks

_CONTROL = re.compile(r"<\|[^<>|]+\|?>|<[^<>|]+\|>|\[/?THINK\]|◁/?think▷|</?[a-z:]+>")

LONGEST_HEADER = 96  # tokens of a message's header, with the name of a tool; what is longer is none
ANSWER_CHANNEL = "final"
NAME_LINE = "thought\n"  # of a channel, in the first line of what it says


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
        names = {marks.begin.removesuffix(NAME_LINE): Sign.NAMED_THOUGHT, marks.end: Sign.ANSWER}
    else:
        names = {marks.begin: Sign.THOUGHT, marks.end: Sign.ANSWER}
    return {vocabulary[name]: sign for name, sign in names.items()}

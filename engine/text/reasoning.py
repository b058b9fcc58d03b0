"""Where a model reasons: found in its tokens, its template and its prompt, and told in marks that are text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import COMMON, MARKS, Marks

_CONTROL = re.compile(r"<\|[^<>|]+\|?>|<[^<>|]+\|>|\[/?THINK\]|◁/?think▷|</?[a-z:]+>")


@dataclass(frozen=True, slots=True)
class Thought:
    """What was thought before an answer; `is_open`: the end has not come yet, so there is no answer."""

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
        self.own = next(controls, COMMON)
        if not _are_controls(self.own, added_tokens):
            self.is_control = False
            self.own = next((each for each in MARKS if each.end in template), COMMON)
        self.shown = COMMON if self.is_control else self.own

    def opening(self, prompt: str) -> Opening:
        """What of the reasoning the prompt has begun: some templates write the first mark themselves."""
        for marks in (self.own, *MARKS):
            mark = marks.begin.strip()
            if mark in self._template and prompt.rstrip().endswith(mark):
                space = prompt[len(prompt.rstrip()) :]
                shown = self.shown if marks == self.own else marks
                return Opening(prompt, marks, shown.begin.strip() + space)
        return Opening(prompt)

    def divide(self, text: str, marks: Marks) -> tuple[Thought | None, str]:
        """The thought that a text begins with, between these marks, and the answer behind it."""
        here = text.lstrip()
        if not here.startswith(marks.begin.strip()):
            return None, text
        thought, found, answer = here[len(marks.begin.strip()) :].partition(marks.end)
        return Thought(thought, not found), answer

    def write_on(self, opening: Opening, thought: Thought | None, answer: str) -> str | None:
        """What the model said so far as it goes on behind the prompt; None where that is just the answer's text."""
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
        """An answer of an earlier turn as the template gets it: with its thought only if the template asks for it."""
        if message.role != "assistant" or (not self.is_control and self.shown.end in self._template):
            return message
        thought, answer = self.divide(message.content, self.shown)
        return ChatMessage(message.role, answer.lstrip()) if thought else message


def _are_controls(marks: Marks, added_tokens: Mapping[str, bool]) -> bool:
    """Whether the tokenizer has the marks as tokens that it leaves out of text."""
    names = _CONTROL.findall(marks.begin + marks.end)
    return all(name in added_tokens for name in names) and any(added_tokens.get(name) for name in names)

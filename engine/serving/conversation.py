"""A conversation put together from what clients send: every API cuts its turns in another way."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol

from engine.errors import InputError
from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import Marks
from engine.protocol.sentences import say, shown
from engine.protocol.tools import ToolCall

Speaker = Literal["system", "user", "assistant"]

BETWEEN = "\n\n"  # two texts of the same turn
IMAGES = frozenset({"image", "image_url", "input_image"})


class Conversation:
    """Collects what is said, in its order; what the same speaker says next belongs to the same turn.

    The results of tools are a turn each. Reasoning stands before the answer that it led to, between the model's marks,
    as in the text of answers: the template keeps it or leaves it out.
    """

    def __init__(self, marks: Marks) -> None:
        """`marks`: what stands around reasoning in the text of this model's answers."""
        self._marks = marks
        self._turns: list[ChatMessage] = []
        self._tools: dict[str, str] = {}  # the names of the tools, by the ids of their calls
        self._thought = ""

    def say(self, speaker: Speaker, text: str) -> None:
        """Somebody says something, which may be empty."""
        thought = self._take_thought()
        thought = thought if speaker == "assistant" else ""
        if not self._turns or self._turns[-1].role != speaker:
            self._turns.append(ChatMessage(speaker, thought + text))
        else:
            said = self._turns[-1].content
            text = said + BETWEEN + text if said and text else said or thought + text
            self._turns[-1] = replace(self._turns[-1], content=text)

    def think(self, text: str) -> None:
        """The assistant reasons; forgotten unless it says or calls something then."""
        self._thought = text

    def call(self, call: ToolCall) -> None:
        """The assistant asks for a tool."""
        self._tools[call.id] = call.name
        self.say("assistant", "")
        self._turns[-1] = replace(self._turns[-1], tool_calls=(*self._turns[-1].tool_calls, call))

    def give_back(self, call: str, text: str) -> None:
        """What a tool gave back to the call with this id. Raises `InputError` where nobody made it."""
        if call not in self._tools:
            raise InputError(
                say("A result is for the call {name}, which is not in the conversation.", name=shown(call)),
                say("Send the turn that made the call, too."),
            )
        self._take_thought()
        self._turns.append(ChatMessage("tool", text, tool_call_id=call, name=self._tools[call]))

    @property
    def chat(self) -> tuple[ChatMessage, ...]:
        """The turns so far."""
        return tuple(self._turns)

    def _take_thought(self) -> str:
        """The thought as it stands at the beginning of an answer; templates know it nowhere else."""
        thought, self._thought = self._thought.strip("\n"), ""
        return f"{self._marks.begin.strip()}\n{thought}\n{self._marks.end}\n\n" if thought else ""


class HasText(Protocol):
    """A part of a message."""

    text: str


def texts_of(content: str | Sequence[HasText] | None) -> list[str]:
    """A message's text, or that of each of its parts."""
    return [content] if isinstance(content, str) else [part.text for part in content or ()]


def refuse_images(part: object) -> object:
    """The part of a message as it is; raises `InputError` for a picture, which no model here can see."""
    if isinstance(part, dict) and part.get("type") in IMAGES:
        raise InputError(say("Images cannot be read here."), say("Send text alone."))
    return part

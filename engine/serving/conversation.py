"""A conversation put together from what clients send: every API cuts its turns in another way."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol

from pydantic import BeforeValidator, Field

from engine.errors import InputError
from engine.protocol.messages import ChatMessage, Role
from engine.protocol.reasoning import Marks
from engine.protocol.sentences import say, shown
from engine.protocol.tools import ToolCall
from engine.serving.bounds import MOST_PARTS, Text
from engine.serving.endpoints.sampling_fields import Asked

Speaker = Literal["system", "user", "assistant"]

BETWEEN = "\n\n"  # two texts of the same turn
IMAGES = frozenset({"image", "image_url", "input_image"})
OTHER_MEDIA = frozenset(
    {"audio", "input_audio", "audio_url", "video", "input_video", "video_url", "file", "input_file", "document"}
)


@dataclass(slots=True)
class _Turn:
    role: Role
    texts: list[str] = field(default_factory=list)
    thought: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    answers: ToolCall | None = None


class Conversation:
    """Collects what is said, in its order; what the same speaker says next belongs to the same turn.

    The results of tools are a turn each. Reasoning stands before the answer that it led to, between the model's marks,
    as in the text of answers: the template keeps it or leaves it out.
    """

    def __init__(self, marks: Marks) -> None:
        """`marks`: what stands around reasoning in the text of this model's answers."""
        self._marks = marks
        self._turns: list[_Turn] = []
        self._calls: dict[str, ToolCall] = {}
        self._thought = ""

    def say(self, speaker: Speaker, text: str) -> None:
        """Somebody says something, which may be empty."""
        self._turn_of(speaker).texts.append(text)

    def think(self, text: str) -> None:
        """The assistant reasons; forgotten unless it begins its turn with that."""
        self._thought = text

    def call(self, call: ToolCall) -> None:
        """The assistant asks for a tool."""
        self._calls[call.id] = call
        self._turn_of("assistant").calls.append(call)

    def give_back(self, call: str, text: str) -> None:
        """What a tool gave back to the call with this id. Raises `InputError` where nobody made it."""
        if call not in self._calls:
            words = say("A result is for the call {name}, which is not in the conversation.", name=shown(call))
            raise InputError(words, say("Send the turn that made the call, too."))
        self._thought = ""
        self._turns.append(_Turn("tool", [text], answers=self._calls[call]))

    @property
    def chat(self) -> tuple[ChatMessage, ...]:
        """The turns so far."""
        return tuple(map(self._written, self._turns))

    def _turn_of(self, speaker: Speaker) -> _Turn:
        thought, self._thought = self._thought if speaker == "assistant" else "", ""
        if not self._turns or self._turns[-1].role != speaker:
            self._turns.append(_Turn(speaker, thought=thought.strip("\n")))
        return self._turns[-1]

    def _written(self, turn: _Turn) -> ChatMessage:
        text = BETWEEN.join(filter(None, turn.texts))
        if turn.thought:
            text = f"{self._marks.begin.strip()}\n{turn.thought}\n{self._marks.end}{BETWEEN}{text}"
        if turn.answers:
            return ChatMessage(turn.role, text, tool_call_id=turn.answers.id, name=turn.answers.name)
        return ChatMessage(turn.role, text, tuple(turn.calls))


class TextPart(Asked):
    """A part of a message."""

    type: Literal["text"]
    text: Text


class HasText(Protocol):
    """The same in any API."""

    text: str


def texts_of(content: str | Sequence[HasText] | None) -> list[str]:
    """A message's text, or that of each of its parts."""
    return [content] if isinstance(content, str) else [part.text for part in content or ()]


def refuse_media(part: object) -> object:
    """The part of a message as it is; raises `InputError` for what no model here can read."""
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(kind, str) and kind in IMAGES:
        raise InputError(say("Images cannot be read here."), say("Send text alone."))
    if isinstance(kind, str) and kind in OTHER_MEDIA:
        raise InputError(say("Sound, video and files cannot be read here."), say("Send text alone."))
    return part


TextParts = Annotated[
    list[Annotated[TextPart, BeforeValidator(refuse_media)]], Field(max_length=MOST_PARTS, fail_fast=True)
]


def only_tools(*kinds: str) -> BeforeValidator:
    """Refuses tools of other types, such as those that the servers of others run, and says which."""

    def check(tool: object) -> object:
        kind = tool.get("type") if isinstance(tool, dict) else None
        if isinstance(kind, str) and kind not in kinds:
            words = say("This server has no tool of the type {name}.", name=shown(kind))
            raise InputError(words, say("Leave it out: only tools that your own program runs can be called here."))
        return tool

    return BeforeValidator(check)

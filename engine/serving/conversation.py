"""A conversation put together from what clients send: every API cuts its turns in another way."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Protocol

from pydantic import BeforeValidator, Field

from engine.errors import InputError
from engine.protocol.messages import ChatMessage, Role
from engine.protocol.pictures import MOST_PICTURES
from engine.protocol.reasoning import Marks
from engine.protocol.sentences import say, shown
from engine.protocol.tools import ToolCall
from engine.serving.bounds import MOST_PARTS, Text
from engine.serving.endpoints.sampling_fields import Asked
from engine.serving.pictures import SentPicture

Speaker = Literal["system", "user", "assistant"]

BETWEEN = "\n\n"  # two texts of the same turn
PICTURES = frozenset({"image", "image_url", "input_image"})
OTHER_MEDIA = frozenset(
    {"audio", "input_audio", "audio_url", "video", "input_video", "video_url", "file", "input_file", "document"}
)


@dataclass(frozen=True, slots=True)
class Told:
    """A text and the pictures in it, in their order."""

    text: str = ""
    pictures: tuple[SentPicture, ...] = ()

    def behind(self, text: str) -> "Told":
        """The same with a text before it."""
        return Told(text + self.text, tuple(replace(each, at=len(text) + each.at) for each in self.pictures))


@dataclass(slots=True)
class _Turn:
    role: Role
    texts: list[str] = field(default_factory=list)
    thought: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    answers: ToolCall | None = None
    pictures: list[SentPicture] = field(default_factory=list)
    length: int = 0  # of all texts, and of what stands between them

    def add(self, told: Told) -> None:
        if told.text:
            self.length += len(BETWEEN) if self.texts else 0
            self.texts.append(told.text)
        self.pictures += [replace(each, at=self.length + each.at) for each in told.pictures]
        self.length += len(told.text)


class Conversation:
    """Collects what is said, in its order; what the same speaker says next belongs to the same turn.

    The results of tools are a turn each. Reasoning stands before the answer that it led to, between the model's marks,
    as in the text of answers: the template keeps it or leaves it out. Pictures are shown by the user and by tools.
    """

    def __init__(self, marks: Marks) -> None:
        """`marks`: what stands around reasoning in the text of this model's answers."""
        self._marks = marks
        self._turns: list[_Turn] = []
        self._calls: dict[str, ToolCall] = {}
        self._thought = ""
        self._pictures = 0

    def say(self, speaker: Speaker, told: Told) -> None:
        """Somebody says something, which may be empty. Raises `InputError` for pictures of others than the user."""
        if told.pictures and speaker != "user":
            words = say("Pictures are shown by the user, or come back from tools.")
            raise InputError(words, say("Send them in a message of the user."))
        self._count(told)
        self._turn_of(speaker).add(told)

    def think(self, text: str) -> None:
        """The assistant reasons; forgotten unless it begins its turn with that."""
        self._thought = text

    def call(self, call: ToolCall) -> None:
        """The assistant asks for a tool."""
        self._calls[call.id] = call
        self._turn_of("assistant").calls.append(call)

    def give_back(self, call: str, told: Told) -> None:
        """What a tool gave back to the call with this id. Raises `InputError` where nobody made it."""
        if call not in self._calls:
            words = say("A result is for the call {name}, which is not in the conversation.", name=shown(call))
            raise InputError(words, say("Send the turn that made the call, too."))
        self._thought = ""
        self._count(told)
        self._turns.append(_Turn("tool", answers=self._calls[call]))
        self._turns[-1].add(told)

    @property
    def chat(self) -> tuple[ChatMessage, ...]:
        """The turns so far; long pictures take a while. Raises `InputError` for pictures that are no base64."""
        return tuple(map(self._written, self._turns))

    def _count(self, told: Told) -> None:
        self._pictures += len(told.pictures)
        if self._pictures > MOST_PICTURES:
            words = say("The conversation has more than {most} pictures.", most=MOST_PICTURES)
            raise InputError(words, say("Leave out the oldest ones."))

    def _turn_of(self, speaker: Speaker) -> _Turn:
        thought, self._thought = self._thought if speaker == "assistant" else "", ""
        if not self._turns or self._turns[-1].role != speaker:
            self._turns.append(_Turn(speaker, thought=thought.strip("\n")))
        return self._turns[-1]

    def _written(self, turn: _Turn) -> ChatMessage:
        text, pictures = BETWEEN.join(turn.texts), tuple(each.read() for each in turn.pictures)
        if turn.thought:
            text = f"{self._marks.begin.strip()}\n{turn.thought}\n{self._marks.end}{BETWEEN}{text}"
        if turn.answers:
            its = turn.answers
            return ChatMessage(turn.role, text, tool_call_id=its.id, name=its.name, pictures=pictures)
        return ChatMessage(turn.role, text, tuple(turn.calls), pictures=pictures)


class TextPart(Asked):
    """A part of a message."""

    type: Literal["text"]
    text: Text


class PicturePart(Asked, ABC):
    """A part of a message that shows a picture, in the words of an API."""

    @property
    @abstractmethod
    def sent(self) -> SentPicture:
        """The picture as it came."""


class HasText(Protocol):
    """The same in any API."""

    text: str


def texts_of(content: str | Sequence[HasText] | None) -> list[str]:
    """A message's text, or that of each of its parts."""
    return [content] if isinstance(content, str) else [part.text for part in content or ()]


def told_in(content: str | Sequence[HasText | PicturePart] | None, between: str = "") -> Told:
    """A message's text and pictures; `between`: what stands between the texts of its parts that have any."""
    if isinstance(content, str):
        return Told(content)
    texts, pictures, length = list[str](), list[SentPicture](), 0
    for part in content or ():
        if isinstance(part, PicturePart):
            pictures.append(replace(part.sent, at=length))
        elif part.text:
            length += len(part.text) + (len(between) if texts else 0)
            texts.append(part.text)
    return Told(between.join(texts), tuple(pictures))


def refuse_media(*known: str) -> BeforeValidator:
    """Refuses parts of a message that no model here can read, and pictures in the words of another API.

    `known`: the types of pictures that are.
    """

    def check(part: object) -> object:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind in PICTURES and kind not in known:
            if known:
                words = say("Pictures of the type {name} cannot be read here.", name=shown(kind))
                raise InputError(words, say("Send them as {name}.", name=known[0]))
            raise InputError(say("A picture cannot stand here."), say("Send text alone."))
        if isinstance(kind, str) and kind in OTHER_MEDIA:
            raise InputError(say("Sound, video and files cannot be read here."), say("Send text and pictures alone."))
        return part

    return BeforeValidator(check)


TextParts = Annotated[list[Annotated[TextPart, refuse_media()]], Field(max_length=MOST_PARTS, fail_fast=True)]


def only_tools(*kinds: str) -> BeforeValidator:
    """Refuses tools of other types, such as those that the servers of others run, and says which."""

    def check(tool: object) -> object:
        kind = tool.get("type") if isinstance(tool, dict) else None
        if isinstance(kind, str) and kind not in kinds:
            words = say("This server has no tool of the type {name}.", name=shown(kind))
            raise InputError(words, say("Leave it out: only tools that your own program runs can be called here."))
        return tool

    return BeforeValidator(check)

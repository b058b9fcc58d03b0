"""The blocks that messages are made of, and the conversation that they tell."""

import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from engine.errors import InputError
from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import Marks
from engine.protocol.sentences import say
from engine.protocol.tools import ToolCall
from engine.serving.bounds import MOST_PARTS, Name, Text
from engine.serving.conversation import (
    BETWEEN,
    Conversation,
    PicturePart,
    Speaker,
    TextPart,
    Told,
    refuse_media,
    texts_of,
    told_in,
)
from engine.serving.endpoints.sampling_fields import Asked
from engine.serving.pictures import Base64, SentPicture

FAILED = "Error: "  # chat templates know no other way to say so


class ThinkingBlock(Asked):
    """The reasoning of an earlier answer; its signature is not looked at."""

    type: Literal["thinking"]
    thinking: Text


class RedactedThinkingBlock(Asked):
    """Reasoning that nobody can read any more: passed over."""

    type: Literal["redacted_thinking"]


class ToolUseBlock(Asked):
    """A call that an earlier answer asked for."""

    type: Literal["tool_use"]
    id: Name
    name: Name
    input: dict[str, Any]


def _require_base64(source: object) -> object:
    """The source of a picture as it is; raises `InputError` for one that would have to be fetched."""
    kind = source.get("type") if isinstance(source, dict) else None
    if isinstance(kind, str) and kind in ("url", "file"):
        words = say("Pictures are not fetched from addresses or files here.")
        raise InputError(words, say("Send the picture itself, as a source of the type base64."))
    return source


class PictureSource(Asked):
    """A picture as base64; the type that it is said to have is not looked at."""

    type: Literal["base64"]
    media_type: Name | None = None
    data: Base64


class ImageBlock(PicturePart):
    """A picture."""

    type: Literal["image"]
    source: Annotated[PictureSource, BeforeValidator(_require_base64)]

    @property
    def sent(self) -> SentPicture:
        """The picture as it came."""
        return SentPicture(self.source.data)


Shown = Annotated[TextPart | ImageBlock, Field(discriminator="type")]
ShownParts = Annotated[list[Annotated[Shown, refuse_media("image")]], Field(max_length=MOST_PARTS, fail_fast=True)]


class ToolResultBlock(Asked):
    """What the tool gave back, or how it failed."""

    type: Literal["tool_result"]
    tool_use_id: Name
    content: Text | ShownParts | None = None
    is_error: bool | None = None


Block = Annotated[
    TextPart | ImageBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock,
    Field(discriminator="type"),
]
Blocks = Annotated[list[Annotated[Block, refuse_media("image")]], Field(max_length=MOST_PARTS, fail_fast=True)]


class MessageField(Asked):
    """One message. Several of the same role, one after the other, are one turn."""

    role: Literal["user", "assistant", "system"]
    content: Text | Blocks


def chat_of(messages: list[MessageField], system: str | list[TextPart] | None, marks: Marks) -> tuple[ChatMessage, ...]:
    """The conversation that these messages tell. Raises `InputError` for a result of no call.

    `marks`: what stands around reasoning in the text of the model's answers.
    """
    conversation = Conversation(marks)
    for text in texts_of(system):
        conversation.say("system", Told(text))
    for message in messages:
        for block in [message.content] if isinstance(message.content, str) else message.content:
            _tell(conversation, message.role, block)
    return conversation.chat


def _tell(conversation: Conversation, speaker: Speaker, block: str | Block) -> None:
    match block:
        case str():
            conversation.say(speaker, Told(block))
        case TextPart() | ImageBlock():
            conversation.say(speaker, told_in([block]))
        case ThinkingBlock():
            conversation.think(block.thinking)
        case ToolUseBlock():
            conversation.call(ToolCall(block.id, block.name, json.dumps(block.input, ensure_ascii=False)))
        case ToolResultBlock():
            told = told_in(block.content, BETWEEN)
            conversation.give_back(block.tool_use_id, told.behind(FAILED) if block.is_error else told)

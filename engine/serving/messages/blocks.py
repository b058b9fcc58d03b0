"""The blocks that messages are made of, and the conversation that they tell."""

import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import Marks
from engine.protocol.tools import ToolCall
from engine.serving.bounds import MOST_PARTS, Name, Text
from engine.serving.conversation import BETWEEN, Conversation, Speaker, TextPart, TextParts, refuse_media, texts_of
from engine.serving.endpoints.sampling_fields import Asked

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


class ToolResultBlock(Asked):
    """What the tool gave back, or how it failed."""

    type: Literal["tool_result"]
    tool_use_id: Name
    content: Text | TextParts | None = None
    is_error: bool | None = None


Block = Annotated[
    TextPart | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock, Field(discriminator="type")
]
Blocks = Annotated[list[Annotated[Block, BeforeValidator(refuse_media)]], Field(max_length=MOST_PARTS, fail_fast=True)]


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
        conversation.say("system", text)
    for message in messages:
        for block in [message.content] if isinstance(message.content, str) else message.content:
            _tell(conversation, message.role, block)
    return conversation.chat


def _tell(conversation: Conversation, speaker: Speaker, block: str | Block) -> None:
    match block:
        case str():
            conversation.say(speaker, block)
        case TextPart():
            conversation.say(speaker, block.text)
        case ThinkingBlock():
            conversation.think(block.thinking)
        case ToolUseBlock():
            conversation.call(ToolCall(block.id, block.name, json.dumps(block.input, ensure_ascii=False)))
        case ToolResultBlock():
            text = BETWEEN.join(texts_of(block.content))
            conversation.give_back(block.tool_use_id, f"{FAILED}{text}" if block.is_error else text)

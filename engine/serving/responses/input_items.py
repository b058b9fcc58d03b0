"""The items of a request's input, and the conversation that they are."""

import json
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from engine.errors import InputError
from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import Marks
from engine.protocol.sentences import say
from engine.protocol.tools import ToolCall
from engine.serving.bounds import MOST_PARTS, Name, Text
from engine.serving.conversation import BETWEEN, Conversation, PicturePart, Told, refuse_media, told_in
from engine.serving.endpoints.sampling_fields import Asked
from engine.serving.pictures import PictureUrl, SentPicture, sent_as_url

INPUT = "input"  # the one argument of a tool that takes any text


class ItemText(Asked):
    """Text that went in or came out."""

    type: Literal["input_text", "output_text"]
    text: Text


class ItemPicture(PicturePart):
    """A picture as a data: URL; how much of its `detail` is looked at is the model's affair."""

    type: Literal["input_image"]
    image_url: PictureUrl
    detail: Name | None = None

    @property
    def sent(self) -> SentPicture:
        """The picture as it came."""
        return sent_as_url(self.image_url)


def _refuse_stored(part: object) -> object:
    """Raise `InputError` for a picture that was uploaded somewhere before."""
    if isinstance(part, dict) and part.get("type") == "input_image" and part.get("file_id"):
        words = say("The input refers to a stored picture, and this server stores nothing.")
        raise InputError(words, say("Send the picture itself as a data: URL (data:image/png;base64,…)."))
    return part


ItemPart = Annotated[ItemText | ItemPicture, Field(discriminator="type")]
ItemParts = Annotated[
    list[Annotated[ItemPart, BeforeValidator(_refuse_stored), refuse_media("input_image")]],
    Field(max_length=MOST_PARTS, fail_fast=True),
]


class MessageItem(Asked):
    """What somebody said; those of a `developer` are the system's."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Text | ItemParts


class CallItem(Asked):
    """A call that an earlier answer asked for."""

    type: Literal["function_call"]
    call_id: Name
    name: Name
    arguments: Text


class CustomCallItem(Asked):
    """The same of a tool that takes any text."""

    type: Literal["custom_tool_call"]
    call_id: Name
    name: Name
    input: Text


class ResultItem(Asked):
    """What the tool gave back."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: Name
    output: Text | ItemParts


class ThoughtPart(Asked):
    """Text of an earlier answer's reasoning."""

    text: Text


class ThoughtItem(Asked):
    """The reasoning of an earlier answer."""

    type: Literal["reasoning"]
    content: Annotated[list[ThoughtPart], Field(max_length=MOST_PARTS, fail_fast=True)] | None = None


def _kind_of(item: object) -> object:
    """The `type` of an item, which a message may leave out."""
    if not isinstance(item, dict):
        return getattr(item, "type", None)
    if item.get("type") == "item_reference":
        raise InputError(
            say("The input refers to a stored item, and this server stores nothing."), say("Send the item itself.")
        )
    return str(item.get("type", "message")).replace("custom_tool_call_output", "function_call_output")


InputItem = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[CallItem, Tag("function_call")]
    | Annotated[CustomCallItem, Tag("custom_tool_call")]
    | Annotated[ResultItem, Tag("function_call_output")]
    | Annotated[ThoughtItem, Tag("reasoning")],
    Discriminator(
        _kind_of,
        custom_error_type="item",
        custom_error_message="Input should be a message, a function_call, a function_call_output or a reasoning",
    ),
]


def chat_of(items: str | list[InputItem], instructions: str, marks: Marks) -> tuple[ChatMessage, ...]:
    """The conversation that these items tell, behind the instructions. Raises `InputError` for a result of no call.

    `marks`: what stands around reasoning in the text of the model's answers.
    """
    conversation = Conversation(marks)
    if instructions:
        conversation.say("system", Told(instructions))
    for item in [MessageItem(role="user", content=items)] if isinstance(items, str) else items:
        _tell(conversation, item)
    return conversation.chat


def _tell(conversation: Conversation, item: InputItem) -> None:
    match item:
        case MessageItem():
            conversation.say("system" if item.role == "developer" else item.role, told_in(item.content, BETWEEN))
        case CallItem():
            conversation.call(ToolCall(item.call_id, item.name, item.arguments))
        case CustomCallItem():
            conversation.call(ToolCall(item.call_id, item.name, json.dumps({INPUT: item.input}, ensure_ascii=False)))
        case ResultItem():
            conversation.give_back(item.call_id, told_in(item.output, BETWEEN))
        case ThoughtItem():
            conversation.think("".join(part.text for part in item.content or ()))

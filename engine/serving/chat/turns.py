"""The messages of chat completions, and the conversation that they tell."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import Marks
from engine.protocol.tools import ToolCall
from engine.serving.bounds import MOST_PARTS, MOST_TOOLS, Name, Text
from engine.serving.conversation import Conversation, PicturePart, TextPart, TextParts, Told, refuse_media, told_in
from engine.serving.endpoints.sampling_fields import Asked
from engine.serving.pictures import PictureUrl, SentPicture, sent_as_url


class ImageUrl(Asked):
    """A picture as a data: URL; how much of its `detail` is looked at is the model's affair."""

    url: PictureUrl
    detail: Name | None = None


class ImagePart(PicturePart):
    """A picture in a message; some clients have the URL itself for `image_url`."""

    type: Literal["image_url"]
    image_url: ImageUrl | PictureUrl

    @property
    def sent(self) -> SentPicture:
        """The picture as it came."""
        return sent_as_url(self.image_url if isinstance(self.image_url, str) else self.image_url.url)


Part = Annotated[TextPart | ImagePart, Field(discriminator="type")]
Parts = Annotated[list[Annotated[Part, refuse_media("image_url")]], Field(max_length=MOST_PARTS, fail_fast=True)]


class SpokenMessage(Asked):
    """What a person says, or who tells the model how to behave."""

    role: Literal["system", "developer", "user"]
    content: Text | Parts


class CalledFunction(Asked):
    """What was called, and with what: a JSON object as text."""

    name: Name
    arguments: Text = "{}"


class CallMessage(Asked):
    """A call that an earlier answer asked for."""

    id: Name = ""
    type: Literal["function"] = "function"
    function: CalledFunction


class AssistantMessage(Asked):
    """What the model said. As the last message it is gone on with."""

    role: Literal["assistant"]
    content: Text | TextParts | None = None
    reasoning_content: Text | None = None
    tool_calls: list[CallMessage] | None = Field(default=None, max_length=MOST_TOOLS)


class ToolMessage(Asked):
    """What a tool gave back."""

    role: Literal["tool"]
    content: Text | Parts
    tool_call_id: Name = ""


Message = Annotated[SpokenMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


def chat_of(messages: Sequence[Message], marks: Marks) -> tuple[ChatMessage, ...]:
    """The conversation that these messages tell. Raises `InputError` for a result of no call, and as `chat` does.

    `marks`: what stands around reasoning in the text of the model's answers.
    """
    conversation = Conversation(marks)
    for message in messages:
        _tell(conversation, message, told_in(message.content))
    return conversation.chat


def _tell(conversation: Conversation, message: Message, told: Told) -> None:
    match message:
        case AssistantMessage():
            conversation.think((message.reasoning_content or "").strip())
            conversation.say("assistant", told)
            for call in message.tool_calls or ():
                conversation.call(ToolCall(call.id, call.function.name, call.function.arguments))
        case ToolMessage():
            conversation.give_back(message.tool_call_id, told)
        case SpokenMessage():
            conversation.say("user" if message.role == "user" else "system", told)

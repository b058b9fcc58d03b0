"""The messages of Ollama's chats, and the conversation that they tell."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from engine.errors import InputError
from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import Marks
from engine.protocol.sentences import say
from engine.protocol.tools import ToolCall
from engine.serving.bounds import MOST_TOOLS, Name, Text
from engine.serving.conversation import Conversation
from engine.serving.endpoints.sampling_fields import Asked


def _refuse_images(images: object) -> None:
    if images:
        raise InputError(say("Images cannot be read here."), say("Send text alone."))


NoImages = Annotated[None, BeforeValidator(_refuse_images)]
"""`images`, as long as there are none."""


class AskedFunction(Asked):
    """What was called, and with what."""

    name: Name
    arguments: dict[str, Any] = Field(default_factory=dict)


class AskedCall(Asked):
    """A call that an earlier answer asked for; older clients give it no `id`."""

    id: Name = ""
    function: AskedFunction


class TurnField(Asked):
    """One message. As the last one, the assistant's is gone on with.

    What a tool gave back belongs to the call with the id `tool_call_id`; without one, to the first call of the tool
    `tool_name`, or of any tool, that has no result yet.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: Text = ""
    thinking: Text | None = None
    images: NoImages = None
    tool_calls: list[AskedCall] | None = Field(default=None, max_length=MOST_TOOLS)
    tool_name: Name | None = None
    tool_call_id: Name | None = None


def chat_of(messages: Sequence[TurnField], marks: Marks) -> tuple[ChatMessage, ...]:
    """The conversation that these messages tell. Raises `InputError` for a result of no call.

    `marks`: what stands around reasoning in the text of the model's answers.
    """
    conversation, open_calls = Conversation(marks), _OpenCalls()
    for message in messages:
        if message.role == "tool":
            call = open_calls.close(message.tool_call_id, message.tool_name)
            conversation.give_back(call, message.content)
            continue
        if message.role == "assistant":
            conversation.think((message.thinking or "").strip())
        conversation.say(message.role, message.content)
        for each in message.tool_calls or ():
            conversation.call(open_calls.open(each))
    return conversation.chat


class _OpenCalls:
    """The calls whose results have not come yet, in their order."""

    def __init__(self) -> None:
        self._open: list[ToolCall] = []
        self._count = 0

    def open(self, asked: AskedCall) -> ToolCall:
        arguments = json.dumps(asked.function.arguments, ensure_ascii=False)
        call = ToolCall(asked.id or f"call_{self._count}", asked.function.name, arguments)
        self._open.append(call)
        self._count += 1
        return call

    def close(self, call_id: str | None, name: str | None) -> str:
        """The id of the call that a result is for; of none that was made, what the client said."""
        if call_id:
            fitting = [each for each in self._open if each.id == call_id]
        else:
            fitting = [each for each in self._open if each.name == name or not name]
        if not fitting:
            return call_id or name or ""
        self._open.remove(fitting[0])
        return fitting[0].id

"""The messages of Ollama's chats, and the conversation that they tell."""

import itertools
import json
from collections import defaultdict, deque
from collections.abc import Sequence, Set
from typing import Annotated, Any, Literal

from pydantic import Field

from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import Marks
from engine.protocol.tools import ToolCall
from engine.serving.bounds import MOST_PARTS, MOST_TOOLS, Name, Text
from engine.serving.conversation import Conversation, Told
from engine.serving.endpoints.sampling_fields import Asked
from engine.serving.pictures import Base64, SentPicture

Images = Annotated[list[Base64], Field(max_length=MOST_PARTS, fail_fast=True)]
"""Pictures, which stand before the text."""


class AskedFunction(Asked):
    """What was called, and with what."""

    name: Name
    arguments: dict[str, Any] | None = None


class AskedCall(Asked):
    """A call that an earlier answer asked for; older clients give it no `id`."""

    id: Name | None = None
    function: AskedFunction


class TurnField(Asked):
    """One message. As the last one, the assistant's is gone on with.

    What a tool gave back belongs to the call with the id `tool_call_id`; without one, to the first call of the tool
    `tool_name`, or of any tool, that has no result yet.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: Text | None = None
    thinking: Text | None = None
    images: Images | None = None
    tool_calls: list[AskedCall] | None = Field(default=None, max_length=MOST_TOOLS)
    tool_name: Name | None = None
    tool_call_id: Name | None = None


def told_with(text: str | None, images: Sequence[str] | None) -> Told:
    """A text and the pictures before it."""
    return Told(text or "", tuple(map(SentPicture, images or ())))


def chat_of(messages: Sequence[TurnField], marks: Marks) -> tuple[ChatMessage, ...]:
    """The conversation that these messages tell. Raises `InputError` for a result of no call.

    `marks`: what stands around reasoning in the text of the model's answers.
    """
    given = {call.id for message in messages for call in message.tool_calls or () if call.id}
    conversation, open_calls = Conversation(marks), _OpenCalls(given)
    for message in messages:
        told = told_with(message.content, message.images)
        if message.role == "tool":
            call = open_calls.close(message.tool_call_id, message.tool_name)
            conversation.give_back(call, told)
            continue
        if message.role == "assistant":
            conversation.think((message.thinking or "").strip())
        conversation.say(message.role, told)
        for each in message.tool_calls or ():
            conversation.call(open_calls.open(each))
    return conversation.chat


_Queue = tuple[Literal["id", "name", "all"], str]
_ALL: _Queue = ("all", "")


class _OpenCalls:
    """The calls whose results have not come yet, in their order.

    Each stands in three queues, of its id, of its name and of all, which skip what was closed from another one: a
    request may hold a hundred thousand calls, and a result for each.
    """

    def __init__(self, given: Set[str]) -> None:
        """`given`: the ids that the client knows calls by."""
        self._free_ids = (made for made in map("call_{}".format, itertools.count()) if made not in given)
        self._queues = defaultdict[_Queue, deque[tuple[int, ToolCall]]](deque)
        self._closed = set[int]()
        self._count = 0

    def open(self, asked: AskedCall) -> ToolCall:
        arguments = json.dumps(asked.function.arguments or {}, ensure_ascii=False)
        call = ToolCall(asked.id or next(self._free_ids), asked.function.name, arguments)
        for queue in (("id", call.id), ("name", call.name), _ALL):
            self._queues[queue].append((self._count, call))
        self._count += 1
        return call

    def close(self, call_id: str | None, name: str | None) -> str:
        """The id of the call that a result is for; of none that was made, what the client said."""
        queue = self._queues.get(("id", call_id) if call_id else ("name", name) if name else _ALL, deque())
        while queue:
            number, call = queue.popleft()
            if number not in self._closed:
                self._closed.add(number)
                return call.id
        return call_id or name or ""

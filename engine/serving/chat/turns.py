"""The messages of chat completions, and the conversation that they tell."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import Marks
from engine.protocol.tools import ToolCall
from engine.serving.bounds import MOST_PARTS, MOST_TOOLS, Name, Text
from engine.serving.conversation import refuse_images, texts_of
from engine.serving.endpoints.sampling_fields import Asked


class TextPart(Asked):
    """A part of a message."""

    type: Literal["text"]
    text: Text


Parts = Annotated[list[Annotated[TextPart, BeforeValidator(refuse_images)]], Field(max_length=MOST_PARTS)]


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
    content: Text | Parts | None = None
    reasoning_content: Text | None = None
    tool_calls: list[CallMessage] | None = Field(default=None, max_length=MOST_TOOLS)


class ToolMessage(Asked):
    """What a tool gave back."""

    role: Literal["tool"]
    content: Text | Parts
    tool_call_id: Name = ""


Message = Annotated[SpokenMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


def chat_of(messages: Sequence[Message], marks: Marks) -> tuple[ChatMessage, ...]:
    """The conversation as the engine knows it. `marks`: what stands around reasoning in the text of answers."""
    return tuple(_turns(messages, marks))


def _turns(messages: Sequence[Message], marks: Marks) -> Iterator[ChatMessage]:
    names: dict[str, str] = {}  # of the tools, by the ids of their calls
    for message in messages:
        text = "".join(texts_of(message.content))
        match message:
            case AssistantMessage():
                calls = tuple(ToolCall(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ())
                names.update((call.id, call.name) for call in calls)
                yield ChatMessage("assistant", _thought(message.reasoning_content, marks) + text, calls)
            case ToolMessage(tool_call_id=call):
                yield ChatMessage("tool", text, tool_call_id=call, name=names.get(call, ""))
            case SpokenMessage(role="user"):
                yield ChatMessage("user", text)
            case _:
                yield ChatMessage("system", text)


def _thought(text: str | None, marks: Marks) -> str:
    """Reasoning as it stands at the beginning of an answer."""
    return f"{marks.begin.strip()}\n{text.strip()}\n{marks.end}\n\n" if text and text.strip() else ""

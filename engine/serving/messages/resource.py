"""The message as an object: what comes back whole, and what the first event of a stream holds."""

import uuid
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]


class SaidText(BaseModel):
    """What the answer says."""

    type: Literal["text"] = "text"
    text: str = ""


class SaidThinking(BaseModel):
    """How the model came to it. Nobody signs it."""

    type: Literal["thinking"] = "thinking"
    thinking: str = ""
    signature: str = ""


class SaidToolUse(BaseModel):
    """A tool that the client is asked to run."""

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, Any] = {}


Said = Annotated[SaidText | SaidThinking | SaidToolUse, Field(discriminator="type")]


class MessageUsage(BaseModel):
    """The tokens of one message. `input_tokens`: those that were not in the context already."""

    input_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int = 0
    output_tokens: int = 0


class MessageResource(BaseModel):
    """An answer. `stop_reason` is None only where a stream begins."""

    id: str = Field(default_factory=lambda: f"msg_{uuid.uuid4().hex}")
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[Said] = []
    stop_reason: StopReason | None = None
    stop_sequence: str | None = None
    usage: MessageUsage


class TokenCount(BaseModel):
    """How long a prompt is."""

    input_tokens: int


def usage_of(prompt_tokens: int, cached_tokens: int, new_tokens: int = 0) -> MessageUsage:
    """The figures of an answer."""
    return MessageUsage(
        input_tokens=prompt_tokens - cached_tokens, cache_read_input_tokens=cached_tokens, output_tokens=new_tokens
    )

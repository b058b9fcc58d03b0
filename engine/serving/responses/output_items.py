"""What an answer is made of in the Responses API: items, which grow while the answer is written."""

import uuid
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

ItemStatus = Literal["in_progress", "completed", "incomplete"]


def new_id(kind: str) -> str:
    """An id that no other has, such as `msg_4f…`."""
    return f"{kind}_{uuid.uuid4().hex}"


class OutputText(BaseModel):
    """The text of a message."""

    type: Literal["output_text"] = "output_text"
    text: str = ""
    annotations: list[dict[str, Any]] = []
    logprobs: list[dict[str, Any]] = []


class OutputReasoningText(BaseModel):
    """The text of the reasoning."""

    type: Literal["reasoning_text"] = "reasoning_text"
    text: str = ""


class OutputMessage(BaseModel):
    """What the answer says."""

    type: Literal["message"] = "message"
    id: str = Field(default_factory=lambda: new_id("msg"))
    role: Literal["assistant"] = "assistant"
    status: ItemStatus = "in_progress"
    content: list[OutputText] = []


class OutputReasoning(BaseModel):
    """How the model came to it; nobody writes a summary."""

    type: Literal["reasoning"] = "reasoning"
    id: str = Field(default_factory=lambda: new_id("rs"))
    status: ItemStatus = "in_progress"
    summary: list[dict[str, Any]] = []
    content: list[OutputReasoningText] = []


class OutputCall(BaseModel):
    """A function that the client is asked to call. `call_id`: what its result will be for."""

    type: Literal["function_call"] = "function_call"
    id: str = Field(default_factory=lambda: new_id("fc"))
    call_id: str
    name: str
    status: ItemStatus = "in_progress"
    arguments: str = ""


class OutputCustomCall(BaseModel):
    """A tool that takes any text, which the client is asked to call."""

    type: Literal["custom_tool_call"] = "custom_tool_call"
    id: str = Field(default_factory=lambda: new_id("ctc"))
    call_id: str
    name: str
    status: ItemStatus = "in_progress"
    input: str = ""


OutputItem = Annotated[OutputMessage | OutputReasoning | OutputCall | OutputCustomCall, Field(discriminator="type")]

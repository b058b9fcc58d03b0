"""The response as an object: what comes back whole, and what the first and last events of a stream hold."""

import time
from typing import Literal

from pydantic import BaseModel

from engine.protocol.messages import Statistics
from engine.serving.responses.output_items import OutputItem, new_id
from engine.serving.responses.request import (
    AllowedFunctions,
    ChoiceMode,
    FunctionChoice,
    ReasoningOptions,
    ResponsesFields,
    TextOptions,
    ToolField,
)

Status = Literal["in_progress", "completed", "incomplete", "failed"]
FailureCode = Literal["server_error", "invalid_prompt"]


class InputDetails(BaseModel):
    """Of the tokens that were read, those that were in the context already; the rest was written there."""

    cached_tokens: int
    cache_write_tokens: int


class OutputDetails(BaseModel):
    """Of the tokens that were written, those of the reasoning."""

    reasoning_tokens: int


class ResponseUsage(BaseModel):
    """The tokens of one response."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class IncompleteDetails(BaseModel):
    """Why it is not complete."""

    reason: Literal["max_output_tokens"]


class ResponseFailure(BaseModel):
    """Why there is no answer."""

    code: FailureCode
    message: str


class ResponseResource(BaseModel):
    """A response. It is never stored: `store` is false whatever was asked for."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: Status = "in_progress"
    background: Literal[False] = False
    error: ResponseFailure | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, str] = {}
    model: str
    output: list[OutputItem] = []
    parallel_tool_calls: bool = True
    previous_response_id: None = None
    reasoning: ReasoningOptions
    store: Literal[False] = False
    temperature: float
    text: TextOptions
    tool_choice: ChoiceMode | FunctionChoice | AllowedFunctions = "auto"
    tools: list[ToolField] = []
    top_p: float
    truncation: Literal["disabled"] = "disabled"
    usage: ResponseUsage | None = None


def begin(asked: ResponsesFields, model: str) -> ResponseResource:
    """The response to this request of the model with this name, before there is any of it."""
    return ResponseResource(
        id=new_id("resp"),
        created_at=int(time.time()),
        instructions=asked.instructions,
        max_output_tokens=asked.max_output_tokens,
        metadata=asked.metadata or {},
        model=model,
        parallel_tool_calls=asked.parallel_tool_calls is not False,
        reasoning=asked.reasoning or ReasoningOptions(),
        temperature=1.0 if asked.temperature is None else asked.temperature,
        text=asked.text or TextOptions(),
        tool_choice=asked.tool_choice or "auto",
        tools=asked.tools or [],
        top_p=1.0 if asked.top_p is None else asked.top_p,
    )


def usage_of(statistics: Statistics, reasoning_tokens: int) -> ResponseUsage:
    """The figures of an answer."""
    read, cached, written = statistics.prompt_tokens, statistics.cached_tokens, statistics.new_tokens
    return ResponseUsage(
        input_tokens=read,
        input_tokens_details=InputDetails(cached_tokens=cached, cache_write_tokens=read - cached),
        output_tokens=written,
        output_tokens_details=OutputDetails(reasoning_tokens=reasoning_tokens),
        total_tokens=read + written,
    )

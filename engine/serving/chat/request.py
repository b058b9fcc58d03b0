"""What a client asks of `/v1/chat/completions`."""

import json
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from engine.protocol.options import MOST_TOP_LOG_PROBS, GenerateOptions
from engine.protocol.tools import Tool, ToolChoice
from engine.serving.bounds import MOST_TOOLS, MOST_TURNS, GivenName, Text, ToolName
from engine.serving.chat.turns import Message
from engine.serving.conversation import TextParts, only_tools, texts_of
from engine.serving.endpoints.chunked_fields import ChunkedFields
from engine.serving.endpoints.sampling_fields import Asked, TokensField
from engine.serving.endpoints.template_fields import TemplateFields

MOST_PREDICTED = 1 << 18  # characters that are drafted from; what comes behind them is passed over


class FunctionField(Asked):
    """A function of the client; `parameters`: the JSON schema of its arguments."""

    name: ToolName
    description: Text | None = None
    parameters: dict[str, Any] | None = None


class ToolField(Asked):
    """A tool that the answer may call, and the client runs."""

    type: Literal["function"]
    function: FunctionField

    @property
    def tool(self) -> Tool:
        """As the engine knows it."""
        its = self.function
        return Tool(its.name, its.description or "", json.dumps(its.parameters or {}, ensure_ascii=False))


class NamedFunction(Asked):
    """The name of one of the functions."""

    name: GivenName


class NamedTool(Asked):
    """The tool that is to be called."""

    type: Literal["function"]
    function: NamedFunction


class AllowedTools(Asked):
    """Which of the request's tools may be called, and whether one has to be."""

    mode: Literal["auto", "required"]
    tools: list[NamedTool] = Field(min_length=1, max_length=MOST_TOOLS, fail_fast=True)


class AllowedChoice(Asked):
    """The tools that may be called this time; of the others the model does not hear."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


class PredictionField(Asked):
    """What the answer may be for the most part: it is drafted from, and changes the speed of an answer alone."""

    type: Literal["content"]
    content: Text | TextParts


class ChatFields(ChunkedFields, TemplateFields):
    """A request for chat completions. What is not known here is passed over, as OpenAI's older servers do.

    `max_completion_tokens` goes before `max_tokens`, its former name; without them an answer may fill the context.
    `top_logprobs` tell what the model itself found likeliest, before temperature and filters.
    """

    messages: Annotated[list[Message], Field(min_length=1, max_length=MOST_TURNS, fail_fast=True)]
    max_completion_tokens: TokensField = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MOST_TOP_LOG_PROBS)
    tools: list[Annotated[ToolField, only_tools("function")]] | None = Field(default=None, max_length=MOST_TOOLS)
    tool_choice: Literal["none", "auto", "required"] | NamedTool | AllowedChoice | None = None
    parallel_tool_calls: bool | None = None
    prediction: PredictionField | None = None

    @property
    def choice(self) -> ToolChoice:
        """Whether tools are called, and which."""
        parallel = self.parallel_tool_calls is not False
        if isinstance(self.tool_choice, NamedTool):
            return ToolChoice("required", self.tool_choice.function.name, parallel)
        if isinstance(self.tool_choice, AllowedChoice):
            asked = self.tool_choice.allowed_tools
            return ToolChoice(asked.mode, parallel=parallel, allowed=tuple(each.function.name for each in asked.tools))
        return ToolChoice(self.tool_choice or "auto", parallel=parallel)

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that may be called."""
        return tuple(each.tool for each in self.tools or ())

    def generation(self, choice: int) -> GenerateOptions:
        """The options of one choice. Raises `InputError` for fields that contradict each other."""
        most = self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        top = (self.top_logprobs or 0) if self.logprobs else 0
        made = self.options(most, self.stop, choice=choice, top_log_probs=top, constraint=self.constraint())
        predicted = "".join(texts_of(self.prediction.content if self.prediction else ""))
        return replace(made, prediction=predicted[:MOST_PREDICTED])

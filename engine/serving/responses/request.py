"""What a client asks of `/v1/responses`."""

import json
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from engine.errors import InputError
from engine.protocol.messages import TemplateValues
from engine.protocol.options import Constraint
from engine.protocol.sentences import say
from engine.protocol.tools import Tool, ToolChoice
from engine.serving.bounds import MOST_TOKENS, MOST_TOOLS, MOST_TURNS, GivenName, Name, Text, ToolName, at_most
from engine.serving.conversation import only_tools
from engine.serving.endpoints.constraint_fields import TextConfigFormat, TextFormat, constraint_of_format
from engine.serving.endpoints.sampling_fields import Asked, SamplingFields
from engine.serving.endpoints.template_fields import values_of_effort
from engine.serving.responses.input_items import INPUT, InputItem

LOG_PROBS = "message.output_text.logprobs"
INPUT_SCHEMA = {"type": "object", "properties": {INPUT: {"type": "string"}}, "required": [INPUT]}
MetadataText = Annotated[str, StringConstraints(max_length=4096)]  # comes back with every event that has the response
ChoiceMode = Literal["auto", "required", "none"]


class FunctionTool(Asked):
    """A function that the answer may call."""

    type: Literal["function"]
    name: ToolName
    description: Text | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    @property
    def tool(self) -> Tool:
        """As the engine knows it."""
        return Tool(self.name, self.description or "", json.dumps(self.parameters or {}, ensure_ascii=False))


class CustomTool(Asked):
    """A tool whose input is any text; the form that it may ask for is told to the model, and not enforced."""

    type: Literal["custom"]
    name: ToolName
    description: Text | None = None
    format: dict[str, Any] | None = None

    @property
    def tool(self) -> Tool:
        """As the engine knows it: a function with one argument."""
        definition = (self.format or {}).get("definition")
        told = [self.description or "", definition if isinstance(definition, str) else ""]
        return Tool(self.name, "\n\n".join(filter(None, told)), json.dumps(INPUT_SCHEMA))


ToolField = Annotated[
    Annotated[FunctionTool | CustomTool, Field(discriminator="type")], only_tools("function", "custom")
]


class FunctionChoice(Asked):
    """This one tool has to be called."""

    type: Literal["function", "custom"]
    name: GivenName


class AllowedFunctions(Asked):
    """Which of the request's functions may be called, and whether one has to be."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[FunctionChoice] = Field(min_length=1, max_length=MOST_TOOLS, fail_fast=True)


class TextOptions(Asked):
    """What the answer must look like."""

    format: TextConfigFormat = TextFormat(type="text")


class ReasoningOptions(Asked):
    """How much the model reasons, where its chat template knows that; told back."""

    effort: Name | None = None
    summary: Name | None = None


class ResponsesFields(SamplingFields):
    """The request. What would need a memory of earlier ones is refused."""

    model: Name = ""
    input: Text | Annotated[list[InputItem], Field(max_length=MOST_TURNS, fail_fast=True)]
    instructions: Text | None = None
    max_output_tokens: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    tools: list[ToolField] | None = Field(default=None, max_length=MOST_TOOLS)
    tool_choice: ChoiceMode | FunctionChoice | AllowedFunctions | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: ReasoningOptions | None = None
    metadata: Annotated[dict[Name, MetadataText], at_most(64)] | None = Field(default=None, max_length=64)
    stream: bool | None = None
    store: bool | None = None
    background: bool | None = None
    include: list[Name] | None = Field(default=None, max_length=64)
    top_logprobs: int | None = None
    previous_response_id: Name | None = None
    conversation: Name | dict[str, Any] | None = None

    def check(self) -> None:
        """Raise `InputError` for fields that this server does not support."""
        self.refuse_rounds()
        if self.previous_response_id or self.conversation:
            words = say("This server stores no responses, so that none can be gone on from.")
            raise InputError(words, say("Send the whole conversation as the input."))
        if self.background:
            raise InputError(say("This server answers no requests in the background."), say("Stream the answer."))
        if self.top_logprobs or LOG_PROBS in (self.include or ()):
            raise InputError(
                say("Responses have no log-probabilities here."), say("Ask for chat completions with 'logprobs'.")
            )

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that may be called."""
        return tuple(each.tool for each in self.tools or ())

    @property
    def template_values(self) -> TemplateValues:
        """What the model's chat template is told of reasoning."""
        return tuple(values_of_effort(self.reasoning.effort if self.reasoning else None))

    @property
    def choice(self) -> ToolChoice:
        """Whether they are."""
        parallel = self.parallel_tool_calls is not False
        if isinstance(self.tool_choice, FunctionChoice):
            return ToolChoice("required", self.tool_choice.name, parallel)
        if isinstance(self.tool_choice, AllowedFunctions):
            allowed = tuple(each.name for each in self.tool_choice.tools)
            return ToolChoice(self.tool_choice.mode, parallel=parallel, allowed=allowed)
        return ToolChoice(self.tool_choice or "auto", parallel=parallel)

    def constraint(self) -> Constraint | None:
        """What the answer must look like; None for any text. Raises `InputError` for a schema that is not there."""
        return constraint_of_format(self.text.format) if self.text else None

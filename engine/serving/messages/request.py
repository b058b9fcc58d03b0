"""What a client asks of `/v1/messages`."""

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from engine.protocol.messages import TemplateValues
from engine.protocol.options import Constraint
from engine.protocol.tools import Tool, ToolChoice
from engine.serving.bounds import MOST_TOKENS, MOST_TOOLS, MOST_TURNS, GivenName, Name, Text, ToolName
from engine.serving.conversation import TextPart, only_tools
from engine.serving.endpoints.constraint_fields import FlatSchemaFormat, constraint_of_format
from engine.serving.endpoints.sampling_fields import MOST_STOPS, Asked, SamplingFields, Stop
from engine.serving.endpoints.template_fields import values_of_effort, values_of_type
from engine.serving.messages.blocks import MessageField


class OfferedTool(Asked):
    """A tool that the answer may call, and the client runs."""

    type: Literal["custom"] | None = None
    name: ToolName
    description: Text | None = None
    input_schema: dict[str, Any]

    @property
    def tool(self) -> Tool:
        """As the engine knows it."""
        return Tool(self.name, self.description or "", json.dumps(self.input_schema, ensure_ascii=False))


class AnyChoice(Asked):
    """Whether tools are called: as the model likes, one of them, or none."""

    type: Literal["auto", "any", "none"]
    disable_parallel_tool_use: bool = False


class OneChoice(Asked):
    """This tool is called."""

    type: Literal["tool"]
    name: GivenName
    disable_parallel_tool_use: bool = False


class ThinkingField(Asked):
    """Whether the model reasons, where its chat template knows that, and whether its reasoning is shown."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    display: Literal["summarized", "omitted"] | None = None


class OutputField(Asked):
    """What the answer must look like, and how much the model reasons, where its chat template knows that."""

    format: FlatSchemaFormat | None = None
    effort: Name | None = None


class CountFields(Asked):
    """What is read before an answer: all that tokens are counted of."""

    model: Name = ""
    messages: list[MessageField] = Field(max_length=MOST_TURNS, fail_fast=True)
    system: Text | Annotated[list[TextPart], Field(max_length=MOST_TURNS, fail_fast=True)] | None = None
    tools: list[Annotated[OfferedTool, only_tools("custom")]] | None = Field(default=None, max_length=MOST_TOOLS)
    tool_choice: Annotated[AnyChoice | OneChoice, Field(discriminator="type")] | None = None
    thinking: ThinkingField | None = None
    output_config: OutputField | None = None

    @property
    def template_values(self) -> TemplateValues:
        """What the model's chat template is told of reasoning."""
        switch = values_of_type(self.thinking.type if self.thinking else "")
        return (*switch, *values_of_effort(self.output_config.effort if self.output_config else None))

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that may be called."""
        return tuple(each.tool for each in self.tools or ())

    @property
    def choice(self) -> ToolChoice:
        """Whether they are."""
        asked = self.tool_choice or AnyChoice(type="auto")
        parallel = not asked.disable_parallel_tool_use
        if isinstance(asked, OneChoice):
            return ToolChoice("required", asked.name, parallel)
        return ToolChoice("required" if asked.type == "any" else asked.type, parallel=parallel)


class MessagesFields(CountFields, SamplingFields):
    """The request. Who a `metadata.user_id` is does not matter to anybody here."""

    max_tokens: int = Field(ge=1, le=MOST_TOKENS)
    stop_sequences: list[Stop] | None = Field(default=None, max_length=MOST_STOPS)
    stream: bool | None = None

    @property
    def shows_thoughts(self) -> bool:
        """Whether the answer's reasoning is sent: only to clients that ask for it."""
        thinking = self.thinking
        return thinking is not None and thinking.type != "disabled" and thinking.display != "omitted"

    def constraint(self) -> Constraint | None:
        """What the answer must look like; None for any text. Raises `InputError` for a schema that is not there."""
        return constraint_of_format(self.output_config.format) if self.output_config else None

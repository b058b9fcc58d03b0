"""What else a model's chat template is told, in the fields of OpenAI's API, vLLM and llama-server."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

from engine.errors import InputError
from engine.protocol.messages import TemplateValues
from engine.protocol.sentences import say, shown
from engine.serving.bounds import Name, at_most

MOST_VALUES = 64
OWN = frozenset({"messages", "tools", "documents", "add_generation_prompt", "self"})  # what it is told in any case
SWITCHES = ("enable_thinking", "thinking")  # what templates call whether to reason
NO_EFFORT = "none"

VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
VariableValue = Annotated[str, StringConstraints(max_length=65536)] | bool | int | float | None


class SwitchField(BaseModel):
    """Whether to reason, as the servers of DeepSeek, GLM and Kimi are asked; other types leave it to the model."""

    type: Name


class TemplateFields(BaseModel):
    """Fields of a request for a conversation; a request's model inherits them.

    What a client says in the template's own words goes before `thinking`, and that before an effort.
    """

    chat_template_kwargs: Annotated[dict[VariableName, VariableValue], at_most(MOST_VALUES)] | None = Field(
        None, description="values of the template's variables, as vLLM and llama-server take them"
    )
    reasoning_effort: Name | None = None
    thinking: SwitchField | None = None

    @property
    def template_values(self) -> TemplateValues:
        """All of them, by their names. Raises `InputError` for variables that are not the client's to set."""
        given = self.chat_template_kwargs or {}
        if taken := sorted(OWN.intersection(given)):
            words = say("The chat template is told {name} by the server itself.", name=shown(taken[0]))
            raise InputError(words, say("Leave it out of 'chat_template_kwargs'."))
        switch = values_of_type(self.thinking.type if self.thinking else "")
        return tuple({**dict(values_of_effort(self.reasoning_effort)), **dict(switch), **given}.items())


def values_of_effort(effort: str | None) -> Iterator[tuple[str, str | bool]]:
    """How much to reason, in the variables of templates that know efforts, and of those that know yes and no."""
    if not effort:
        return
    yield "reasoning_effort", effort
    if effort == NO_EFFORT:
        yield from values_of_switch(False)


def values_of_type(kind: str) -> Iterator[tuple[str, bool]]:
    """Whether to reason, by the `type` of a `thinking`."""
    if kind in ("enabled", "disabled"):
        yield from values_of_switch(kind == "enabled")


def values_of_switch(reasons: bool) -> Iterator[tuple[str, bool]]:
    """Whether to reason."""
    return ((name, reasons) for name in SWITCHES)

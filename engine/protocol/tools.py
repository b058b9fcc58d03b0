"""Tools that an answer may call, and the calls: what clients of the server send, and templates and models write."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may ask to have called. `parameters`: the JSON schema of its arguments, as JSON."""

    name: str
    description: str = ""
    parameters: str = "{}"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that an answer asks for. `arguments`: a JSON object, as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call where it stands in an answer: characters `begin` to `end` of its text, the marks around it included."""

    begin: int
    end: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether an answer calls tools: as it likes, not at all, or at least once.

    `name`: the only tool that it may call then, empty for any. `parallel`: several calls in one answer are fine.
    `allowed`: the names of those tools of the request that the model hears of, empty for all.
    """

    mode: Literal["auto", "none", "required"] = "auto"
    name: str = ""
    parallel: bool = True
    allowed: tuple[str, ...] = ()

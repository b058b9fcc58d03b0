"""Tools that an answer may call, and the calls: what clients of the server send, and templates and models write."""

from dataclasses import dataclass


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

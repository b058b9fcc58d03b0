"""How a chat template takes tools, calls and results: found by having it write a small conversation with all three."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

from engine.protocol.messages import ChatMessage
from engine.protocol.tools import Tool, ToolCall
from engine.text.template_renderer import TemplateRefusal
from engine.text.tools.call_syntax import CallSyntax
from engine.text.tools.schemas import is_shallow, parameters_of

Turn = dict[str, Any]
Functions = list[dict[str, Any]]
Render = Callable[[list[Turn], Functions], str]

TOOL = Tool("probe_tool", "probe", '{"type": "object", "properties": {"probe_asks": {"type": "string"}}}')
FIRST = ToolCall("probe0001", "probe_tool", '{"probe_first": "probe_value"}')
SECOND = ToolCall("probe0002", "probe_tool", '{"probe_second": "probe_other"}')
RESULTS = tuple(ChatMessage("tool", f"probe result {n}", (), f"probe000{n}", "probe_tool") for n in (1, 2))
QUESTION = ChatMessage("user", "probe")
BARE_SYSTEM = "You are a helpful assistant with some tools."  # as Phi-4-mini's card has it


@dataclass(frozen=True, slots=True)
class ToolTemplate:
    """What one template wants.

    `tools`: they are a variable of its own, or a part of the system message, as JSON. `empty`: the content of a turn
    that only calls. `as_text`: arguments are a string of JSON, not a dictionary. `one_each`: a turn has one call.
    `syntax`: calls are a part of the content, in the model's own format, as the template forgets them otherwise.
    """

    tools: Literal["variable", "system"] = "variable"
    empty: str | None = ""
    as_text: bool = False
    one_each: bool = False
    syntax: CallSyntax | None = None

    def turn(self, message: ChatMessage) -> Turn:
        """A message as this template reads it."""
        turn: Turn = {"role": message.role, "content": message.content}
        if message.tool_calls and self.syntax:
            turn["content"] = message.content + self.syntax.text(message.tool_calls)
        elif message.tool_calls:
            turn["content"] = message.content or self.empty
            turn["tool_calls"] = [self._call(call) for call in message.tool_calls]
        if message.role == "tool":
            named = {"tool_call_id": message.tool_call_id, "name": message.name}
            turn |= {key: value for key, value in named.items() if value}
        return turn

    def given(self, turns: list[Turn], functions: Functions) -> tuple[list[Turn], Functions]:
        """The turns and the tools as the template takes them."""
        if not functions or self.tools == "variable":
            return turns, functions
        own = [] if turns and turns[0]["role"] == "system" else [{"role": "system", "content": BARE_SYSTEM}]
        first, *others = own + turns
        told = json.dumps([function["function"] for function in functions], ensure_ascii=False)
        return [first | {"tools": told}, *others], []

    def _call(self, call: ToolCall) -> dict[str, Any]:
        arguments = call.arguments if self.as_text else parsed(call.arguments)
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def parsed(arguments: str) -> Any:
    """The arguments as a dictionary where they are one, else the text."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) and is_shallow(value) else arguments


def function_of(tool: Tool) -> dict[str, Any]:
    """A tool as templates know it, which is OpenAI's form."""
    told = {"name": tool.name, "description": tool.description, "parameters": parameters_of(tool)}
    return {"type": "function", "function": told}


def probe_template(render: Render, own: CallSyntax) -> ToolTemplate | None:
    """What the template wants that `render` writes with; None where it does not know tools, or loses their results.

    `own`: how the model writes calls.
    """
    for tools in ("variable", "system"):
        template = ToolTemplate(tools)
        written = _written(template, [QUESTION], render)
        if TOOL.name in written and "probe_asks" in written:
            return _find_calls(template, own, written.count("None"), render)
    return None


def _find_calls(template: ToolTemplate, own: CallSyntax, nones: int, render: Render) -> ToolTemplate | None:
    tried = [replace(template, empty=empty, as_text=as_text) for as_text, empty in product((False, True), ("", None))]
    if own.tags is None:
        tried.append(replace(template, syntax=own))
    for each in tried:
        written = _written(each, [QUESTION, ChatMessage("assistant", "", (FIRST,)), RESULTS[0]], render)
        if written.count("None") <= nones and _has(written, FIRST, RESULTS[0]):
            both = _written(each, [QUESTION, ChatMessage("assistant", "", (FIRST, SECOND)), *RESULTS], render)
            is_whole = _has(both, FIRST, RESULTS[0]) and _has(both, SECOND, RESULTS[1])
            return replace(each, one_each=not is_whole)
    return None


def _written(template: ToolTemplate, messages: Sequence[ChatMessage], render: Render) -> str:
    try:
        return render(*template.given([template.turn(message) for message in messages], [function_of(TOOL)]))
    except TemplateRefusal:
        return ""


def _has(written: str, call: ToolCall, result: ChatMessage) -> bool:
    """Whether a call and its result are there, its arguments neither as Python writes them nor quoted twice."""
    arguments: Mapping[str, str] = json.loads(call.arguments)
    return result.content in written and all(
        key in written and value in written and f"'{key}'" not in written and f'\\"{key}' not in written
        for key, value in arguments.items()
    )

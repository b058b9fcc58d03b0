"""Tools as servers of OpenAI's kind are told of them, and the calls that come back in pieces."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from app.system import json_text as json
from app.system.json_text import parse_json
from engine.protocol.messages import ChatMessage
from engine.protocol.tools import Tool, ToolCall, WrittenCall

MOST_CALLS = 128  # of one answer; more is no answer
_LONGEST_NAME = 256


def tool_fields(tools: tuple[Tool, ...]) -> list[dict[str, Any]]:
    """The tools of a request. What is no schema is told as one that takes anything."""
    return [
        {
            "type": "function",
            "function": {
                "name": each.name,
                "description": each.description,
                "parameters": _object(each.parameters) or {"type": "object", "properties": {}},
            },
        }
        for each in tools
    ]


def call_fields(message: ChatMessage) -> dict[str, Any]:
    """What a turn says of calls beside its text."""
    if message.tool_calls:
        calls = [
            {"id": each.id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}}
            for each in message.tool_calls
        ]
        return {"tool_calls": calls}
    return {"tool_call_id": message.tool_call_id} if message.role == "tool" else {}


@dataclass(slots=True)
class _Begun:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class CallPieces:
    """Puts calls together from what arrives of them."""

    _calls: dict[int, _Begun] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The tool of the newest call; empty where there is none yet."""
        return next(reversed(self._calls.values())).name if self._calls else ""

    def take(self, delta: dict[str, Any]) -> int:
        """Take what a part of the answer says of calls; returns how many characters that was."""
        pieces, length = delta.get("tool_calls"), 0
        for place, piece in enumerate(pieces if isinstance(pieces, list) else ()):
            if not isinstance(piece, dict):
                continue
            number = piece.get("index")
            number = number if type(number) is int else place
            if number not in self._calls and len(self._calls) >= MOST_CALLS:
                continue
            call, function = self._calls.setdefault(number, _Begun()), piece.get("function")
            function = function if isinstance(function, dict) else {}
            call.id = call.id or json.text(piece.get("id"), _LONGEST_NAME)
            call.name = call.name or json.text(function.get("name"), _LONGEST_NAME)
            told = function.get("arguments")
            arguments = told if isinstance(told, str) else json.dumps(told) if isinstance(told, dict) else ""
            call.arguments += arguments
            length += len(arguments)
        return length

    def written(self, begin: int) -> Iterator[tuple[str, WrittenCall]]:
        """Each call as it stands in the text of answers, from this place on; a server tells of no marks."""
        for number, call in sorted(self._calls.items()):
            if call.name:
                arguments = call.arguments.strip() or "{}"
                text = f'\n<tool_call>\n{{"name": {json.dumps(call.name)}, "arguments": {arguments}}}\n</tool_call>'
                made = ToolCall(call.id or f"call_{number}", call.name, arguments)
                yield text, WrittenCall(begin, begin + len(text), made)
                begin += len(text)


def _object(text: str) -> dict[str, Any]:
    try:
        found = parse_json(text.encode())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

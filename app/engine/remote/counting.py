"""How long a prompt is, where an engine elsewhere tells."""

from collections.abc import Sequence
from typing import Any

from app.engine.remote.addresses import COPPICE, LLAMA, VLLM
from app.engine.remote.questions import messages
from app.engine.remote.tool_calls import tool_fields
from app.engine.remote.wire import Wire
from app.system import json_text as json
from app.system.background import Stop
from engine.protocol.messages import ChatMessage
from engine.protocol.tools import Tool

KINDS = (COPPICE, VLLM, LLAMA)
"""Servers that count; others are not asked."""

_MOST_TEXTS = 200  # each is a request of its own


def counted(
    wire: Wire,
    kind: str,
    model: str,
    chat: tuple[ChatMessage, ...],
    texts: Sequence[str],
    tools: tuple[Tool, ...],
    stop: Stop,
) -> tuple[int, tuple[int, ...]]:
    """The tokens of a conversation as a prompt with its tools, and those of each text. Raises `RemoteError`.

    Pictures are not counted: this is asked at every pause in writing, and they are large.
    """
    ask = {LLAMA: _llama, COPPICE: _coppice}.get(kind, _vllm)
    turns = messages(kind, chat)
    told = {"tools": tool_fields(tools)} if tools else {}
    tokens = ask(wire, {"model": model, "messages": turns, **told}, stop) if turns else 0
    return tokens, tuple(
        ask(wire, {"model": model, "prompt": each}, stop) if each else 0 for each in texts[:_MOST_TEXTS]
    ) + (0,) * max(0, len(texts) - _MOST_TEXTS)


def _vllm(wire: Wire, asked: dict[str, Any], stop: Stop) -> int:
    """vLLM counts both at one address."""
    return _count_in(wire.post("/tokenize", asked, stop))


def _llama(wire: Wire, asked: dict[str, Any], stop: Stop) -> int:
    """llama-server counts texts alone; a conversation becomes one first."""
    text = asked.get("prompt", "")
    if turns := asked.get("messages"):
        told = {"tools": asked["tools"]} if "tools" in asked else {}
        applied = wire.post("/apply-template", {"messages": turns, **told}, stop)
        text = str(applied.get("prompt", "")) if isinstance(applied, dict) else ""
    return _count_in(wire.post("/tokenize", {"content": text, "add_special": True}, stop))


def _coppice(wire: Wire, asked: dict[str, Any], stop: Stop) -> int:
    """A Coppice counts texts as llama-server does, and conversations in Anthropic's form, where the system is apart."""
    if not (turns := asked.get("messages")):
        return _count_in(wire.post("/tokenize", {"content": asked["prompt"]}, stop))
    system = "\n\n".join(each["content"] for each in turns if each["role"] == "system")
    said = [_said(each) for each in turns if each["role"] != "system"]
    if not said:
        return 0
    body = {"model": asked["model"], "system": system, "messages": said}
    if "tools" in asked:
        its = [each["function"] for each in asked["tools"]]
        body["tools"] = [
            {"name": each["name"], "description": each["description"], "input_schema": each["parameters"]}
            for each in its
        ]
    found = wire.post("/v1/messages/count_tokens", body, stop)
    return json.count(found.get("input_tokens")) if isinstance(found, dict) else 0


def _said(turn: dict[str, Any]) -> dict[str, str]:
    """A turn as a text alone, results and calls of tools too: the form for them is another one there."""
    calls = [each["function"]["name"] + each["function"]["arguments"] for each in turn.get("tool_calls", ())]
    role = "user" if turn["role"] == "tool" else turn["role"]
    return {"role": role, "content": "\n".join([turn["content"], *calls]) if calls else turn["content"]}


def _count_in(found: Any) -> int:
    if not isinstance(found, dict):
        return 0
    tokens = found.get("tokens")
    return json.count(found.get("count")) or (len(tokens) if isinstance(tokens, list) else 0)

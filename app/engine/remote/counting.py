"""How long a prompt is, where an engine elsewhere tells."""

from collections.abc import Callable, Sequence
from typing import Any

from app.engine.remote.questions import messages
from app.engine.remote.servers import COPPICE, LLAMA, VLLM
from app.engine.remote.wire import Wire
from app.system import json_text as json
from app.system.background import Stop
from engine.protocol.messages import ChatMessage

KINDS = (COPPICE, VLLM, LLAMA)
"""Servers that count; others are not asked."""

_MOST_TEXTS = 200  # each is a request of its own


def counted(
    wire: Wire, kind: str, model: str, chat: tuple[ChatMessage, ...], texts: Sequence[str], stop: Stop
) -> tuple[int, tuple[int, ...]]:
    """The tokens of a conversation as a prompt, and those of each text. Raises `RemoteError`."""
    ask = _llama if kind == LLAMA else _vllm
    turns = messages(kind, chat)
    tokens = ask(wire, {"model": model, "messages": turns}, stop) if turns else 0
    return tokens, tuple(
        ask(wire, {"model": model, "prompt": each}, stop) if each else 0 for each in texts[:_MOST_TEXTS]
    ) + (0,) * max(0, len(texts) - _MOST_TEXTS)


_Ask = Callable[[Wire, dict[str, Any], Stop], int]


def _vllm(wire: Wire, asked: dict[str, Any], stop: Stop) -> int:
    """vLLM's form, which Coppice has too."""
    return _count_in(wire.post("/tokenize", asked, stop))


def _llama(wire: Wire, asked: dict[str, Any], stop: Stop) -> int:
    """llama-server counts texts alone; a conversation becomes one first."""
    text = asked.get("prompt", "")
    if turns := asked.get("messages"):
        applied = wire.post("/apply-template", {"messages": turns}, stop)
        text = str(applied.get("prompt", "")) if isinstance(applied, dict) else ""
    return _count_in(wire.post("/tokenize", {"content": text, "add_special": True}, stop))


def _count_in(found: Any) -> int:
    if not isinstance(found, dict):
        return 0
    tokens = found.get("tokens")
    return json.count(found.get("count")) or (len(tokens) if isinstance(tokens, list) else 0)

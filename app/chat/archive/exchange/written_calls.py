"""Calls of tools in an answer as Markdown that is only looked at: what was called, with what, and what came of it."""

import re

from app.chat.history.calls import Call, CallState
from app.chat.history.message import Message

_LEAST_FENCE = 3
# Who reads the file may have another language than who wrote it.
_WORDS = {
    CallState.DONE: "result",
    CallState.FAILED: "failed",
    CallState.DENIED: "declined",
    CallState.STOPPED: "stopped",
}


def content_with_calls(message: Message) -> str:
    """All that an answer says, and in the place of the marks of each call what it was."""
    said, here = [], 0
    for call in message.calls:
        said += [message.text[here : call.begin].strip(), _written(call)]
        here = call.end
    return "\n\n".join(filter(None, [*said, message.text[here:].strip()]))


def _written(call: Call) -> str:
    name = " of ".join(filter(None, (_code(call.tool or call.function), _code(call.server) if call.server else "")))
    parts = [f"Tool {name}, called with:", _fenced(call.arguments, "json")]
    state = _WORDS.get(call.state, "not called")
    parts.append(f"Tool {name}, {state}:" if call.result else f"Tool {name}, {state}.")
    return "\n\n".join([*parts, _fenced(call.result)] if call.result else parts)


def _code(name: str) -> str:
    """A name, in which nothing is Markdown."""
    plain = " ".join(name.replace("`", "'").split())
    return f"`{plain}`"


def _fenced(text: str, kind: str = "") -> str:
    """A text in a fence that nothing in it can close."""
    longest = max(map(len, re.findall("`{3,}", text)), default=0)
    fence = "`" * max(_LEAST_FENCE, longest + 1)
    return f"{fence}{kind}\n{text.rstrip()}\n{fence}"

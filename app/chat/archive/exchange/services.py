"""Chats as services hand them out, in the usual form of messages: ChatGPT, Claude, and Open WebUI.

Their `conversations.json` is documented nowhere; it is read as it has been written since 2024. What was shown last is
read: the path that leads to the last message, without pictures, calls of tools and what was hidden.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from app.chat.archive.exchange.reading import About

_LATEST_SECONDS = 4e9  # the year 2096; what is later is no time
_SHOWN = ("text", "multimodal_text")  # kinds of content of ChatGPT that were said
_NAMES = ("conversation_id", "uuid", "id")
_CLAUDE_ROLES = {"human": "user", "assistant": "assistant"}


def is_chat(document: Any) -> bool:
    """Whether a value of JSON is such a chat."""
    return _is_chatgpt(document) or _is_claude(document) or _is_open_webui(document)


def about(document: Mapping[str, Any]) -> About:
    """When a chat began and was last worked in, whether it is pinned, and what its service calls it by."""
    times = [
        next((seconds for name in names if (seconds := _seconds(document.get(name)))), 0.0)
        for names in (("create_time", "created_at"), ("update_time", "updated_at"))
    ]
    is_pinned = document.get("pinned") is True or document.get("is_starred") is True
    name = next((value for key in _NAMES if isinstance(value := document.get(key), str) and value), "")
    return About(times[0] or times[1], times[1] or times[0], is_pinned, name=name)


def as_usual(document: Mapping[str, Any]) -> dict[str, Any]:
    """The same as `{"title", "messages": [{"role", "content", "model"}]}`; no messages where nothing was said."""
    read = _chatgpt if _is_chatgpt(document) else _claude if _is_claude(document) else _open_webui
    messages = [each for each in read(document) if each["content"].strip()]
    title = document.get("title") or document.get("name") or _table(document.get("chat")).get("title")
    return {"title": title, "messages": messages}


def _is_chatgpt(document: Any) -> bool:
    return isinstance(document, Mapping) and isinstance(document.get("mapping"), Mapping)


def _is_claude(document: Any) -> bool:
    return isinstance(document, Mapping) and isinstance(document.get("chat_messages"), list)


def _is_open_webui(document: Any) -> bool:
    chat = document.get("chat") if isinstance(document, Mapping) else None
    return isinstance(chat, Mapping) and ("history" in chat or "messages" in chat)


def _chatgpt(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for node in _path(document["mapping"], document.get("current_node"), "parent"):
        message = _table(node.get("message"))
        role, content = _table(message.get("author")).get("role"), _table(message.get("content"))
        told = _table(message.get("metadata"))
        is_said = role in ("user", "assistant") and content.get("content_type") in _SHOWN
        if (
            is_said
            and message.get("recipient", "all") == "all"
            and not told.get("is_visually_hidden_from_conversation")
        ):
            text = "\n".join(each for each in _entries(content.get("parts")) if isinstance(each, str))
            yield {"role": role, "content": text, "model": told.get("model_slug")}


def _claude(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for message in map(_table, _entries(document["chat_messages"])):
        if role := _CLAUDE_ROLES.get(str(message.get("sender"))):
            blocks = map(_table, _entries(message.get("content")))
            texts = [_text(each.get("text")) for each in blocks if each.get("type") == "text"]
            said = "\n\n".join(each for each in texts if each) or _text(message.get("text"))
            yield {"role": role, "content": said}


def _open_webui(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    chat = document["chat"]
    history = _table(chat.get("history"))
    path = _path(_table(history.get("messages")), history.get("currentId"), "parentId")
    for message in path or map(_table, _entries(chat.get("messages"))):
        if message.get("role") in ("system", "user", "assistant"):
            yield {"role": message["role"], "content": _text(message.get("content")), "model": message.get("model")}


def _path(nodes: Mapping[str, Any], leaf: Any, parent: str) -> list[Mapping[str, Any]]:
    """The nodes from the first one to a leaf, each of which names its parent; the last one where no leaf is named."""
    place = leaf if isinstance(leaf, str) and leaf in nodes else next(reversed(list(nodes)), None)
    found: dict[str, Mapping[str, Any]] = {}
    while isinstance(place, str) and place in nodes and place not in found:  # a circle has no first one
        found[place] = _table(nodes[place])
        place = found[place].get(parent)
    return list(reversed(found.values()))


def _seconds(value: Any) -> float:
    """A time in seconds since 1970, written as a number or as ISO 8601 has it; 0 for anything else."""
    try:
        seconds = datetime.fromisoformat(value).timestamp() if isinstance(value, str) else value
    except (ValueError, OverflowError, OSError):
        return 0.0
    return float(seconds) if type(seconds) in (int, float) and 0 < seconds < _LATEST_SECONDS else 0.0


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _entries(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

"""Chats as LM Studio keeps them in `.lmstudio/conversations`, in the usual form of messages.

Its files are documented nowhere; they are read as version 0.3 and later write them. Each message has `versions`, of
which one is shown. A question has `content`, an answer `steps`, of which blocks of content are kept: those whose style
is thinking stand between marks, and calls of tools are left out.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.chat.archive.exchange.reading import About

_SYSTEM_PROMPT = "llm.prediction.systemPrompt"
_THINKING = "<think>"
_TIMES = ("createdAt", "userLastMessagedAt", "assistantLastMessagedAt")
_LATEST_MS = 4e12  # the year 2096; what is later is no time
SUFFIX = ".conversation.json"


def place() -> Path:
    """The folder of all its chats."""
    return Path.home() / ".lmstudio" / "conversations"


def about(document: Mapping[str, Any]) -> About:
    """When a chat began and was last worked in, and whether it is pinned."""
    times = [document[each] for each in _TIMES if type(document.get(each)) in (int, float)]
    seconds = [each / 1000 for each in times if 0 < each < _LATEST_MS]
    return About(min(seconds, default=0.0), max(seconds, default=0.0), document.get("pinned") is True)


def is_empty(document: Any) -> bool:
    """Whether a value of JSON is such a chat in which nothing was said yet."""
    return isinstance(document, Mapping) and document.get("messages") == [] and "createdAt" in document


def is_chat(document: Any) -> bool:
    """Whether a value of JSON is such a chat."""
    messages = document.get("messages") if isinstance(document, Mapping) else None
    return isinstance(messages, list) and bool(messages) and all(map(_has_versions, messages))


def as_usual(document: Mapping[str, Any]) -> dict[str, Any]:
    """The same as `{"title", "messages": [{"versions": [{"role", "content", "model"}], "chosen"}]}`."""
    prompt = _system_prompt(document)
    turns = [
        {"versions": [_turn(one) for one in each["versions"]], "chosen": _chosen(each)} for each in document["messages"]
    ]
    system = [{"versions": [{"role": "system", "content": prompt}], "chosen": 0}] if prompt else []
    return {"title": document.get("name"), "messages": system + turns}


def _has_versions(message: Any) -> bool:
    versions = message.get("versions") if isinstance(message, Mapping) else None
    return isinstance(versions, list) and bool(versions) and all(isinstance(each, Mapping) for each in versions)


def _chosen(message: Mapping[str, Any]) -> int:
    """The place of the version that is shown: the last one where it does not say."""
    count, chosen = len(message["versions"]), message.get("currentlySelected")
    return chosen if isinstance(chosen, int) and 0 <= chosen < count else count - 1


def _turn(version: Mapping[str, Any]) -> dict[str, Any]:
    sender, steps = version.get("senderInfo"), version.get("steps")
    said = [_said(each) for each in steps if _is_block(each)] if isinstance(steps, list) else [_text(version)]
    model = sender.get("senderName") if isinstance(sender, Mapping) else ""
    return {"role": version.get("role"), "content": "\n\n".join(each for each in said if each), "model": model}


def _is_block(step: Any) -> bool:
    return isinstance(step, Mapping) and step.get("type") == "contentBlock"


def _said(block: Mapping[str, Any]) -> str:
    text, style = _text(block).strip(), block.get("style")
    is_thinking = isinstance(style, Mapping) and style.get("type") == "thinking"
    return f"{_THINKING}\n{text}\n</think>" if is_thinking and text and not text.startswith(_THINKING) else text


def _text(holder: Mapping[str, Any]) -> str:
    """Its texts one behind the other: what a draft wrote are parts of their own."""
    content = holder.get("content")
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, Mapping) and part.get("type") == "text")
    return content if isinstance(content, str) else "".join(each for each in texts if isinstance(each, str))


def _system_prompt(document: Mapping[str, Any]) -> str:
    config = document.get("perChatPredictionConfig")
    fields = config.get("fields") if isinstance(config, Mapping) else None
    for each in fields if isinstance(fields, list) else []:
        if isinstance(each, Mapping) and each.get("key") == _SYSTEM_PROMPT:
            return each["value"] if isinstance(each.get("value"), str) else ""
    found = document.get("systemPrompt")
    return found if isinstance(found, str) else ""

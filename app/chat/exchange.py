"""Conversations as files that others can read: Markdown to look at, JSON with the usual messages to go on with."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from app.chat.conversation import Conversation, Message
from engine.messages import Role

_FORMAT = "coppice-conversation"
_LARGEST_BYTES = 200 << 20
_NAMES = {"user": "You", "assistant": "Answer", "system": "System"}


class ExchangeError(Exception):
    """A file that holds no conversation; says what was expected."""


def as_markdown(title: str, messages: Sequence[Message]) -> str:
    """The path that is shown, under headings."""
    parts = [f"# {title}"]
    for message in messages:
        parts += [f"## {_NAMES[message.role]}", message.content.strip() or "(nothing)"]
    return "\n\n".join(parts) + "\n"


def as_json(title: str, messages: Sequence[Message]) -> str:
    """The path that is shown, as `{"title", "messages": [{"role", "content"}]}`."""
    turns = [{"role": message.role, "content": message.content} for message in messages]
    document = {"format": _FORMAT, "title": title, "messages": turns}
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def read_conversations(path: Path) -> list[tuple[str, Conversation]]:
    """Titles and conversations of a file; raises `ExchangeError` with the reason if it holds none."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            reason = f"It is larger than {_LARGEST_BYTES >> 20} MB."
        else:
            return from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = f"It cannot be read: {error.strerror or error}."
    except UnicodeDecodeError:
        reason = "It is not UTF-8 text."
    raise ExchangeError(reason)


def from_json(text: str) -> list[tuple[str, Conversation]]:
    """Titles and conversations of a file: one `{"messages"}`, a list of them, or a bare list of messages.

    Raises `ExchangeError`. What is said twice in a row by one side becomes one message, and system messages are left
    out: they belong to the settings.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ExchangeError(f"The file is not JSON: {error}.") from error
    chats = document if _is_list_of_chats(document) else [document]
    if not chats:
        raise ExchangeError("The file holds no conversation.")
    return [_chat(each) for each in chats]


def _is_list_of_chats(document: Any) -> bool:
    return isinstance(document, list) and all(isinstance(each, dict) and "messages" in each for each in document)


def _chat(document: Any) -> tuple[str, Conversation]:
    turns = document.get("messages") if isinstance(document, dict) else document
    if not isinstance(turns, list) or not turns:
        raise ExchangeError('The file holds no messages; expected is {"messages": [{"role": "user", "content": "…"}]}.')
    title = document.get("title") if isinstance(document, dict) else ""
    messages: list[Message] = []
    for role, content in map(_turn, turns):
        if role == "system":
            continue
        if messages and messages[-1].role == role:
            messages[-1] = _joined(messages[-1], content)
        elif messages or role == "user":
            messages.append(Message(role, content, parent=messages[-1].id if messages else 0))
    if messages and messages[-1].role == "user":
        messages.append(Message("assistant", "", parent=messages[-1].id))
    if not messages:
        raise ExchangeError("The file holds no question.")
    return (title if isinstance(title, str) else ""), Conversation(messages)


def _joined(message: Message, content: str) -> Message:
    return Message(message.role, f"{message.text}\n\n{content}", parent=message.parent, id=message.id)


def _turn(turn: Any) -> tuple[Role, str]:
    role = turn.get("role") if isinstance(turn, Mapping) else None
    content = turn.get("content") if isinstance(turn, Mapping) else None
    if isinstance(content, list):  # parts, of which the texts are kept
        content = "\n".join(part["text"] for part in content if isinstance(part, dict) and _is_text(part.get("text")))
    if role not in get_args(Role) or not _is_text(content):
        raise ExchangeError("The file holds a message without a role or without text.")
    return cast(Role, role), str(content)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)

"""Conversations as files that others can read: Markdown to look at, JSON with the usual messages to go on with."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from app import json_text as json
from app.chat.conversation import Conversation, Message
from app.plain_text import well_formed
from app.settings import GenerationSettings
from app.translation import tr
from engine.messages import Role

_FORMAT = "coppice-conversation"
_LARGEST_BYTES = 200 << 20
MARKDOWN = (".md", ".markdown")
_NAMES = {"user": "You", "assistant": "Answer", "system": "System"}
_ROLES = {name: role for role, name in _NAMES.items()}
_NOTHING = "(nothing)"
# A line of a text that looks like the heading of a turn gets a backslash, which Markdown does not show.
_TURN = re.compile(rf"^\\*## (?:{'|'.join(_ROLES)})$", re.MULTILINE)


class ExchangeError(Exception):
    """A file that holds no conversation; says what was expected."""


def as_markdown(title: str, messages: Sequence[Message], system_prompt: str = "") -> str:
    """The path that is shown, under headings."""
    parts = [f"# {title}"]
    for role, content in _turns(messages, system_prompt):
        parts += [f"## {_NAMES[role]}", _TURN.sub(r"\\\g<0>", content.strip()) or _NOTHING]
    return well_formed("\n\n".join(parts) + "\n")


def as_json(title: str, messages: Sequence[Message], system_prompt: str = "") -> str:
    """The path that is shown, as `{"title", "messages": [{"role", "content"}]}`, a system prompt as the first."""
    turns = [{"role": role, "content": content} for role, content in _turns(messages, system_prompt)]
    document = {"format": _FORMAT, "title": title, "messages": turns}
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _turns(messages: Sequence[Message], system_prompt: str) -> list[tuple[Role, str]]:
    begin: list[tuple[Role, str]] = [("system", system_prompt)] if system_prompt.strip() else []
    return begin + [(message.role, message.content) for message in messages]


def read_conversations(path: Path) -> list[tuple[str, Conversation]]:
    """Titles and conversations of a file; raises `ExchangeError` with the reason if it holds none."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            reason = tr("It is larger than {size} MB.").format(size=_LARGEST_BYTES >> 20)
        else:
            read = from_markdown if path.suffix.casefold() in MARKDOWN else from_json
            return read(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        reason = tr("It cannot be read: {reason}.").format(reason=error.strerror or error)
    except UnicodeDecodeError:
        reason = tr("It is not UTF-8 text.")
    raise ExchangeError(reason)


def from_json(text: str) -> list[tuple[str, Conversation]]:
    """Titles and conversations of a file: one `{"messages"}`, a list of them, or a bare list of messages.

    Raises `ExchangeError`. What is said twice in a row by one side becomes one message, and system messages become the
    system prompt in the conversation's settings, whose others are the defaults.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ExchangeError(tr("The file is not JSON: {error}.").format(error=error)) from error
    chats = document if _is_list_of_chats(document) else [document]
    if not chats:
        raise ExchangeError(tr("The file holds no conversation."))
    return [_chat(each) for each in chats]


def from_markdown(text: str) -> list[tuple[str, Conversation]]:
    """Title and conversation of a file as `as_markdown` writes it. Raises `ExchangeError`."""
    lines = text.replace("\r\n", "\n").split("\n")
    title = lines[0].removeprefix("# ").strip() if lines[0].startswith("# ") else ""
    turns: list[dict[str, str]] = []
    for line in lines[1 if title else 0 :]:
        name = line.removeprefix("## ")
        if line.startswith("## ") and name in _ROLES:
            turns.append({"role": _ROLES[name], "content": ""})
        elif turns:
            turns[-1]["content"] += (line[1:] if line.startswith("\\") and _TURN.fullmatch(line) else line) + "\n"
    if not turns:
        raise ExchangeError(tr("The file holds no turns; expected are headings such as “## You” and “## Answer”."))
    for turn in turns:
        said = turn["content"].strip("\n")
        turn["content"] = "" if said == _NOTHING else said
    return [_chat({"title": title, "messages": turns})]


def _is_list_of_chats(document: Any) -> bool:
    return isinstance(document, list) and all(isinstance(each, dict) and "messages" in each for each in document)


def _chat(document: Any) -> tuple[str, Conversation]:
    turns = document.get("messages") if isinstance(document, dict) else document
    if not isinstance(turns, list) or not turns:
        form = '{"messages": [{"role": "user", "content": "…"}]}'
        raise ExchangeError(tr("The file holds no messages; expected is {form}.").format(form=form))
    title = document.get("title") if isinstance(document, dict) else ""
    messages: list[Message] = []
    system: list[str] = []
    for role, content in map(_turn, turns):
        if role == "system":
            system.append(content)
        elif messages and messages[-1].role == role:
            messages[-1] = _joined(messages[-1], content)
        elif messages or role == "user":
            messages.append(Message(role, content, parent=messages[-1].id if messages else 0))
    if messages and messages[-1].role == "user":
        messages.append(Message("assistant", "", parent=messages[-1].id))
    if not messages:
        raise ExchangeError(tr("The file holds no question."))
    settings = GenerationSettings(system_prompt="\n\n".join(system)) if system else None
    return (title if isinstance(title, str) else ""), Conversation(messages, settings=settings)


def _joined(message: Message, content: str) -> Message:
    return Message(message.role, f"{message.text}\n\n{content}", parent=message.parent, id=message.id)


def _turn(turn: Any) -> tuple[Role, str]:
    role = turn.get("role") if isinstance(turn, Mapping) else None
    content = turn.get("content") if isinstance(turn, Mapping) else None
    if isinstance(content, list):  # parts, of which the texts are kept
        content = "\n".join(part["text"] for part in content if isinstance(part, dict) and _is_text(part.get("text")))
    if role not in get_args(Role) or not _is_text(content):
        raise ExchangeError(tr("The file holds a message without a role or without text."))
    return cast(Role, role), str(content)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)

"""Conversations in a file: texts, and pictures as data: URLs or as files beside it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.data_urls import base64_begin, decode_base64
from engine.errors import InputError
from engine.files import open_ordinary
from engine.protocol.messages import ChatMessage
from engine.protocol.pictures import MOST_PICTURE_BYTES, MOST_PICTURES, Picture

SHAPE = 'Give a list like [{"role": "user", "content": "Hello"}].'
PARTS = 'Give parts like {"type": "text", "text": "Hello"} and {"type": "image_url", "image_url": {"url": "cat.png"}}.'
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)  # longer than the letter of a Windows drive


def read_messages(value: Any, origin: str, folder: Path | None = None) -> list[ChatMessage]:
    """Checked messages from parsed JSON; raises `InputError` naming `origin`.

    `folder`: where the files of pictures are named from; without one there may be none.
    """
    if not isinstance(value, list) or not value:
        raise InputError(f"{origin} holds no messages.", SHAPE)
    messages = []
    for item in value:
        fields = item if isinstance(item, dict) else {}
        role, content = fields.get("role"), fields.get("content")
        if role not in ("system", "user", "assistant"):
            raise InputError(f"{origin} holds something that is not a message.", SHAPE)
        if isinstance(content, list) and folder is not None:
            messages.append(_in_parts(role, content, origin, folder))
        elif isinstance(content, str):
            messages.append(ChatMessage(role, content))
        else:
            raise InputError(f"{origin} holds something that is not a message.", SHAPE)
    _require_few(sum(len(message.pictures) for message in messages))
    return messages


def read_pictures(paths: Sequence[str]) -> tuple[Picture, ...]:
    """The pictures in these files; raises `InputError` for what cannot be read."""
    _require_few(len(paths))
    return tuple(Picture(_file(Path(path))) for path in paths)


def _in_parts(role: Any, parts: Sequence[Any], origin: str, folder: Path) -> ChatMessage:
    """A message as OpenAI's chat completions have it."""
    text, pictures = "", list[Picture]()
    for part in parts:
        fields = part if isinstance(part, dict) else {}
        kind, image = fields.get("type"), fields.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        if kind == "text" and isinstance(fields.get("text"), str):
            text += fields["text"]
        elif kind == "image_url" and isinstance(url, str) and role == "user":
            pictures.append(Picture(_picture(url, origin, folder), len(text)))
        else:
            where = "" if role == "user" else f" of the {role}"
            raise InputError(f"{origin} holds something that is not a part of a message{where}.", PARTS)
    return ChatMessage(role, text, pictures=tuple(pictures))


def _picture(url: str, origin: str, folder: Path) -> bytes:
    begin = base64_begin(url)
    if begin is None and _SCHEME.match(url):
        raise InputError(f"{origin} names a picture by an address.", "Save the picture, and name its file.")
    if begin is None:
        return _file(folder / url)
    try:
        data = decode_base64(url, begin)
    except ValueError as error:
        words = f"{origin} holds a data: URL without base64 that can be read."
        raise InputError(words, "Name the picture's file instead.") from error
    if len(data) > MOST_PICTURE_BYTES:
        raise InputError(f"{origin} holds a picture of more than {MOST_PICTURE_BYTES >> 20} MiB.", "Use a smaller one.")
    return data


def _file(path: Path) -> bytes:
    """All of an ordinary file: nothing else ends for certain."""
    try:
        with open_ordinary(path) as file:
            data = file.read(MOST_PICTURE_BYTES + 1)
    except (OSError, ValueError) as error:  # the latter for a path with a null byte
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "that is no path"
        raise InputError(f"{path} cannot be read: {reason}.", "Check the path.") from error
    if len(data) > MOST_PICTURE_BYTES:
        raise InputError(f"{path} has more than {MOST_PICTURE_BYTES >> 20} MiB.", "Use a smaller picture.")
    return data


def _require_few(pictures: int) -> None:
    if pictures > MOST_PICTURES:
        raise InputError(f"{pictures} pictures are too many.", f"Show at most {MOST_PICTURES} at once.")

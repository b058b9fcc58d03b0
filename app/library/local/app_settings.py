"""What the settings of other programs say of where their models are: read within limits, and taken for a hint alone."""

import re
from collections.abc import Iterator
from pathlib import Path

from app.system.json_text import loads, parse_object
from engine.files import open_ordinary

_MOST_BYTES = 1 << 18
_ENTRY = re.compile(r"(model_path|files)[ \t]*:(?:[ \t]+(.*))?")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")
_COMMENT = re.compile(r"(?:^|[ \t])#.*")
_NOT_PLAIN = frozenset("&*!|>%@`[]{},#?:-")  # with what a value of YAML that is not just itself begins
_SHARES = ("\\\\", "//")  # asking a server of strangers for a file would tell it who asks


def downloads_folder(settings: Path) -> Path | None:
    """The folder that LM Studio's settings.json names for models; None where it names none."""
    try:
        named = parse_object(_read(settings)).get("downloadsFolder")
    except (OSError, ValueError):
        return None
    return _local(named) if isinstance(named, str) else None


def pointed_folder(pointer: Path) -> Path | None:
    """The folder that a file consists of, as LM Studio's pointer to its home does; None where that is not all."""
    try:
        lines = _read(pointer).decode("utf-8").split("\n")
    except (OSError, ValueError):
        return None
    return _local(lines[0].strip()) if not any(map(str.strip, lines[1:])) else None


def named_gguf(description: Path, data: Path) -> Path | None:
    """The GGUF file that Jan's model.yml names, which may be anywhere, or by its place in Jan's folder `data`.

    None where it names none, or one that is not there. Only the entry `model_path` (`files`, in older versions) is
    read, and only where it is written on one line, once.
    """
    try:
        content = _read(description).decode("utf-8")
        named = _value(content)
        if not named:
            return None
        absolute = _local(named)
        path = absolute or data / named
        is_inside = absolute is not None or path.resolve().is_relative_to(data.resolve())
        return path if is_inside and not named.startswith(_SHARES) and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


def _read(path: Path) -> bytes:
    """Raises `OSError` where it is not there, and `ValueError` for one that is larger than such files are."""
    with open_ordinary(path) as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(path)
    return content


def _local(name: str) -> Path | None:
    """The path, if it is a whole one on this computer."""
    path = Path(name)
    return path if path.is_absolute() and not name.startswith(_SHARES) and "\0" not in name else None


def _value(content: str) -> str:
    """What the first of the entries says; empty where there is none, or where two would."""
    found = list(_values(content))
    return found[0] if len(found) == 1 else ""


def _values(content: str) -> Iterator[str]:
    lines = content.splitlines()
    for number, line in enumerate(lines):
        match = _ENTRY.fullmatch(line)
        if match and match[1] == "model_path":
            yield _scalar(match[2] or "")
        elif match and not _COMMENT.sub("", match[2] or "").strip():
            item = _ITEM.fullmatch(lines[number + 1]) if number + 1 < len(lines) else None
            yield _scalar(item[1]) if item else ""


def _scalar(text: str) -> str:
    """A text of YAML on one line, plain or in quotes; empty for anything else. Raises `ValueError` for odd escapes."""
    text = text.strip()
    if text.startswith('"'):
        value = loads(text)  # escapes are those of JSON
        return value if isinstance(value, str) else ""
    if text.startswith("'"):
        inside = text[1:-1].replace("''", "")
        return text[1:-1].replace("''", "'") if len(text) > 1 and text.endswith("'") and "'" not in inside else ""
    plain = _COMMENT.sub("", text).strip()
    return plain if plain and plain[0] not in _NOT_PLAIN and ": " not in plain else ""

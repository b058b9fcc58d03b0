"""JSON from strangers: an object, and what its fields may be."""

from typing import Any

from app.downloads.hostile_json import parse_json

__all__ = ["count", "parse_json", "parse_object", "text"]


def parse_object(content: bytes) -> dict[str, Any]:
    """The same for an object; raises `ValueError` for any other value."""
    value = parse_json(content)
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004  # the content is wrong, not the call
    return value


def text(value: object, longest: int = 200) -> str:
    """A printable line of at most so many characters; empty for what is no text."""
    if not isinstance(value, str):
        return ""
    return "".join(character for character in value[:longest] if character.isprintable())


def count(value: object) -> int:
    """A whole number from 0 to what 63 bits hold; 0 for anything else."""
    return value if type(value) is int and 0 <= value < 1 << 63 else 0

"""JSON from strangers, parsed within limits of size, depth and weight."""

import re
from typing import Any

from app.system import json_text as json
from engine.protocol.sentences import say

# A table of brackets alone takes twenty times its size in memory when it is parsed; real files have far fewer.
_MIN_BYTES_PER_BRACKET = 8
_BRACKET_SLACK_BYTES = 1 << 20
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def parse_json(content: bytes, bytes_per_bracket: int = _MIN_BYTES_PER_BRACKET) -> Any:
    """The value; `ValueError`, with words that fit behind a colon, for what is damaged, nested deeply, or swells.

    `bytes_per_bracket`: how much there is at least for each list or object that has to be made.
    """
    allowed = (len(content) + _BRACKET_SLACK_BYTES) // bytes_per_bracket
    if _brackets(content) > allowed and _brackets(_STRING.sub(b"", content)) > allowed:  # those in texts are harmless
        raise ValueError(say("it consists mostly of brackets"))
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError(say("it is nested too deeply")) from None
    except ValueError:
        raise ValueError(say("it is damaged")) from None


def _brackets(content: bytes) -> int:
    return content.count(b"[") + content.count(b"{")


def parse_object(content: bytes) -> dict[str, Any]:
    """The same for an object; raises `ValueError` for any other value."""
    value = parse_json(content)
    if not isinstance(value, dict):
        raise ValueError(say("it is no JSON object"))  # noqa: TRY004  # the content is wrong, not the call
    return value


def text(value: object, longest: int = 200) -> str:
    """A printable line of at most so many characters; empty for what is no text."""
    if not isinstance(value, str):
        return ""
    return "".join(character for character in value[:longest] if character.isprintable())


def count(value: object) -> int:
    """A whole number from 0 to what 63 bits hold; 0 for anything else."""
    return value if type(value) is int and 0 <= value < 1 << 63 else 0

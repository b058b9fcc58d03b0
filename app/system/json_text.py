"""JSON from and for elsewhere: every text in it well-formed; that of strangers within limits of size, depth and weight.

In place of Python's `json` everywhere in the application: `from app.system import json_text as json`. JSON can hold
half a surrogate pair as an escape (`"\\ud83d"`), and UTF-8 cannot: saving such a text would fail.
"""

import json
import re
from pathlib import Path
from typing import Any

from app.system.plain_text import well_formed
from engine.files import open_ordinary
from engine.protocol.sentences import say

# An escape of any kind, a whole pair of halves first: `\\ud83d` is a backslash and four letters.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


JSONDecodeError = json.JSONDecodeError  # what `loads` raises for what is no JSON


def loads(content: str | bytes) -> Any:
    """The value, every text in it well-formed. Raises `ValueError` and `RecursionError` as `json.loads` does."""
    text = content.decode(json.detect_encoding(content), "surrogatepass") if isinstance(content, bytes) else content
    return json.loads(_mended(well_formed(text)))


def dumps(value: Any, **form: Any) -> str:
    """The value as `json.dumps` writes it in this form, every text in it well-formed."""
    return _mended(well_formed(json.dumps(value, **form)))


def _mended(text: str) -> str:
    """JSON without escapes of lone halves."""
    if not _HALF.search(text):
        return text
    return _ESCAPE.sub(lambda found: r"\ufffd" if found["half"] else found[0], text)


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
        return loads(content)
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


def read_object(path: Path, most_bytes: int) -> dict[str, Any]:
    """The same from a file, of which no more is read. Raises `OSError`, too."""
    with open_ordinary(path) as file:
        return parse_object(file.read(most_bytes))


def text(value: object, longest: int = 200) -> str:
    """A printable line of at most so many characters; empty for what is no text."""
    if not isinstance(value, str):
        return ""
    return "".join(character for character in value[:longest] if character.isprintable())


def count(value: object) -> int:
    """A whole number from 0 to what 63 bits hold; 0 for anything else."""
    return value if type(value) is int and 0 <= value < 1 << 63 else 0

"""JSON from and for elsewhere: the texts in it are well-formed, so that each can be written and sent anywhere.

In place of Python's `json` everywhere in the application: `from app.system import json_text as json`. JSON can hold
half a surrogate pair as an escape (`"\\ud83d"`), and UTF-8 cannot: saving such a text would fail.
"""

import json
import re
from typing import Any

from app.system.plain_text import well_formed

# An escape of any kind, a whole pair of halves first: `\\ud83d` is a backslash and four letters.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


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

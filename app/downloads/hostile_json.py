"""JSON from strangers, parsed within limits of depth and weight."""

import json
from typing import Any

# A table of brackets alone takes twenty times its size in memory when it is parsed; real files have far fewer.
_MIN_BYTES_PER_BRACKET = 8
_BRACKET_SLACK_BYTES = 1 << 20


def parse_json(content: bytes) -> Any:
    """The value; `ValueError`, with words that fit behind a colon, for what is damaged, nested deeply, or swells."""
    brackets = content.count(b"[") + content.count(b"{")
    if brackets * _MIN_BYTES_PER_BRACKET > len(content) + _BRACKET_SLACK_BYTES:
        raise ValueError("it consists mostly of brackets")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("it is damaged") from None

"""Long base64 in a body of JSON, lifted out before that is parsed and put back afterwards.

The parser holds the GIL until a string ends: that of a large picture as long as no client may wait. Here such a string
is looked at in steps, and copied once.
"""

import re
import secrets
from dataclasses import dataclass, field
from typing import Any

LONGEST_LEFT = 64 << 10  # characters of base64 that are left to the parser
STEP = 1 << 20  # bytes that are looked at in one go
CONVERSATIONS = frozenset({"messages", "input", "images"})  # fields of a request in which pictures are sent, in any API
PICTURES = frozenset({"url", "image_url", "data", "images"})  # and the fields of these that hold them

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_HEAD = re.compile(rb"data:[\w/+.;= -]{0,255};base64,", re.IGNORECASE)
_COLON = re.compile(rb"[ \t\r\n]*:")


@dataclass(slots=True)
class Lifted:
    """JSON with names in place of its long strings of base64, and these by their names, which nobody can guess."""

    rest: bytearray
    strings: dict[str, str] = field(default_factory=dict)

    def put_back(self, value: Any) -> int:
        """Put the strings into the value that `rest` is; returns the characters of those that are no pictures'."""
        others = 0
        containers: list[tuple[Any, Any, Any]] = [("", "", value)]  # behind the request's field and the innermost one
        while containers and self.strings:
            first, last, container = containers.pop()
            for place, item in container.items() if isinstance(container, dict) else enumerate(container):
                name = place if isinstance(container, dict) else last
                if isinstance(item, dict | list):
                    containers.append((first or name, name, item))
                elif isinstance(item, str) and item in self.strings:
                    container[place] = self.strings[item]
                    is_picture = (first or name) in CONVERSATIONS and name in PICTURES
                    others += 0 if is_picture else len(container[place])
        return others


def lift(body: bytearray) -> Lifted:
    """The body without its long strings of base64, those of data: URLs among them.

    Between two quotes that stand so far apart there is either one string or none: what stands between strings begins
    with a comma, a colon, a bracket or a space.
    """
    found, token, done, place = Lifted(bytearray()), secrets.token_hex(16), 0, LONGEST_LEFT
    with memoryview(body) as view:
        while (end := body.find(b'"', place)) >= 0:
            begin = body.rfind(b'"', done, place) + 1
            if begin and end - begin >= LONGEST_LEFT and _is_value_of_base64(body, begin, end):
                name = f"{token} {len(found.strings)}"
                found.strings[name] = str(view[begin:end], "ascii")
                found.rest += view[done:begin]
                found.rest += name.encode()
                done = end
            place = end + LONGEST_LEFT
        if not done:
            found.rest = body
            return found
        found.rest += view[done:]
    return found


def _is_value_of_base64(body: bytearray, begin: int, end: int) -> bool:
    """Whether that is the whole of a string, and no name of a field."""
    if body[begin - 2 : begin - 1] == b"\\" or _COLON.match(body, end + 1):
        return False
    head = _HEAD.match(body, begin, end)
    starts = range(head.end() if head else begin, end, STEP)
    return not any(body[start : min(start + STEP, end)].translate(None, _ALPHABET) for start in starts)

"""Texts from elsewhere, shown among ours: as plain text that cannot steer what stands around it."""

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, lru_cache, partial
from operator import attrgetter
from typing import Any, TypeVar, cast

_Value = TypeVar("_Value")

# They begin, end, turn and isolate stretches of another direction: what is left open reaches beyond its own text.
_STEERING = {
    "\u202a": "LRE", "\u202b": "RLE", "\u202c": "PDF", "\u202d": "LRO", "\u202e": "RLO",
    "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI",
}  # fmt: skip
# They take no room, so that what is read is not what is there. Joiners are not among them: letters and emoji need them.
_UNSEEN = {"\u200b": "ZWSP", "\u2060": "WJ", "\ufeff": "BOM", "\u00ad": "SHY"}
_REMOVED = str.maketrans(dict.fromkeys(_STEERING, ""))
_MARKED = str.maketrans({sign: f"⟨{name}⟩" for sign, name in (_STEERING | _UNSEEN).items()})


def well_formed(text: str) -> str:
    """The text as UTF-8 can hold it: halves of surrogate pairs are joined, and lone ones replaced by U+FFFD.

    Python keeps what is no UTF-8 in a file's name as such halves, and JSON has them as escapes. Every text from
    elsewhere goes through here (or `app.system.json_text`) before it is kept, written or sent.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed_values(value: _Value) -> _Value:
    """The same value with every text in it well-formed, through tuples, lists, dictionaries and dataclasses."""
    return cast(_Value, _well_formed(value))


def _well_formed(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if type(value) in (tuple, list):
        return value if _is_well_formed(value) else type(value)(map(_well_formed, value))
    if isinstance(value, dict):
        return {_well_formed(key): _well_formed(each) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        names = _init_fields(type(value))
        if all(_well_formed(each) is each for each in map(partial(getattr, value), names)):
            return value
        return replace(value, **{name: _well_formed(getattr(value, name)) for name in names})
    return value


@cache
def _init_fields(kind: type) -> tuple[str, ...]:
    """What a dataclass is made of: asked for every message of a chat whenever that goes to the engine."""
    return tuple(each.name for each in fields(kind) if each.init)


def _is_well_formed(texts: Sequence[Any]) -> bool:
    """Whether nothing is to be changed in them; the pieces of a large tree are looked at as one text."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    except TypeError:  # not texts alone
        kind = type(texts[0])
        if is_dataclass(kind) and all(type(each) is kind for each in texts):  # as the turns of a long chat
            columns = (filter(None, map(attrgetter(name), texts)) for name in _init_fields(kind))
            return all(map(_is_well_formed, map(list, columns)))
        return all(_well_formed(each) is each for each in texts)
    return True


# Marks above and below a letter. No language puts so many on one; where they are, they cover the lines around.
_PILED = re.compile(
    r"([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4})"
    r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)

PLAIN_LABELS = "QLabel, QToolTip { qproperty-textFormat: PlainText; }\n"
"""A style sheet that makes every label and tooltip show its text as it is, those that Qt makes for itself too.

Without it Qt guesses: a name with tags in it would be read as HTML, and the files that it names opened.
"""

_TIP_WIDTH, _TIP_LINES = 72, 40  # letters, lines


def unsteered(text: str) -> str:
    """A name or a sentence without what would turn or cover the text around it; it reads as before."""
    return _PILED.sub(r"\1", text.translate(_REMOVED))


def runs_leftwards(text: str) -> bool:
    """Whether the first letter that has a direction is read from right to left."""
    directions = (unicodedata.bidirectional(letter) for letter in text)
    return next((each for each in directions if each in ("L", "R", "AL")), "L") != "L"


def marked(code: str) -> str:
    """Code in which everything can be seen that would make it look like other code."""
    return code.translate(_MARKED)


def tip(text: str) -> str:
    """A tool tip that says just this: as it is, in lines and as many of them as fit on a screen.

    Every tool tip is plain text, by `PLAIN_LABELS`, and Qt breaks no lines in plain text.
    """
    return _in_lines(unsteered(text)[: _TIP_WIDTH * _TIP_LINES + 1])


@lru_cache(maxsize=512)  # every window has the same hundred, and some are set again whenever a state changes
def _in_lines(text: str) -> str:
    lines = [line for paragraph in text.split("\n") for line in textwrap.wrap(paragraph, _TIP_WIDTH) or [""]]
    return "\n".join(lines if len(lines) <= _TIP_LINES else [*lines[: _TIP_LINES - 1], "…"])


def can_be_seen(text: str) -> bool:
    """Whether there is anything to be seen of it."""
    return any(unicodedata.category(letter)[0] not in "CZ" and letter != "\u3164" for letter in text)

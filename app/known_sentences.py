"""Sentences from where no translation is, in the person's language: they are recognised by their templates."""

import re
from functools import cache, partial
from string import Formatter

from app.engine_sentences import ENGINE_SENTENCES
from app.failure_sentences import FAILURE_SENTENCES
from app.translation import tr

_LONGEST = 2000  # characters; whatever is longer is no sentence of ours, and would take long to look through
_NUMBERS = ("count", "kept", "rows", "seconds", "status", "streamed", "times", "tokens")
SENTENCES = ENGINE_SENTENCES + FAILURE_SENTENCES


def translated(text: str) -> str:
    """`text`, of one or several sentences, with those in the person's language that are known; the others stay."""
    if len(text) > _LONGEST:
        return text
    whole = _whole(text)
    if whole is not None:
        return whole
    for template, pattern in _patterns():
        if template.endswith("."):
            text = pattern.sub(partial(_filled, template), text)
    return text


def _whole(text: str) -> str | None:
    """The translation of what is known as a whole; None where it is not."""
    for template, pattern in _patterns():
        if found := pattern.fullmatch(text):
            return _filled(template, found)
    return None


def _filled(template: str, found: "re.Match[str]") -> str:
    return tr(template).format(**{name: _part(part) for name, part in found.groupdict().items()})


def _part(text: str) -> str:
    """What stands in a place of a sentence: known itself, or an enumeration of such, or a name or a number."""
    parts = text.split(", ")
    if len(parts) > 1 and all(_whole(each) is not None for each in parts):
        return ", ".join(_part(each) for each in parts)
    small = text[:1].lower() + text[1:]  # what usually stands within a sentence may begin one
    if (known := _whole(text)) is not None:
        return known
    known = _whole(small) if small != text else None
    return text if known is None else known[:1].upper() + known[1:]


@cache
def _patterns() -> tuple[tuple[str, "re.Pattern[str]"], ...]:
    return tuple((each, _pattern(each)) for each in SENTENCES)


def _pattern(template: str) -> "re.Pattern[str]":
    """A place takes anything within a sentence, one that counts a number only."""
    parts, seen = [], set[str]()
    for words, name, _, _ in Formatter().parse(template):
        parts.append(re.escape(words))
        if name is not None:
            inside = r"\d[\d.,]*" if name in _NUMBERS else r"(?:(?!\. ).)+?"
            parts.append(rf"(?P={name})" if name in seen else rf"(?P<{name}>{inside})")
            seen.add(name)
    return re.compile(rf"(?<!\S){''.join(parts)}(?!\S)")

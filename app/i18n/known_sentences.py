"""Sentences from where no translation is, in the person's language: they are recognised by their templates."""

import re
from functools import cache
from string import Formatter

from app.i18n.engine_sentences import ENGINE_SENTENCES
from app.i18n.failure_sentences import FAILURE_SENTENCES
from app.i18n.model_sentences import MODEL_SENTENCES
from app.i18n.number_text import localised
from app.i18n.translation import tr

_LONGEST = 400  # characters; whatever is longer is no sentence of ours, and would take long to compare
_BETWEEN = re.compile(r"(?<=[.?]) ")  # two sentences
_NUMBER = r"\d[\d.,]*"
_NUMBERS = ("count", "done", "kept", "rows", "seconds", "status", "streamed", "times", "tokens")
_INSIDE = dict.fromkeys(_NUMBERS, _NUMBER) | dict.fromkeys(("gib", "gpu", "ram"), rf"{_NUMBER} [MG]iB")
_COUNTING = {*_INSIDE, "all", "asked", "free", "least", "limit", "missing", "most", "needed", "number", "room", "size"}
_COUNTING |= {"there", "wanted"}  # places of numbers, at times of other things; names are never in one of these
_COUNTED = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?: (?:[kMGT]?B|[KMGT]iB|bytes))?")
SENTENCES = ENGINE_SENTENCES + MODEL_SENTENCES + FAILURE_SENTENCES


def prepare() -> None:
    """Compile the templates, in any thread, so that the first sentence need not wait for it: that takes 40 ms."""
    _patterns()


def translated(text: str) -> str:
    """`text`, of one or several sentences, with those in the person's language that are known; the others stay."""
    whole = _whole(text)
    return " ".join(map(_part, _BETWEEN.split(text))) if whole is None else whole


def _whole(text: str) -> str | None:
    """The translation of what is known as a whole; None where it is not."""
    if len(text) > _LONGEST:
        return None
    for template, pattern in _patterns():
        if found := pattern.fullmatch(text):
            return _filled(template, found)
    return None


def _filled(template: str, found: "re.Match[str]") -> str:
    parts = found.groupdict().items()
    return tr(template).format(**{name: _number(part) if name in _COUNTING else _part(part) for name, part in parts})


def _number(text: str) -> str:
    """What stands in a place of numbers; a number of a version, with two points, is none."""
    return localised(text) if _COUNTED.fullmatch(text) else _part(text)


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
    return tuple((each, _pattern(each)) for each in sorted(SENTENCES, key=_looseness))


def _looseness(template: str) -> tuple[bool, int]:
    """Orders those before others that could be taken for them: sentences before parts, the most words first."""
    return not template.endswith("."), -sum(len(words) for words, *_ in Formatter().parse(template))


def _pattern(template: str) -> "re.Pattern[str]":
    """A place takes anything within a sentence, one that counts or measures nothing else."""
    parts, seen = [], set[str]()
    for words, name, _, _ in Formatter().parse(template):
        parts.append(re.escape(words))
        if name is not None:
            inside = _INSIDE.get(name, r"(?:(?!\. ).)+?")
            parts.append(rf"(?P={name})" if name in seen else rf"(?P<{name}>{inside})")
            seen.add(name)
    return re.compile("".join(parts))

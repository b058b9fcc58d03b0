"""Sentences for people: the finished English text, and the template and values that the window translates."""

from collections.abc import Iterable, Mapping
from string import Formatter
from typing import Self

MAX_SHOWN = 80  # characters of quoted text in a message; a hostile name may be a megabyte long


class Amount(str):
    """A number as English writes it, with its unit if it has one, such as `1,024.5 GiB`; the window localises it."""

    __slots__ = ()


Value = str | int | float
"""What stands in a place of a template. A plain text is a name and stays as it is; a `Sentence` is translated."""


class Sentence(str):
    """An English text that knows its template and the values in it.

    It is a `str`: programs, logs and files see the English text. `template` is also the key of its translation; one
    without words, as `joined` makes it, has none. `is_opening`: its first letter is a capital in every language.
    """

    __slots__ = ("is_opening", "template", "values")
    template: str
    values: Mapping[str, Value]
    is_opening: bool

    def __new__(cls, text: str, template: str, values: Mapping[str, Value], is_opening: bool = False) -> Self:
        """Made by `say` and `joined`, and by `pickle`."""
        sentence = super().__new__(cls, text)
        sentence.template, sentence.values, sentence.is_opening = template, values, is_opening
        return sentence

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, Mapping[str, Value], bool]]:
        """Text and parts, so that both sides of a connection see the same."""
        return type(self), (str(self), self.template, self.values, self.is_opening)


def say(template: str, /, **values: object) -> Sentence:
    """A sentence to be translated; `{names}` stand for what varies.

    The template is written out at the call: `packaging/translations.py` collects it there. Values other than numbers
    become text, an error the sentence that it was raised with.
    """
    kept = {name: _kept(value) for name, value in values.items()}
    return Sentence(template.format(**kept), template, kept)


def _kept(value: object) -> Value:
    if isinstance(value, BaseException) and value.args and isinstance(value.args[0], Sentence):
        return value.args[0]
    return value if isinstance(value, Value) else str(value)


def opening(text: str) -> str:
    """The same with a capital, for the beginning of a sentence."""
    capital = text[:1].upper() + text[1:]
    return Sentence(capital, text.template, text.values, is_opening=True) if isinstance(text, Sentence) else capital


def lowered(text: str) -> str:
    """The same without capitals in English; a translation keeps those of its nouns."""
    return Sentence(text.lower(), text.template, text.values) if isinstance(text, Sentence) else text.lower()


def shown(name: str) -> str:
    """The name in quotes, cut when it is long, with everything unprintable escaped."""
    cut = name if len(name) <= MAX_SHOWN else name[: MAX_SHOWN - 1] + "…"
    return "'" + "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut) + "'"


def joined(parts: Iterable[str], between: str = " ") -> Sentence:
    """Several sentences or phrases in one, each translated by itself; empty ones are left out."""
    values = {f"part{place}": part for place, part in enumerate(each for each in parts if each)}
    template = between.replace("{", "{{").replace("}", "}}").join(f"{{{name}}}" for name in values)
    return Sentence(between.join(values.values()), template, values)


def to_json(value: Value) -> object:
    """Template and values of a sentence as JSON can keep them; a text or a number stays as it is."""
    if isinstance(value, Sentence):
        return [value.template, {name: to_json(each) for name, each in value.values.items()}, value.is_opening]
    return [str(value)] if isinstance(value, Amount) else value


def from_json(kept: object) -> Value:
    """What `to_json` made of it. Raises `ValueError` for anything else, such as a template that asks for more."""
    match kept:
        case str() | int() | float():
            return kept
        case [str(number)]:
            return Amount(number)
        case [str(template), dict(values), bool(is_opening)]:
            for _, name, form, turn in Formatter().parse(template):
                if name is not None and (not name.isidentifier() or name not in values or form or turn):
                    raise ValueError("a place has no value, or another form")
            sentence = say(template, **{name: from_json(each) for name, each in values.items()})
            return opening(sentence) if is_opening else sentence
        case _:
            raise ValueError("it is no sentence")


_FAILURES = {
    str(each): each
    for each in (
        say("Permission denied"),
        say("No such file or directory"),
        say("No space left on device"),
        say("Input/output error"),
        say("Read-only file system"),
        say("Is a directory"),
        say("Not an ordinary file"),
        say("Not a directory"),
        say("Too many open files"),
        say("Operation not permitted"),
        say("File name too long"),
        say("File too large"),
        say("Disk quota exceeded"),
        say("No such device or address"),
        say("Device or resource busy"),
        say("Exec format error"),
        say("Argument list too long"),
        say("Cannot allocate memory"),
        say("Address already in use"),
        say("Cannot assign requested address"),
        say("Connection refused"),
        say("Connection reset by peer"),
        say("Connection timed out"),
        say("Network is unreachable"),
        say("No route to host"),
        say("Name or service not known"),
        say("Temporary failure in name resolution"),
    )
}


def reason_of(error: OSError) -> str:
    """Why the system refused something, in its own words: a sentence where those can be translated."""
    return sentence_of(error.strerror or str(error) or type(error).__name__)


def sentence_of(said: str) -> str:
    """What the system says, as a sentence where that can be translated."""
    return _FAILURES.get(said, said)

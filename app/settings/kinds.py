"""The kinds of options: what one is called, what it does, which values it may have, and when it takes effect."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, TypeVar

from app.i18n.wording import mark
from app.system.paths import expanded

_OPTION, _FORM = "option", "form"  # what a field is in Preferences, and in a form of its own
_Value = TypeVar("_Value")


class Effect(Enum):
    """When a change is felt, in words; nothing is said of what happens at once."""

    AT_ONCE = ""
    NEXT_ANSWER = mark("Used from the next answer on.")
    NEW_CHAT = mark("Used in new chats.")
    RELOAD = mark("Takes effect after reloading the model.")
    RESTART = mark("Takes effect after restarting Coppice.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One thing that can be set. `title` is its name, `help` what it does, `page` that of Preferences it stands on.

    `refines`: the number without which it means nothing; a form shows it where that is above 0.
    """

    page: str = ""
    title: str
    help: str
    effect: Effect = Effect.AT_ONCE
    refines: str = ""

    def allows(self, value: object) -> bool:
        """Whether a value of the right type is a legal one."""
        raise NotImplementedError

    def default(self, value: _Value) -> _Value:
        """A field of a record that is this option, and has this value until somebody sets it."""
        return option(value, self)

    def in_form(self, value: _Value) -> _Value:
        """The same of what only a form shows."""
        return option(value, form=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(Option):
    """On or off; `words` stand beside the box, if any do."""

    words: str = ""

    def allows(self, value: object) -> bool:
        """On or off."""
        return isinstance(value, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Option):
    """One of a few, each a value and its name."""

    choices: tuple[tuple[str, str], ...]

    def allows(self, value: object) -> bool:
        """One that is in the list."""
        return any(value == each for each, _ in self.choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Option):
    """The name of something that a person has made: a key of the settings' field `names`; an empty one is `none`."""

    names: str
    none: str

    def allows(self, value: object) -> bool:
        """Any name: what it named may be gone, which is as good as none."""
        return isinstance(value, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Option):
    """A whole number; `smallest_means` is what the smallest one stands for, if it is not itself."""

    smallest: int
    largest: int
    step: int = 1
    unit: str = ""
    smallest_means: str = ""

    def allows(self, value: object) -> bool:
        """A number in the range."""
        return type(value) is int and self.smallest <= value <= self.largest


@dataclass(frozen=True, slots=True, kw_only=True)
class Decimal(Option):
    """A number with decimals; otherwise as `Whole`."""

    smallest: float
    largest: float
    step: float = 1.0
    decimals: int = 1
    unit: str = ""
    smallest_means: str = ""

    def allows(self, value: object) -> bool:
        """A number in the range."""
        return isinstance(value, int | float) and self.smallest <= value <= self.largest


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Option):
    """A line of text. `is_legal` judges it, `form` says in words what it must look like; an empty one is legal."""

    is_legal: Callable[[str], bool]
    form: str
    example: str = ""

    def allows(self, value: object) -> bool:
        """Nothing, or a text of the right form."""
        return isinstance(value, str) and (not value or self.is_legal(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class LongText(Option):
    """Any text of several lines; an empty one is shown as `empty_means`, and so many `lines` are seen at once."""

    empty_means: str = ""
    lines: int = 3

    def allows(self, value: object) -> bool:
        """Any text."""
        return isinstance(value, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormalText(LongText):
    """A text in a formal language, such as a schema; `check` raises `InputError` for what is wrong with it.

    `only_with`: the setting that must have the value `meant_by` for the text to be used, and shown. `files`: what the
    dialog calls files of this kind, with their patterns in brackets.
    """

    check: Callable[[str], None]
    only_with: str
    meant_by: str
    files: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed(Option):
    """A whole number of any size from 0 on, or `random`, which is shown as `random_means`."""

    random: int
    random_means: str

    def allows(self, value: object) -> bool:
        """A number that can be a seed."""
        return type(value) is int and (value >= 0 or value == self.random)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder(Option):
    """A folder by its full path; an empty one stands for `otherwise`."""

    otherwise: str = ""

    def allows(self, value: object) -> bool:
        """Nothing, or a path that means the same from everywhere; the folder need not be there yet."""
        return isinstance(value, str) and (not value or expanded(value).is_absolute())


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders(Option):
    """Any number of folders."""

    def allows(self, value: object) -> bool:
        """Paths only."""
        return isinstance(value, tuple) and all(isinstance(each, str) and each for each in value)


def option(default: _Value, declared: Option | None = None, *, form: Option | None = None) -> _Value:
    """A field of a record that is an option of Preferences as well, or of a form, as `form` declares it."""
    metadata = {kind: each for kind, each in ((_OPTION, declared), (_FORM, form)) if each is not None}
    made: _Value = field(default=default, metadata=metadata)
    return made


def options_of(record: Any) -> dict[str, Option]:
    """The options among the fields of a record, by the names of the fields."""
    return {each.name: each.metadata[_OPTION] for each in fields(record) if _OPTION in each.metadata}


def form_of(record: Any) -> dict[str, Option]:
    """What a form shows of the fields of a record, by the names of the fields."""
    return {each.name: each.metadata[_FORM] for each in fields(record) if _FORM in each.metadata}

"""The kinds of options: what one is called, what it does, which values it may have, and when it takes effect."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from app.i18n.wording import mark

_OPTION = "option"
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
    """One thing that can be set. `page` is the page it stands on, `title` its name, `help` what it does."""

    page: str
    title: str
    help: str
    effect: Effect = Effect.AT_ONCE

    def allows(self, value: object) -> bool:
        """Whether a value of the right type is a legal one."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(Option):
    """On or off."""

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
    """A number with one decimal; otherwise as `Whole`."""

    smallest: float
    largest: float
    step: float = 1.0
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
class Folder(Option):
    """A folder by its full path; an empty one stands for `otherwise`."""

    otherwise: str = ""

    def allows(self, value: object) -> bool:
        """Nothing, or a path that means the same from everywhere; the folder need not be there yet."""
        return isinstance(value, str) and (not value or Path(value).expanduser().is_absolute())


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders(Option):
    """Any number of folders."""

    def allows(self, value: object) -> bool:
        """Paths only."""
        return isinstance(value, tuple) and all(isinstance(each, str) and each for each in value)


def option(default: _Value, declared: Option) -> _Value:
    """A field of a record that is an option as well."""
    made: _Value = field(default=default, metadata={_OPTION: declared})
    return made


def options_of(record: Any) -> dict[str, Option]:
    """The options among the fields of a record, by the names of the fields."""
    return {each.name: each.metadata[_OPTION] for each in fields(record) if _OPTION in each.metadata}

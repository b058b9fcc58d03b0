"""Options by name, and their values in the settings; `generation.method` is the method in the record `generation`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.settings.kinds import Option, options_of
from app.settings.store import Settings

_RECORD = "generation"


def options_on(page: str) -> dict[str, Option]:
    """The options that stand on a page, by name, in the order in which they were declared."""
    defaults = Settings()
    inner = {f"{_RECORD}.{name}": each for name, each in options_of(defaults.generation).items()}
    return {name: each for name, each in (inner | options_of(defaults)).items() if each.page == page}


def value_of(settings: Settings, name: str) -> Any:
    """The value of an option."""
    record, _, field = name.rpartition(".")
    return getattr(getattr(settings, record) if record else settings, field)


def default_of(name: str) -> Any:
    """The value of an option that nobody has touched."""
    return value_of(Settings(), name)


def changes(settings: Settings, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Settings` that become others when the options get these values."""
    inner = {name.partition(".")[2]: value for name, value in values.items() if "." in name}
    outer = {name: value for name, value in values.items() if "." not in name}
    return outer | ({_RECORD: replace(settings.generation, **inner)} if inner else {})

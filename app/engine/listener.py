"""Engine events by their type: whoever hears of some declares a method for each type."""

from collections.abc import Callable, Sequence
from functools import cache
from inspect import isfunction
from typing import Any, TypeVar

from engine.protocol.messages import Event

_Method = TypeVar("_Method", bound=Callable[..., None])


def takes(*types: type[Any]) -> Callable[[_Method], _Method]:
    """Declares a method of an `EventListener` to be the one that takes events of these types."""

    def declare(method: _Method) -> _Method:
        method.takes = types  # type: ignore[attr-defined]  # functions have room for it
        return method

    return declare


class EventListener:
    """Gives every event that concerns it to the method which takes its type; others are left out.

    To show a new event, write one such method: whatever brings events to the listener brings the new ones too.
    """

    def on_events(self, events: Sequence[Event]) -> None:
        """Take what the engine tells, one event after the other."""
        methods = _methods(type(self))  # type: ignore[arg-type]  # mypy: a class is as hashable as any
        for event in events:
            name = methods.get(type(event))
            if name is not None and self.concerns(event):
                getattr(self, name)(event)

    def concerns(self, event: Event) -> bool:
        """Whether to take an event of a type that is taken; asked for each, when its turn comes."""
        del event
        return True


@cache
def _methods(listener: type) -> dict[type, str]:
    """The names of the methods that take events of a type; those of a subclass go before those of its bases."""
    return {
        event: name
        for base in reversed(listener.__mro__)
        for name, method in vars(base).items()
        if isfunction(method)
        for event in getattr(method, "takes", ())
    }

"""Tells of the layers of the target that pass by, where a pass takes so long that one can see them."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import nn

SLOW_SECONDS = 0.3  # a pass that takes less is over before one could follow it
EVENTS_APART = 1 / 16  # seconds, in the long run
BURST = 4  # so many may come at once: with these, never more than 20 a second

Passed = Callable[[int, bool], None]
"""(layer, waits): a pass has come to this layer; its weights may have to be waited for, or are there."""


class Stream(Protocol):
    """Brings weights to where they are used."""

    @property
    def arriving(self) -> tuple[int, ...]:
        """The layers that are on their way."""


class Passes:
    """Follows the passes over the layers: which of them are slow, and when it is time to tell of a layer again."""

    def __init__(self) -> None:
        self._begin = 0.0
        self._layer = -1
        self._was_slow = False
        self._next = 0.0  # when the next event would be due, if they came evenly

    def forget(self) -> None:
        """What comes next has nothing to do with what was."""
        self._layer, self._was_slow = -1, False

    def end(self) -> None:
        """A pass is over; what comes until the next one is no part of it."""
        if self._layer >= 0:
            self._was_slow = time.monotonic() - self._begin >= SLOW_SECONDS
        self._layer = -1

    def come_to(self, layer: int) -> bool:
        """A pass has come to this layer; True if somebody who looks is to be told."""
        now = time.monotonic()
        if self._layer < 0 or layer < self._layer:
            if self._layer >= 0:
                self._was_slow = now - self._begin >= SLOW_SECONDS
            self._begin = now
        self._layer = layer
        if not (self._was_slow or now - self._begin >= SLOW_SECONDS) or now < self._next:
            return False
        self._next = max(self._next, now - (BURST - 1) * EVENTS_APART) + EVENTS_APART
        return True


@contextmanager
def layers_seen(layers: "Iterable[nn.Module]", passed: Passed) -> Iterator[None]:
    """As long as this holds, `passed` is called at every layer: when it is needed, and when its weights are there.

    Hooks of a layer that two networks share run for both.
    """
    with ExitStack() as hooks:
        for index, layer in enumerate(layers):
            # Ahead of whoever brings the weights, and behind everybody else.
            hooks.callback(layer.register_forward_pre_hook(_call(passed, index, True), prepend=True).remove)
            hooks.callback(layer.register_forward_pre_hook(_call(passed, index, False)).remove)
        yield


def _call(passed: Passed, index: int, waits: bool):  # type: ignore[no-untyped-def]  # torch's own hook type
    def hook(_layer: object, _inputs: object) -> None:
        passed(index, waits)

    return hook

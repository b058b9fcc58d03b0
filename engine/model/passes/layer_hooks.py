"""Hooks of a network's layers that know what a pass may leave out."""

from typing import Any, Protocol


class SparingHook(Protocol):
    """A hook of a layer, before or after it, as torch calls it."""

    @property
    def runs_once(self) -> bool:
        """Whether it may be left out but for the first of the layers that are computed in one go.

        Of the first one it runs before, and with no inputs.
        """


class OnceHook:
    """Calls what is given before a layer, or before several that are computed in one go."""

    runs_once = True

    def __init__(self, call: Any) -> None:
        self._call = call

    def __call__(self, _layer: object, _inputs: object) -> None:
        """As torch calls it."""
        self._call()

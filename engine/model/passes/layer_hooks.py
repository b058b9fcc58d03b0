"""Hooks that know when they have to be called where several layers are computed in one go."""

from collections.abc import Callable
from typing import Any, Literal

Together = Literal["never", "once", "each"]
"""Once: before the first of those layers; each: for every one of them, but before any is computed."""


class KnownHook:
    """What torch calls before a module, or after it."""

    def __init__(self, call: Callable[[Any], None], together: Together) -> None:
        """`call` is given the module's inputs, or what stands for them: of a layer none, in one go."""
        self._call, self.together = call, together

    def __call__(self, _module: object, inputs: Any, *_output: object) -> None:
        """As torch calls it."""
        self._call(inputs)


class SettledHook:
    """What torch calls before a layer, or after it, and what has nothing to do once the layer is settled."""

    def __init__(self, call: Callable[[], None], is_settled: Callable[[], bool]) -> None:
        self._call, self._is_settled = call, is_settled

    @property
    def together(self) -> Together | None:
        """None as long as there may be something to do."""
        return "never" if self._is_settled() else None

    def __call__(self, *_: object) -> None:
        """As torch calls it."""
        self._call()


def together_of(hook: Any) -> Together | None:
    """When to call a hook in one go; None if a layer with such a hook has to be computed by itself."""
    found: Together | None = getattr(hook, "together", None)
    return found

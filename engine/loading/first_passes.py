"""What a network raises in its first passes is told as a fault of its model.

Classes of transformers take configs that they have no code for, such as a layer of a kind that they do not know, or a
size of 0, and raise whatever comes of it in a pass.
"""

import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from engine.errors import UnrunnableError
from engine.loading.out_of_memory import out_of_memory_of
from engine.model.architecture import words_of
from engine.protocol.sentences import say
from engine.speculation.interfaces import Scorer

# What networks raise for layers, a mask, a cache or positions that they do not know, and for sizes that do not fit.
NETWORK_FAULTS = (
    ValueError, TypeError, LookupError, AttributeError, AssertionError, ArithmeticError, NameError, RuntimeError,
)  # fmt: skip
HINT = say(
    "Its config.json asks for what its network cannot compute: get the model again from where it was published, or "
    "choose another one."
)

Result = TypeVar("Result")


class FirstPasses:
    """Which passes the models of a loaded pair have made; what one raises behind its first ones is a fault of ours."""

    def __init__(self) -> None:
        """None is made yet."""
        self._made: set[tuple[str, str]] = set()  # of prompts and of trees, by model

    def of(self, scorer: Scorer, name: str, device: torch.device) -> Scorer:
        """The scorer; until it has made its first passes it raises `UnrunnableError`, with the model's `name`."""
        if {(name, "prefill"), (name, "score")} <= self._made:
            return scorer
        return _Untried(scorer, name, device, self._made)


class _Untried:
    """A scorer whose network may never have made a pass."""

    def __init__(self, scorer: Scorer, name: str, device: torch.device, made: set[tuple[str, str]]) -> None:
        self._scorer, self._name, self._device, self._made = scorer, name, device, made

    @property
    def length(self) -> int:
        return self._scorer.length

    def prefill(self, tokens: Sequence[int]) -> int:
        return self._tried("prefill", lambda: self._scorer.prefill(tokens))

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        return self._tried("score", lambda: self._scorer.score(tokens, parents, last))

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        self._scorer.keep(nodes, rest)

    def _tried(self, kind: str, run: Callable[[], Result]) -> Result:
        try:
            result = run()
        except NETWORK_FAULTS as error:
            if (self._name, kind) in self._made or _is_of_machine(error, self._device):
                raise
            traceback.print_exception(error)  # for the log
            words = say("'{name}' cannot be run: {reason}", name=self._name, reason=words_of(error) + ".")
            raise UnrunnableError(words, HINT) from error
        self._made.add((self._name, kind))
        return result


def _is_of_machine(error: Exception, device: torch.device) -> bool:
    """Whether memory, a GPU or its driver may be at fault."""
    is_of_gpu = device.type != "cpu" and isinstance(error, RuntimeError)
    return is_of_gpu or out_of_memory_of(error, "") is not None

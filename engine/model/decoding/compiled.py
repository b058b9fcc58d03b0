"""Compiles a decoder's arithmetic into few kernels on CUDA, once for each step; plain operations do where that fails.

On a CPU nothing is compiled: torch's compiler takes half a minute for a step there, needs a C++ compiler that few
desktops have, and its Q4_K ran at a third of the speed of the plain operations.
"""

import logging
import warnings
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

Step = Callable[..., Tensor]
"""Tensors, and what is the same in every call, to float32 numbers in memory of their own; changes no argument."""

FAULTS = (ImportError, OSError, RuntimeError, AssertionError)  # compilers' own are RuntimeErrors
_log = logging.getLogger(__name__)


def fused(step: Step, device: torch.device) -> Step:
    """`step` as it is best run on a device: compiled on CUDA, the same one for all callers, and itself elsewhere."""
    return _compiled(step) if device.type == "cuda" else step


class Compiled:
    """A step that is compiled when it is first called, for any number of rows.

    The first result is compared with the plain one: compilers may fuse a product and a sum into one rounding, which
    changes bits wherever the product is not exact. After a failure, or other bits, the step stays plain for ever.
    """

    def __init__(self, step: Step, backend: str | Callable[..., object] = "inductor") -> None:
        """`backend`: as `torch.compile` takes it."""
        self._step = step
        self._backend = backend
        self._compiled: Step | None = None
        self._is_checked = False
        self.is_plain = False

    def __call__(self, *arguments: object) -> Tensor:
        """The step's numbers; raises only what the step itself would raise."""
        found = None if self.is_plain else self._try(*arguments)
        if found is not None and self._is_checked:
            return found
        plain = self._step(*arguments)
        if found is not None:
            self._is_checked = True
            if not _same_bits(found, plain):
                self._give_up("it gives other bits")
        return plain

    def _try(self, *arguments: object) -> Tensor | None:
        """What the compiled step gives; None if it cannot be compiled or run."""
        try:
            if self._compiled is None:
                self._compiled = torch.compile(self._step, backend=self._backend, dynamic=True, fullgraph=True)
            if self._is_checked:
                return self._compiled(*arguments)
            with (
                warnings.catch_warnings()
            ):  # compilers advise, say to switch TF32 on; where warnings are errors they end
                warnings.simplefilter("ignore")
                return self._compiled(*arguments)
        except torch.OutOfMemoryError:
            raise
        except FAULTS as error:
            self._give_up(str(error).partition("\n")[0])
            return None

    def _give_up(self, reason: str) -> None:
        self.is_plain = True
        self._compiled = None
        _log.warning("Decoding by %s is not compiled: %s", self._step.__name__, reason)


@lru_cache
def _compiled(step: Step) -> Compiled:
    return Compiled(step)


def _same_bits(found: Tensor, plain: Tensor) -> bool:
    if (found.dtype, found.shape) != (plain.dtype, plain.shape):
        return False
    return torch.equal(found.contiguous().view(torch.int32), plain.contiguous().view(torch.int32))

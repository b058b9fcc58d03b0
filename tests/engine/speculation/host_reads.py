"""Counts how often the host waits for a tensor, and a device that the host must not read from at will."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from engine.speculation.methods import sampled_trees, verification

READ_BY = {torch.Tensor.tolist, torch.Tensor.cpu}
READ_INSIDE = {
    "_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "_unique2", "unique_dim", "bincount",
    "repeat_interleave", "allclose",
}  # fmt: skip


class HostReads:
    """The number of reads so far; of numbers, flags, lists and copies, and of sizes that depend on what is computed."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        with _Functions(self), _Operators(self):
            yield


class _Functions(TorchFunctionMode):
    def __init__(self, reads: HostReads) -> None:
        super().__init__()
        self._reads = reads

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._reads.count += func in READ_BY
        return func(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, reads: HostReads) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._reads = reads

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._reads.count += func.overloadpacket.__name__ in READ_INSIDE
        return func(*args, **(kwargs or {}))


def forbid_free_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU."""
    for module in (verification, sampled_trees):
        monkeypatch.setattr(module, "reads_are_free", lambda _device: False)


class Bigrams:
    """A `Scorer` whose logits depend on the last token alone: a row of `table`, [vocabulary, vocabulary].

    `passes`: so many; `in_use`: of how many passes somebody still holds the logits.
    """

    def __init__(self, table: Tensor) -> None:
        self.passes = 0
        self._table = table
        self._tokens: list[int] = []
        self._pending: list[int] = []
        self._handed_out: list[StorageWeakRef] = []

    @property
    def length(self) -> int:
        return len(self._tokens)

    @property
    def in_use(self) -> int:
        return sum(not storage.expired() for storage in self._handed_out)  # type: ignore[no-untyped-call]

    def prefill(self, tokens: Sequence[int]) -> int:
        self._tokens, self._pending = list(tokens), []
        return 0

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        self.passes += 1
        self._pending += tokens
        logits = self._table.index_select(0, torch.tensor(tokens[-last:]))
        self._handed_out.append(StorageWeakRef(logits.untyped_storage()))  # type: ignore[no-untyped-call]
        return logits

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        self._tokens += [self._pending[node] for node in nodes]
        self._pending = [self._pending[node] for node in rest]


def bigrams(vocabulary: int, noise: float, make: Callable[[Tensor], Tensor] = Tensor.float) -> tuple[Bigrams, Bigrams]:
    """Target and draft, which differ by so much noise."""
    generator = torch.Generator().manual_seed(1)
    table = 2 * torch.randn(vocabulary, vocabulary, generator=generator)
    other = table + noise * torch.randn(vocabulary, vocabulary, generator=generator)
    return Bigrams(make(table)), Bigrams(make(other))

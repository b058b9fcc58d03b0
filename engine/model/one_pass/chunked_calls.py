"""Calls a module on one chunk of a long text after the other: what it takes is sliced, what it returns is joined."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

LEAST_ROWS = 8  # of a chunk: more than any dimension before that of the rows (texts, kinds of positions, streams)

Around = Callable[["Chunk"], AbstractContextManager[None]]
"""Is entered around the call on a chunk, and may raise."""

Replace = Callable[[Tensor, "Chunk"], Tensor | None]
"""What takes the place of a tensor in the call on a chunk; None for those that are sliced like all others."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows [begin, end) of a pass; `number` counts from 0."""

    number: int
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class PerChunk:
    """What a module returned for each chunk where it cannot be joined; the next module gets each with its chunk."""

    parts: tuple[Any, ...]


class ChunkedCalls:
    """The calls of one pass over tokens, each made in chunks that end at `ends`, ascending; the last one ends the pass.

    A tensor's rows are its first dimension of that size: those before it are smaller than `LEAST_ROWS`. A dictionary
    that modules pass on to each other exists once for each chunk, as long as the pass goes on.

    The main output is written over the main input wherever this pass made that itself, in an earlier call: a chunk
    reads rows of its own alone. So all outputs of a pass are one tensor, and whoever wants to keep one copies it.
    """

    def __init__(self, ends: Sequence[int], replace: Replace = lambda _tensor, _chunk: None) -> None:
        assert len(ends) > 1, "what fits into one chunk is no work for this"
        assert ends[0] >= LEAST_ROWS, "the first chunk tells which dimension is that of the rows"
        self.chunks = [Chunk(number, begin, end) for number, (begin, end) in enumerate(pairwise([0, *ends]))]
        self._rows = ends[-1]
        self._replace = replace
        self._output: Tensor | None = None
        self._own: dict[int, tuple[object, list[Any]]] = {}  # by a dictionary's id, which stays its while it is kept

    def call(self, run: Callable[..., Any], around: Around, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """`run` of all rows. Returns a tensor, or a tuple that begins with one, as `run` does for a chunk."""
        whole: Tensor | None = None
        others: list[tuple[Any, ...]] = []
        is_tuple = False
        for chunk in self.chunks:
            with around(chunk):
                found = run(
                    *(self._part(value, chunk) for value in args),
                    **{name: self._part(value, chunk) for name, value in kwargs.items()},
                )
            is_tuple = isinstance(found, tuple)
            part, *more = found if is_tuple else (found,)
            if whole is None:
                dim = part.shape.index(len(chunk))
                whole = self._room_for(part, dim, [*args, *kwargs.values()])
            whole.narrow(dim, chunk.begin, len(chunk)).copy_(part)
            others.append(tuple(more))
        return (whole, *(self._joined(parts) for parts in zip(*others, strict=True))) if is_tuple else whole

    def _part(self, value: Any, chunk: Chunk) -> Any:
        if isinstance(value, Tensor):
            replaced = self._replace(value, chunk)
            return self._rows_of(value, chunk) if replaced is None else replaced
        if isinstance(value, tuple):
            return tuple(self._part(each, chunk) for each in value)
        if isinstance(value, MutableMapping):
            return self._own_of(value, chunk)
        return value.parts[chunk.number] if isinstance(value, PerChunk) else value

    def _rows_of(self, value: Tensor, chunk: Chunk) -> Tensor:
        if self._rows not in value.shape:
            return value
        return value.narrow(value.shape.index(self._rows), chunk.begin, len(chunk))

    def _own_of(self, shared: MutableMapping[Any, Any], chunk: Chunk) -> Any:
        if id(shared) not in self._own:
            own = [copy(shared) for _ in self.chunks]
            for each, its in zip(self.chunks, own, strict=True):
                its.update({name: self._part(value, each) for name, value in shared.items()})
            self._own[id(shared)] = shared, own
        return self._own[id(shared)][1][chunk.number]

    def _room_for(self, part: Tensor, dim: int, given: Sequence[Any]) -> Tensor:
        """Where the outputs go whose first one is `part`."""
        shape = torch.Size((*part.shape[:dim], self._rows, *part.shape[dim + 1 :]))
        known, self._output = self._output, None
        if (
            known is None
            or all(each is not known for each in given)
            or (known.shape, known.dtype) != (shape, part.dtype)
        ):
            del known  # before there is another
            known = part.new_empty(shape)
        self._output = known
        return known

    def _joined(self, parts: tuple[Any, ...]) -> Any:
        """One tensor, where these are the rows of one."""
        if all(part is None for part in parts):
            return None
        first = parts[0]
        if not isinstance(first, Tensor) or len(self.chunks[0]) not in first.shape:
            return PerChunk(parts)
        dim = first.shape.index(len(self.chunks[0]))
        others = {part.shape[:dim] + part.shape[dim + 1 :] for part in parts}
        return torch.cat(parts, dim) if len(others) == 1 else PerChunk(parts)

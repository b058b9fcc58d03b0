"""How a weight of the network is put together from those of a checkpoint: where in it each of them belongs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from engine.model.formats.packed import PackedWeight
from engine.model.safetensors_header import TensorInfo

Step = Literal["stack", "concatenate", "transpose"]
Source = TensorInfo | PackedWeight


@dataclass(frozen=True, slots=True)
class Operation:
    """What is done to weights on their way into the network; `dimensions`: one, or for `transpose` two."""

    step: Step
    dimensions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A part of a tensor, by the method of torch and its arguments: dimensions, indices and lengths."""

    kind: Literal["select", "narrow", "transpose"]
    arguments: tuple[int, ...]

    def of(self, tensor: Tensor) -> Tensor:
        """The part itself, which shares the tensor's memory."""
        viewed: Tensor = getattr(tensor, self.kind)(*self.arguments)
        return viewed


@dataclass(frozen=True, slots=True)
class Piece:
    """One weight of a checkpoint, and the views that lead from the network's weight to where it belongs in there."""

    source: Source
    views: tuple[View, ...] = ()

    def place(self, weight: Tensor) -> Tensor:
        """The view of the network's weight that this piece fills."""
        for view in self.views:
            weight = view.of(weight)
        return weight

    @property
    def is_whole(self) -> bool:
        """Whether the weight is this piece alone, as it is."""
        return not self.views


@dataclass(frozen=True, slots=True)
class Assembly:
    """A weight of the network, of this shape, and all its pieces, which do not overlap."""

    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]

    @property
    def whole(self) -> Source | None:
        """The only weight that goes into it, if it stays as it is."""
        return self.pieces[0].source if len(self.pieces) == 1 and self.pieces[0].is_whole else None


def assemble(
    sources: Mapping[str, Sequence[Source]], order: Sequence[str], operations: Sequence[Operation]
) -> Assembly | None:
    """What operations, one after the other, make of a checkpoint's weights.

    `sources`: the weights by the pattern of their names; `order`: the patterns as they follow each other where they
    are concatenated. None if the result is not one weight, or a shape does not fit.
    """
    groups = {
        pattern: [Assembly(source.shape, (Piece(source),)) for source in sources[pattern]]
        for pattern in order
        if pattern in sources
    }
    for operation in operations:
        if operation.step == "concatenate":
            groups = {order[0]: [each for group in groups.values() for each in group]}
        for pattern, group in groups.items():
            made = _apply(operation, group)
            if made is None:
                return None
            groups[pattern] = [made]
    results = [each for group in groups.values() for each in group]
    return results[0] if len(results) == 1 else None


def _apply(operation: Operation, group: Sequence[Assembly]) -> Assembly | None:
    first, *others = operation.dimensions
    if operation.step == "stack":
        return _stack(group, first)
    if operation.step == "concatenate":
        return _concatenate(group, first)
    return _transpose(group[0], first, others[0]) if len(group) == 1 else None


def _stack(group: Sequence[Assembly], dimension: int) -> Assembly | None:
    shape = group[0].shape
    if any(each.shape != shape for each in group) or not 0 <= dimension <= len(shape):
        return None
    pieces = [_behind(View("select", (dimension, index)), each) for index, each in enumerate(group)]
    return Assembly((*shape[:dimension], len(group), *shape[dimension:]), _all(pieces))


def _concatenate(group: Sequence[Assembly], dimension: int) -> Assembly | None:
    shape = group[0].shape
    if not 0 <= dimension < len(shape) or any(
        _without(each.shape, dimension) != _without(shape, dimension) for each in group
    ):
        return None
    pieces, at = [], 0
    for each in group:
        size = each.shape[dimension]
        pieces.append(_behind(View("narrow", (dimension, at, size)), each))
        at += size
    return Assembly((*shape[:dimension], at, *shape[dimension + 1 :]), _all(pieces))


def _transpose(weight: Assembly, first: int, second: int) -> Assembly | None:
    if not 0 <= min(first, second) <= max(first, second) < len(weight.shape):
        return None
    shape = list(weight.shape)
    shape[first], shape[second] = shape[second], shape[first]
    return Assembly(tuple(shape), _behind(View("transpose", (first, second)), weight))


def _behind(view: View, weight: Assembly) -> tuple[Piece, ...]:
    """The pieces of a weight as they lie in a larger or turned one, of which the weight is this view."""
    return tuple(replace(piece, views=(view, *piece.views)) for piece in weight.pieces)


def _all(groups: Sequence[tuple[Piece, ...]]) -> tuple[Piece, ...]:
    return tuple(piece for group in groups for piece in group)


def _without(shape: tuple[int, ...], dimension: int) -> tuple[int, ...]:
    return (*shape[:dimension], *shape[dimension + 1 :])

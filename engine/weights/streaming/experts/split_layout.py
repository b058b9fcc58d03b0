"""Splits a layer's bytes: the trunk, which every pass needs, and the experts, each of which can be read alone."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from engine.number_types import safetensors_names
from engine.weights.codecs.members import split_name
from engine.weights.store.layout import (
    PAGE,
    LayerLayout,
    Segment,
    StoredTensor,
    copied_layout,
    layout_of_shards,
    round_up,
)

ExpertShape = tuple[tuple[str, torch.dtype, tuple[int, ...]], ...]
"""Names, types and shapes of an expert's parts: layers with the same one can share slots."""

SMALL_PART = 64  # a tensor of less than this fraction of an expert (bias, scales) is read with the trunk


@dataclass(frozen=True, slots=True)
class ExpertHome:
    """Where an expert's bytes begin: in a file, and in the buffer of all experts."""

    path: Path
    offset: int
    begin: int


@dataclass(frozen=True, slots=True)
class ExpertPart:
    """What every expert has of one tensor: `nbytes` of this type and shape, at a home for each expert.

    It is stored as one tensor [experts, ...], or as one for each expert.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    nbytes: int
    homes: tuple[ExpertHome, ...]

    def place(self, expert: int) -> int:
        """Where the expert's bytes begin in the file."""
        return self.homes[expert].offset

    def in_bulk(self, expert: int) -> slice:
        """Where they lie in the buffer of all experts."""
        begin = self.homes[expert].begin
        return slice(begin, begin + self.nbytes)

    def view(self, memory: Tensor) -> Tensor:
        """Bytes of one expert as a tensor."""
        return memory.view(self.dtype).view(self.shape)


@dataclass(frozen=True, slots=True)
class SplitLayout:
    """A layer's `trunk`, all its experts together (`bulk`), and the parts of each of the `count` experts.

    `companions`: those tensors of the trunk, [count, ...], that belong to the experts, but are too small to be read
    alone.
    """

    trunk: LayerLayout
    bulk: LayerLayout
    companions: LayerLayout
    parts: tuple[ExpertPart, ...]
    count: int

    @property
    def expert_bytes(self) -> int:
        """What one expert takes."""
        return sum(part.nbytes for part in self.parts)

    @property
    def shape(self) -> ExpertShape:
        """Of any of its experts."""
        return tuple((part.name, part.dtype, part.shape) for part in self.parts)

    def pages_of(self, expert: int, slot: "SlotShape") -> LayerLayout:
        """The whole pages that hold an expert, as they are read to a slot."""
        found = []
        for part, begin in zip(self.parts, slot.begins, strict=True):
            first = part.place(expert) // PAGE * PAGE
            path = part.homes[expert].path
            last = min(round_up(part.place(expert) + part.nbytes), self._file_end(path))
            found.append(Segment(path, first, last - first, begin))
        return LayerLayout(self.bulk.index, tuple(found), (), slot.nbytes, self.bulk.codec)

    def _file_end(self, path: Path) -> int:
        ends = (s.offset + s.nbytes for s in self.bulk.segments if s.path == path)
        return max(ends)  # a segment ends before its last page only where the file does


@dataclass(frozen=True, slots=True)
class SlotShape:
    """Where the parts of an expert begin in its slot. Each has room for all pages that it lies on in the file."""

    begins: tuple[int, ...]
    nbytes: int

    def spans(self, split: SplitLayout, expert: int) -> Iterator[tuple[ExpertPart, slice]]:
        """Which bytes of a slot hold which part of the expert: at the same offset in a page as in the file."""
        for part, begin in zip(split.parts, self.begins, strict=True):
            at = begin + part.place(expert) % PAGE
            yield part, slice(at, at + part.nbytes)


def slot_shape(split: SplitLayout) -> SlotShape:
    """A slot for any expert of the layer."""
    begins, end = [], 0
    for part in split.parts:
        begins.append(end)
        end += round_up(part.nbytes) + PAGE
    return SlotShape(tuple(begins), end)


def copied_split(split: SplitLayout) -> SplitLayout:
    """A layer as it lies on a device, see `copied_layout`; where it lies in files stays the same."""
    trunk, bulk = copied_layout(split.trunk).layout, copied_layout(split.bulk)
    names = {tensor.name for tensor in split.companions.tensors}
    parts = (
        replace(part, homes=tuple(replace(home, begin=bulk.place(home.begin, part.nbytes)) for home in part.homes))
        for part in split.parts
    )
    companions = replace(trunk, tensors=tuple(tensor for tensor in trunk.tensors if tensor.name in names))
    return replace(split, trunk=trunk, bulk=bulk.layout, companions=companions, parts=tuple(parts))


def split_layout(layout: LayerLayout, prefix: str, count: int) -> SplitLayout | None:
    """Split a layer whose experts' stored tensors have names that begin with `prefix`.

    They are [count, ...], or one for each expert. None if no tensor is worth reading expert by expert.
    """
    own = [tensor for tensor in layout.tensors if tensor.name.startswith(prefix)]
    single = _by_expert(own, count)
    stacks = [tensor for tensor in own if split_name(tensor.name)[1] is None and tensor.shape[:1] == (count,)]
    least = sum(tensor.nbytes for tensor in stacks) / SMALL_PART
    large = [tensor for tensor in stacks if tensor.nbytes >= least]
    moved = [*large, *(tensor for tensors in single.values() for tensor in tensors)]
    names = {tensor.name for tensor in moved}
    bulk, trunk = _sub_layout(layout, moved), _sub_layout(layout, [t for t in layout.tensors if t.name not in names])
    if not moved or bulk is None or trunk is None:
        return None
    begins = {tensor.name: tensor.begin for tensor in bulk.tensors}
    parts = [_part_of_stack(layout, tensor, begins[tensor.name], count) for tensor in large]
    parts += [_part_of_single(layout, name, tensors, begins) for name, tensors in single.items()]
    companions = tuple(tensor for tensor in trunk.tensors if tensor.name.startswith(prefix))
    return SplitLayout(trunk, bulk, replace(trunk, tensors=companions), tuple(parts), count)


def _by_expert(tensors: Iterable[StoredTensor], count: int) -> dict[str, list[StoredTensor]]:
    """Those that are stored for each expert, in the experts' order, by the name that they have in common."""
    found: dict[str, dict[int, StoredTensor]] = defaultdict(dict)
    for tensor in tensors:
        name, expert = split_name(tensor.name)
        if expert is not None:
            found[name][expert] = tensor
    return {name: [each[expert] for expert in range(count)] for name, each in found.items() if len(each) == count}


def _part_of_stack(layout: LayerLayout, tensor: StoredTensor, begin: int, count: int) -> ExpertPart:
    place, nbytes = _placed(layout, tensor), tensor.nbytes // count
    homes = (ExpertHome(place.shard, place.begin + at, begin + at) for at in range(0, count * nbytes, nbytes))
    return ExpertPart(tensor.name, tensor.dtype, tensor.shape[1:], nbytes, tuple(homes))


def _part_of_single(
    layout: LayerLayout, name: str, tensors: Sequence[StoredTensor], begins: Mapping[str, int]
) -> ExpertPart:
    places = [(tensor, _placed(layout, tensor)) for tensor in tensors]
    homes = (ExpertHome(place.shard, place.begin, begins[tensor.name]) for tensor, place in places)
    return ExpertPart(name, tensors[0].dtype, tensors[0].shape, tensors[0].nbytes, tuple(homes))


@dataclass(frozen=True, slots=True)
class _Place:
    dtype: str
    shape: tuple[int, ...]
    shard: Path
    begin: int
    end: int


def _placed(layout: LayerLayout, tensor: StoredTensor) -> _Place:
    """Where a tensor lies in the layer's files."""
    home = next(s for s in layout.segments if s.at <= tensor.begin and tensor.begin + tensor.nbytes <= s.at + s.nbytes)
    begin = home.offset + tensor.begin - home.at
    return _Place(safetensors_names()[tensor.dtype], tensor.shape, home.path, begin, begin + tensor.nbytes)


def _sub_layout(layout: LayerLayout, tensors: Iterable[StoredTensor]) -> LayerLayout | None:
    part = layout_of_shards(layout.index, {tensor.name: _placed(layout, tensor) for tensor in tensors})
    return part and replace(part, codec=layout.codec)

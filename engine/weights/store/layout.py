"""How one decoder layer's weights lie on disk and in a buffer: in a file of its own, or in the checkpoint's files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch

from engine.number_types import torch_types

PAGE = 4096  # direct reads want offsets, lengths and memory in multiples of this
ALIGNED = 16  # bytes that a thread of a GPU reads at once; its grouped products refuse anything else
LINE = 64  # where copied spans begin
LARGE = 4096  # bytes; what is smaller is no matrix


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes [offset, offset + nbytes) of a file, to be read to position `at` of the layer's buffer.

    `offset` and `at` are multiples of `PAGE`; `nbytes` is one too, unless the file ends before.
    """

    path: Path
    offset: int
    nbytes: int
    at: int


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor inside a layer's buffer. `name` is relative to the layer, such as `self_attn.q_proj.weight`."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    nbytes: int

    @property
    def is_aligned(self) -> bool:
        """Whether its numbers may be used where they lie, see `is_aligned`; buffers begin at pages."""
        return is_aligned(self.dtype, self.begin)


def is_aligned(dtype: torch.dtype, place: int) -> bool:
    """Whether numbers at this place in memory give the same results as in memory of their own.

    Some processors' libraries round the product of one row with a float32 matrix by the matrix' address modulo 16
    bytes; tensors that torch allocates begin at multiples of that.
    """
    return dtype != torch.float32 or place % 16 == 0


@dataclass(frozen=True, slots=True)
class LayerLayout:
    """One layer: where its bytes come from, what they hold, how large its buffer must be (a multiple of `PAGE`).

    `codec` names how stored tensors become weights: `plain` (they are the weights), `cast` (another number type),
    `nf4` or `int8` (see `engine.weights.codecs.codec`), or `packed`, in the checkpoint's own formats.
    """

    index: int
    segments: tuple[Segment, ...]
    tensors: tuple[StoredTensor, ...]
    nbytes: int
    codec: str = "plain"


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes [begin, begin + nbytes) of a layer's buffer, which go to `target` in another one."""

    begin: int
    nbytes: int
    target: int


@dataclass(frozen=True, slots=True)
class CopiedLayout:
    """A layer as it lies on a device: `layout` tells where its tensors are there, `spans` how they get there."""

    layout: LayerLayout
    spans: tuple[Span, ...]

    def place(self, begin: int, nbytes: int) -> int:
        """Where bytes of one tensor begin that are at [begin, begin + nbytes) of the buffer they are copied from."""
        home = next(s for s in self.spans if s.begin <= begin and begin + nbytes <= s.begin + s.nbytes)
        return begin - home.begin + home.target


def round_up(nbytes: int, unit: int = PAGE) -> int:
    """The next multiple of `unit`."""
    return -(-nbytes // unit) * unit


class Placed(Protocol):
    """Where a tensor lies: bytes [begin, end) of the file `shard`; `dtype` as safetensors calls it."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def shard(self) -> Path: ...
    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...


def layout_of_shards(index: int, entries: Mapping[str, Placed]) -> LayerLayout | None:
    """The layout of a layer whose tensors, by their names in the layer, are read straight from a checkpoint's shards.

    Segments cover whole pages, one for tensors on adjacent pages. None if a tensor cannot be viewed where it lies,
    because its numbers are not aligned to their own width, or torch has no such type. Raises `OSError` if a file is
    gone.
    """
    types = torch_types()
    if any(entry.dtype not in types or entry.begin % types[entry.dtype].itemsize for entry in entries.values()):
        return None
    segments: list[Segment] = []
    at = 0
    for shard in sorted({entry.shard for entry in entries.values()}):
        size = shard.stat().st_size
        for begin, end in _page_runs([entry for entry in entries.values() if entry.shard == shard]):
            segments.append(Segment(shard, begin, min(end, size) - begin, at))
            at += end - begin
    tensors = [_stored(name, entry, segments) for name, entry in entries.items()]
    return LayerLayout(index, tuple(segments), tuple(tensors), at)


def copied_layout(layout: LayerLayout) -> CopiedLayout:
    """How a layer is copied to a device: as it is, or in spans, if that is what aligns its large tensors there.

    Checkpoints align tensors to 8 bytes at most, and what is read past the page cache stays at its place in the page.
    Kernels want 16. A copy can begin anywhere, so nothing is moved afterwards. Mostly all tensors of a file are off by
    the same, and one span, beginning with the first of them, aligns them all.
    """
    if all(tensor.begin % ALIGNED == 0 for tensor in layout.tensors if tensor.nbytes >= LARGE):
        return CopiedLayout(layout, (Span(0, layout.nbytes, 0),))
    spans: list[Span] = []
    for tensor in sorted(layout.tensors, key=lambda tensor: (tensor.begin, -tensor.nbytes)):
        last = spans[-1] if spans else None
        if last and _may_join(tensor, last):
            reach = max(last.nbytes, tensor.begin + tensor.nbytes - last.begin)
            spans[-1] = Span(last.begin, reach, last.target)
        else:
            spans.append(Span(tensor.begin, tensor.nbytes, round_up(last.target + last.nbytes, LINE) if last else 0))
    there = CopiedLayout(layout, tuple(spans))
    tensors = tuple(replace(each, begin=there.place(each.begin, each.nbytes)) for each in layout.tensors)
    nbytes = round_up(spans[-1].target + spans[-1].nbytes)
    return CopiedLayout(replace(layout, tensors=tensors, nbytes=nbytes), there.spans)


def _may_join(tensor: StoredTensor, span: Span) -> bool:
    """Whether a tensor that begins behind the begin of a span is aligned when it is copied with it."""
    unit = ALIGNED if tensor.nbytes >= LARGE else tensor.dtype.itemsize
    shift = span.target - span.begin
    return tensor.begin <= span.begin + span.nbytes + PAGE and (tensor.begin + shift) % unit == 0


def _page_runs(entries: list[Placed]) -> Iterator[tuple[int, int]]:
    """Runs of whole pages that hold the entries, in order; adjacent runs are merged."""
    run: tuple[int, int] | None = None
    for entry in sorted(entries, key=lambda entry: entry.begin):
        begin, end = entry.begin // PAGE * PAGE, round_up(entry.end)
        if run and begin <= run[1]:
            run = (run[0], max(run[1], end))
            continue
        if run:
            yield run
        run = (begin, end)
    if run:
        yield run


def _stored(name: str, entry: Placed, segments: list[Segment]) -> StoredTensor:
    home = next(
        segment
        for segment in segments
        if segment.path == entry.shard
        and segment.offset <= entry.begin
        and entry.end <= segment.offset + segment.nbytes
    )
    dtype = torch_types()[entry.dtype]
    return StoredTensor(name, dtype, entry.shape, home.at + entry.begin - home.offset, entry.end - entry.begin)

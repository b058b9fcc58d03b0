"""Layers streamed straight from a checkpoint's own files, where their weights lie as they are used."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from engine.number_types import torch_types
from engine.weights.store.layout import PAGE, LayerLayout, Segment, StoredTensor, round_up


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
    """The layout of a layer whose tensors, by their names in the layer, lie in the shards.

    Segments cover whole pages, one for tensors that touch. None if a tensor cannot be viewed where it lies, because
    its numbers are not aligned to their own width, or of a type that is not known here. Raises `OSError` if a file
    is gone.
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


def _page_runs(entries: list[Placed]) -> Iterator[tuple[int, int]]:
    """Runs of whole pages that hold the entries, in order, none touching another."""
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

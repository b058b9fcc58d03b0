"""The ways of one expert into a slot on the compute device: from disk, from RAM, or from disk through RAM."""

from typing import Any, Protocol

from torch import Tensor

from engine.weights.store.disk import DiskReader
from engine.weights.streaming.experts.layout import SlotShape, SplitLayout
from engine.weights.streaming.lane import Lane


class ExpertSource(Protocol):
    """Where the experts of one layer come from."""

    def bring(self, expert: int, slot: Tensor, after: Any) -> None:
        """Fill a slot, uint8, once the device has passed the mark `after`; raises `ModelError` if it cannot be read."""


class FromDisk:
    """Into slots that are host memory and begin on a page."""

    def __init__(self, split: SplitLayout, shape: SlotShape, disk: DiskReader) -> None:
        self._split, self._shape, self._disk = split, shape, disk

    def bring(self, expert: int, slot: Tensor, after: Any) -> None:
        """See `ExpertSource.bring`; the host has always passed every mark."""
        del after
        self._disk.read(self._split.pages_of(expert, self._shape), slot)


class FromRam:
    """From a buffer of all the layer's experts, which stays in pinned RAM, to the device."""

    def __init__(self, split: SplitLayout, shape: SlotShape, home: Tensor, lane: Lane) -> None:
        self._split, self._shape, self._home, self._lane = split, shape, home, lane

    def bring(self, expert: int, slot: Tensor, after: Any) -> None:
        """See `ExpertSource.bring`."""
        for part, span in self._shape.spans(self._split, expert):
            self._lane.copy(self._home[part.in_bulk(expert)], slot[span], after)


class ThroughRam:
    """From disk into a passage in pinned RAM, as large as a slot, and on to the device."""

    def __init__(self, disk: FromDisk, passage: Tensor, lane: Lane) -> None:
        self._disk, self._passage, self._lane = disk, passage, lane

    def bring(self, expert: int, slot: Tensor, after: Any) -> None:
        """See `ExpertSource.bring`. One expert at a time: the disk is slower than the copy by far."""
        self._disk.bring(expert, self._passage, None)
        self._lane.copy(self._passage, slot, after)

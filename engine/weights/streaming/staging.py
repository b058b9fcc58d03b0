"""Carries bytes to a device, whether the device can fetch them itself or needs them put into pinned memory before."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from engine.weights.store.layout import Span
from engine.weights.streaming.copy_stream import Arrival, CopyStream
from engine.weights.streaming.host_memory import HostArena, arena_bytes
from engine.weights.streaming.pinning import Pinning

PIECE_BYTES = 16 << 20  # long beside the start of a copy, short beside a layer
PIECES = 2  # one is filled while the other is copied from


class Carrier:
    """Copies to a device's memory, for one thread at a time.

    Memory that is not pinned goes through a few small pinned pieces: the driver would do the same, but have the host
    wait for each, and the device's stream stand still meanwhile.
    """

    def __init__(self, copy_stream: CopyStream, pinning: Pinning | None, piece_bytes: int = PIECE_BYTES) -> None:
        """Without a `pinning`, or where it gives nothing, all is copied as it is."""
        self.staged_bytes = 0  # that went through the pieces
        self._copy_stream = copy_stream
        self._arena = HostArena(arena_bytes([piece_bytes] * PIECES), pinning) if pinning else None
        self._pieces: list[Tensor] = []
        if self._arena and self._arena.is_pinned:
            self._pieces = [self._arena.take(piece_bytes) for _ in range(PIECES)]
        self._under_way: list[Arrival | None] = [None] * PIECES  # the last copy from each piece
        self._next = 0

    def carry(self, source: Tensor, target: Tensor, spans: Sequence[Span], after: Any, is_pinned: bool) -> None:
        """Copy spans of `source` once the device has passed the event `after`; returns when all are there."""
        self.carry_all(
            ((source[s.begin : s.begin + s.nbytes], target[s.target : s.target + s.nbytes], after) for s in spans),
            is_pinned,
        )

    def carry_all(self, copies: Iterable[tuple[Tensor, Tensor, Any]], is_pinned: bool) -> None:
        """Copy from a source to a target behind an event, for all of them; the host waits once, for the last."""
        arrival: Arrival | None = None
        for source, target, after in copies:
            if is_pinned or not self._pieces:
                arrival = self._copy_stream.start(source, target, after)
            else:
                arrival = self._staged(source, target, after) or arrival
        if arrival:
            arrival.synchronize()

    def close(self) -> None:
        """Unpin the pieces; nothing is copied any more but from pinned memory."""
        self._pieces = []
        if self._arena:
            self._arena.close()
            self._arena = None

    def bytes_per_second(self, sample: Tensor) -> float:
        """How fast such memory is copied to the pieces: the most that goes through them. 0 where there are none."""
        if not self._pieces:
            return 0.0
        part = sample[: len(self._pieces[0])]
        piece = self._pieces[0][: len(part)].copy_(part)
        begin = time.perf_counter()
        piece.copy_(part)
        return len(part) / max(time.perf_counter() - begin, 1e-9)

    def _staged(self, source: Tensor, target: Tensor, after: Any) -> Arrival | None:
        arrival: Arrival | None = None
        size = len(self._pieces[0])
        for begin in range(0, len(source), size):
            number, self._next = self._next, (self._next + 1) % PIECES
            if before := self._under_way[number]:
                before.synchronize()
            part = source[begin : begin + size]
            piece = self._pieces[number][: len(part)]
            piece.copy_(part)
            arrival = self._copy_stream.start(piece, target[begin : begin + size], after)
            self._under_way[number] = arrival
            self.staged_bytes += len(part)
        return arrival

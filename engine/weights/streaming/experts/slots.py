"""Slots for single experts on the compute device: where an expert comes from, and who fills them."""

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from engine.own_thread import threads_allowed
from engine.weights.store.disk import DiskReader
from engine.weights.streaming.copy_stream import CopyStream
from engine.weights.streaming.experts.cache import Expert, ExpertCache
from engine.weights.streaming.experts.meter import ExpertMeter
from engine.weights.streaming.experts.split_layout import SlotShape, SplitLayout
from engine.weights.streaming.prefetch_ring import OnWait
from engine.weights.streaming.staging import Carrier

READERS = 2  # of single experts: a disk would be idle between two small reads of one thread


@dataclass(frozen=True, slots=True)
class Fetch:
    """An expert that is wanted in a slot, uint8, once the device has passed the event `after`."""

    expert: int
    slot: Tensor
    after: Any


class ExpertSource(Protocol):
    """Where the experts of one layer come from."""

    takes_all: bool
    """Whether all that a layer lacks had better be asked for at once, than one by one as they arrive."""

    def fetch(self, wanted: Sequence[Fetch]) -> None:
        """Fill the slots; returns when the bytes are there. Raises `ModelError` if reading fails."""


class FromDisk:
    """Into slots that are host memory and begin on a page."""

    takes_all = False

    def __init__(self, split: SplitLayout, shape: SlotShape, disk: DiskReader) -> None:
        self._split, self._shape, self._disk = split, shape, disk

    def fetch(self, wanted: Sequence[Fetch]) -> None:
        """See `ExpertSource.fetch`; the host computes in order, so there is no event to wait for."""
        for each in wanted:
            self._disk.read(self._split.pages_of(each.expert, self._shape), each.slot)


class FromRam:
    """From a buffer of all the layer's experts, which stays in RAM, to the device.

    They take less time than it takes to wait for each of their parts, so the host waits once for all.
    """

    takes_all = True

    def __init__(self, split: SplitLayout, shape: SlotShape, home: Tensor, is_pinned: bool, carrier: Carrier) -> None:
        self._split, self._shape, self._home = split, shape, home
        self._is_pinned, self._carrier = is_pinned, carrier

    def fetch(self, wanted: Sequence[Fetch]) -> None:
        """See `ExpertSource.fetch`."""
        self._carrier.carry_all(
            (
                (self._home[part.in_bulk(each.expert)], each.slot[span], each.after)
                for each in wanted
                for part, span in self._shape.spans(self._split, each.expert)
            ),
            self._is_pinned,
        )


class ThroughRam:
    """From disk into a staging buffer in RAM, as large as a slot, and on to the device."""

    takes_all = False

    def __init__(self, disk: FromDisk, staging: Tensor, copy_stream: CopyStream) -> None:
        self._disk, self._staging, self._copy_stream = disk, staging, copy_stream

    def fetch(self, wanted: Sequence[Fetch]) -> None:
        """See `ExpertSource.fetch`. One expert at a time: the disk is slower than the copy by far."""
        for each in wanted:
            self._disk.fetch([Fetch(each.expert, self._staging, None)])
            self._copy_stream.copy(self._staging, each.slot, each.after)


@dataclass(frozen=True, slots=True)
class LoadedExpert:
    """An expert whose bytes are in their slot: its number in the layer, and its stored tensors by name."""

    expert: int
    parts: Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Transfer:
    """When the transfer of an expert began and ended, by `time.perf_counter`."""

    begin: float
    end: float


class ExpertSlots:
    """Slots of one expert each, on the compute device."""

    def __init__(
        self,
        memory: Tensor,
        shape: SlotShape,
        slots: int,
        meter: ExpertMeter,
        copy_stream: CopyStream | None,
        layers: int = 1,
    ) -> None:
        """`memory`: uint8, at least `slots` times as large as one slot; page-aligned if it is the host's.

        `layers`: how many share the slots.
        """
        self.cache = ExpertCache(slots, layers)
        self.meter = meter
        self.waited_seconds = 0.0
        self.bytes_fetched = 0
        self._memory, self._shape, self._copy_stream = memory, shape, copy_stream
        # Behind the last computation that read the slot; at first, behind all that had this memory for something else.
        self._events: list[Any] = [copy_stream.record_event() if copy_stream else None] * slots
        self._threads = self._pool()
        self._expected: dict[Expert, Future[Transfer]] = {}  # before their layer has asked for them
        self._bytes_expected = 0  # of each: layers that share slots have experts of one size

    def load(
        self,
        split: SplitLayout,
        experts: Sequence[int],
        source: ExpertSource,
        on_wait: OnWait | None,
        is_timed: bool,
        then: Callable[[], None] = lambda: None,
    ) -> Generator[list[LoadedExpert]]:
        """The experts of one layer in portions: those in the cache, then all that have come, in the file's order.

        While it waits for more, `on_wait` is called as long as it finds work. `is_timed`: the meter counts the time.
        `then` is called once all are on their way, and may `expect` some of another layer. Raises what it raised, or
        fetching one; experts that were not yielded by then are not in the cache.
        """
        layer = split.trunk.index
        coming = self._due(layer, experts)
        taken = self.cache.take([(layer, expert) for expert in experts], self._expected)
        slot_of = dict(zip(experts, taken.slots, strict=True))
        transfers, waited = list[Transfer](), self.waited_seconds
        try:
            coming |= self._request(layer, [(expert, slot_of[expert]) for _, expert in taken.missing], source)
            then()
            if here := [expert for expert in experts if expert not in coming]:
                yield [self._loaded(split, expert, slot_of[expert]) for expert in here]
            while coming:
                found: list[LoadedExpert] = []
                for expert, arrival in list(coming.items()):
                    if found and not arrival.done():
                        break
                    transfers.append(self._await(arrival, on_wait))
                    del coming[expert]
                    self.bytes_fetched += split.expert_bytes
                    found.append(self._loaded(split, expert, slot_of[expert]))
                yield found
            self._tell(transfers, split, is_timed, self.waited_seconds - waited)
        finally:
            self._abandon(layer, coming)
            self._record(taken.slots)

    def expect(
        self, split: SplitLayout, experts: Iterable[int], source: ExpertSource, running: Collection[Expert]
    ) -> None:
        """Bring experts that another layer will probably ask for, behind all that is on its way; no device takes part.

        As many as have slots besides those of the layer that is `running` and those expected before. What that layer
        does not ask for is not waited for, and not brought if that has not begun by then.
        """
        layer = split.trunk.index
        kept = {*running, *self._expected}
        wanted = [expert for expert in experts if (layer, expert) not in self.cache]
        wanted = wanted[: self.cache.slots - len(kept)]
        slots = self.cache.admit([(layer, expert) for expert in wanted], kept)
        coming = self._request(layer, list(zip(wanted, slots, strict=True)), source)
        self._expected |= {(layer, expert): arrival for expert, arrival in coming.items()}
        self._bytes_expected = split.expert_bytes

    def held(self, split: SplitLayout, experts: Iterable[int]) -> list[LoadedExpert]:
        """Those of a layer's experts that are in their slots. Call `used` once the work that reads them is launched."""
        found = ((expert, self.cache.slot_of((split.trunk.index, expert))) for expert in experts)
        return [self._loaded(split, expert, slot) for expert, slot in found if slot is not None]

    def used(self, layer: int, experts: Iterable[int]) -> None:
        """All work that reads these experts of a layer has been launched."""
        slots = (self.cache.slot_of((layer, expert)) for expert in experts)
        self._record([slot for slot in slots if slot is not None])

    @contextmanager
    def bringing(
        self, split: SplitLayout, experts: Sequence[int], source: ExpertSource, on_wait: OnWait | None, is_timed: bool
    ) -> Iterator[None]:
        """Bring experts, which were noted, into slots for later passes while something else is done inside.

        All are there at the end, or none that has not come is in the cache. See `load`.
        """
        layer = split.trunk.index
        slots = self.cache.admit([(layer, expert) for expert in experts])
        coming = self._request(layer, list(zip(experts, slots, strict=True)), source)
        transfers: list[Transfer] = []
        try:
            yield
            for expert in list(coming):
                transfers.append(self._await(coming[expert], on_wait))
                del coming[expert]
                self.bytes_fetched += split.expert_bytes
            self._tell(transfers, split, is_timed)
        finally:
            self._abandon(layer, coming)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(cancel_futures=True)

    def _due(self, layer: int, experts: Iterable[int]) -> "dict[int, Future[Transfer]]":
        """When those of a layer's experts arrive that were expected and are still on their way.

        Others are not expected any more, but for those that are just being read, which keep their slots until then.
        """
        asked = {(layer, expert) for expert in experts}
        self._settle(asked)
        if len(asked | self._expected.keys()) > self.cache.slots:
            wait(self._expected.values())
            self._settle(asked)
        return {each[1]: self._expected.pop(each) for each in asked & self._expected.keys()}

    def _settle(self, asked: Collection[Expert]) -> None:
        """Expect no more what has come, what could not be read, and what nobody has asked for nor begun to read."""
        for each, arrival in list(self._expected.items()):
            if not arrival.done() and (each in asked or not arrival.cancel()):
                continue
            del self._expected[each]
            if arrival.cancelled() or arrival.exception() is not None:
                self.cache.forget([each])
            else:
                self.bytes_fetched += self._bytes_expected

    def _request(
        self, layer: int, missing: Sequence[tuple[int, int]], source: ExpertSource
    ) -> "dict[int, Future[Transfer]]":
        """Of experts and their slots: when each of them arrives. If that raises, none of them is in the cache."""
        wanted = [Fetch(expert, self._slot(slot), self._events[slot]) for expert, slot in missing]

        def fetch(some: Sequence[Fetch]) -> Transfer:
            begin = time.perf_counter()
            source.fetch(some)
            return Transfer(begin, time.perf_counter())

        coming: dict[int, Future[Transfer]] = {}
        try:
            if source.takes_all and wanted:
                return dict.fromkeys((each.expert for each in wanted), self._threads.submit(fetch, wanted))
            for each in wanted:
                coming[each.expert] = self._threads.submit(fetch, [each])
        except BaseException:  # the system has no further thread: one that there is would still do what was asked for
            self._threads.shutdown(cancel_futures=True)
            self._threads = self._pool()
            self.cache.forget((layer, expert) for expert, _ in missing)
            raise
        return coming

    def _pool(self) -> ThreadPoolExecutor:
        """The staging buffer on the way to a device holds one at a time."""
        threads = 1 if self._copy_stream else READERS
        # A thread takes over torch's number of threads at its first use, which may be 1 for a moment: so it asks first.
        return ThreadPoolExecutor(threads, "experts to their slots", initializer=threads_allowed)

    def _tell(
        self, transfers: Sequence[Transfer], split: SplitLayout, is_timed: bool, waited: float | None = None
    ) -> None:
        """The meter counts how long they took, from the first one's begin to the last one's end."""
        if transfers and is_timed:
            seconds = max(transfer.end for transfer in transfers) - min(transfer.begin for transfer in transfers)
            self.meter.fetched(len(transfers) * split.expert_bytes, seconds, waited)

    def _await(self, arrival: "Future[Transfer]", on_wait: OnWait | None) -> Transfer:
        begin = time.perf_counter()
        while on_wait is not None and not arrival.done() and on_wait():
            pass
        try:
            return arrival.result()
        finally:
            self.waited_seconds += time.perf_counter() - begin

    def _abandon(self, layer: int, coming: Mapping[int, "Future[Transfer]"]) -> None:
        """A running transfer must not write into a slot that belongs to another expert by then."""
        for arrival in coming.values():
            arrival.cancel()
        wait(arrival for arrival in coming.values() if not arrival.cancelled())
        self.cache.forget((layer, expert) for expert in coming)

    def _record(self, slots: Iterable[int]) -> None:
        if self._copy_stream:
            event = self._copy_stream.record_event()
            for slot in slots:
                self._events[slot] = event

    def _slot(self, number: int) -> Tensor:
        return self._memory[number * self._shape.nbytes : (number + 1) * self._shape.nbytes]

    def _loaded(self, split: SplitLayout, expert: int, slot: int) -> LoadedExpert:
        memory = self._slot(slot)
        spans = self._shape.spans(split, expert)
        return LoadedExpert(expert, {part.name: part.view(memory[span]) for part, span in spans})

"""Measures how fast this machine reads, copies, computes and unpacks, with the shapes of the model at hand."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from engine import accelerator
from engine.accelerator import is_accelerator
from engine.loading.measurements.samples import (
    MANY_ROWS_PART,
    MATRIX_ELEMENTS,
    Samples,
    StoredSample,
    usual_parts,
)
from engine.model.formats.packed import PackedWeight
from engine.model.passes.light.light_rows import MOST_ROWS
from engine.model.passes.slot_forms import PackedStates, packed
from engine.model.passes.tree_attention import heads_at_once, tree_attention
from engine.model.products import layouts
from engine.model.products.arranged import Woven
from engine.model.products.bfloat_loops import PAIRS, bfloat_loop
from engine.model.products.layouts import UNIT
from engine.model.products.product import Product, Stored, floats, native, times_all
from engine.model.products.programs import Room, RoomError, Steps
from engine.model.products.team import team
from engine.model.shape import key_group
from engine.own_thread import in_own_thread
from engine.speculation.tuning.pass_time import PassTime
from engine.weights.codecs.codec import codec_named
from engine.weights.planning.needs import ModelNeeds
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout, Segment
from engine.weights.streaming.copy_stream import CopyStream
from engine.weights.streaming.host_memory import HostArena
from engine.weights.streaming.pinning import pinning_for
from engine.weights.streaming.stored_weight import Products, StoredWeight

LOOPS = 20  # which loops multiply weights as they are stored: with others all is measured anew

MIB = 1 << 20
READ_BYTES, READ_SECONDS = 64 * MIB, 0.3  # at once, and after which no further read begins
UNSTEADY, UNSTEADY_SECONDS = 1.5, 1.0  # as soon as half of the reads differ by this factor, more of them are taken
COPY_BYTES = 64 * MIB
PACKED_ELEMENTS = 1 << 22
MEMORY_ROWS_MOST = 17  # beyond so many rows the caches hardly matter
FEW_ROWS_MOST = 9  # beyond so many rows arithmetic counts: fewer weights tell as much, sooner
MEASURED_ROWS = (1, 2, 5, 9, 17, 33, 65, 257)  # of trees: one more than 2^n, for which kernels may need another tile
AWAKE = 1 << 17  # numbers of a product that is enough to wake who helps
WAKING_SECONDS = 5e-3  # that they are waited for
ATTENTION_ROWS, ATTENTION_SLOTS = (1, 64, 256), 1024
REPEATS, LONG_SECONDS = 3, 0.04
TURNS = 2  # at least, of ways of which the faster one is looked for
DISTURBED = math.log(1.25)  # a measurement that differs by more says no more


def nothing() -> None:
    """Leave the caches as they are."""


@dataclass(frozen=True, slots=True)
class DeviceTimer:
    """Times calls on a device; `check` runs before each and may raise. `dtype` is the number type to compute in."""

    device: torch.device
    dtype: torch.dtype
    check: Callable[[], None]

    def seconds(self, run: Callable[[], object], before: Callable[[], object] = nothing) -> float:
        """The least time of `run` after one warm-up; fewer repeats where it takes long. `before` each, untimed.

        The least, because whatever else the machine does in between only ever adds to it.
        """
        self._timed(run)
        times: list[float] = []
        while not times or (len(times) < REPEATS and sum(times) < LONG_SECONDS):
            before()
            times.append(self._timed(run))
        return min(times)

    def seconds_in_turns(
        self, runs: Sequence[Callable[[], object]], before: Callable[[], object] = nothing
    ) -> list[float]:
        """The same of several, in turns: a busy machine delays each of them, not the one that it was busy for."""
        for run in runs:
            self._timed(run)
        times: list[list[float]] = [[] for _ in runs]
        done = 0
        while done < TURNS or (done < REPEATS and sum(map(sum, times)) < len(runs) * LONG_SECONDS):
            for run, found in zip(runs, times, strict=True):
                before()
                found.append(self._timed(run))
            done += 1
        return list(map(min, times))

    def _timed(self, run: Callable[[], object]) -> float:
        self.check()
        accelerator.wait_for_current_stream(self.device)
        begin = time.perf_counter()
        run()
        accelerator.wait_for_current_stream(self.device)
        return time.perf_counter() - begin


def disk_rate(files: Sequence[Path], check: Callable[[], None]) -> float:
    """Bytes a second of reading these files as the stream does; raises `ModelError` if they cannot be read.

    The median of pieces: one that lay in the disk's own cache says as little as one that another program delayed.
    """
    segments = [
        Segment(path, offset, min(READ_BYTES, path.stat().st_size - offset), 0)
        for path in files
        for offset in range(0, path.stat().st_size, READ_BYTES)
    ]
    reader = DiskReader([LayerLayout(0, tuple(segments), (), READ_BYTES)])
    buffer = HostArena(READ_BYTES).take(READ_BYTES)
    rates: list[float] = []
    spent = 0.0
    try:
        for segment in segments:
            check()
            begin, before = time.perf_counter(), reader.bytes_read
            reader.read(LayerLayout(0, (segment,), (), READ_BYTES), buffer)
            seconds = time.perf_counter() - begin
            spent += seconds
            if segment.nbytes == READ_BYTES or not rates:
                rates.append((reader.bytes_read - before) / seconds)
            if spent > (UNSTEADY_SECONDS if _is_unsteady(rates) else READ_SECONDS):
                break
    finally:
        reader.close()
    return median(rates)


def _is_unsteady(rates: Sequence[float]) -> bool:
    """Whether the middle half of some rates is far apart."""
    ordered = sorted(rates)
    return len(rates) > 1 and ordered[(3 * len(rates)) // 4] > UNSTEADY * ordered[len(rates) // 4]


def copy_rate(timer: DeviceTimer) -> float:
    """Bytes a second that the device's own memory takes and gives together."""
    source = torch.ones(COPY_BYTES // 4, device=timer.device)
    target = torch.empty_like(source)
    return 2 * COPY_BYTES / timer.seconds(lambda: target.copy_(source))


def link_rate(copy_stream: CopyStream, timer: DeviceTimer) -> float:
    """Bytes a second from pinned host memory to the device, as the stream copies them."""
    arena = HostArena(COPY_BYTES, pinning_for(copy_stream.device))
    source, target = arena.take(COPY_BYTES).fill_(1), copy_stream.allocate(COPY_BYTES)
    try:
        return COPY_BYTES / timer.seconds(lambda: copy_stream.copy(source, target, None))
    finally:
        arena.close()


def product_time(needs: ModelNeeds, timer: DeviceTimer, cold: Callable[[], object] = nothing) -> PassTime:
    """Seconds of an MLP of the model's own width, up to a limit, against rows; `cold` before each of a few rows.

    Includes the activation between the products, which counts with many rows where a model is wide for its depth.
    """
    hidden = needs.shape.hidden
    wide = max(1, min(needs.shape.widest, MATRIX_ELEMENTS // MANY_ROWS_PART // hidden))
    matrices = min(sum(layer.elements for layer in needs.layers), MATRIX_ELEMENTS) // (wide * hidden)
    count = max(1, matrices // 3)
    mlps = [
        [torch.full((wide, hidden), 0.01, dtype=timer.dtype, device=timer.device) for _ in range(3)]
        for _ in range(count)
    ]

    def some(rows: int) -> int:
        return count if rows <= FEW_ROWS_MOST else max(1, count // MANY_ROWS_PART)

    def multiply(rows: int) -> None:
        state = torch.ones(rows, hidden, dtype=timer.dtype, device=timer.device)
        for gate, up, down in mlps[: some(rows)]:
            inner = functional.silu(functional.linear(state, gate)) * functional.linear(state, up)
            functional.linear(inner, down.view(hidden, wide))

    return _pass_time(MEASURED_ROWS, lambda rows: 3 * some(rows) * wide * hidden, multiply, timer, cold)


def attention_time(needs: ModelNeeds, timer: DeviceTimer) -> PassTime:
    """Seconds of attention over the cache against rows, with as many heads, and shared keys, as the model has."""
    shape = needs.shape
    width = _head_width(needs)
    # From the middle of a cache for more slots, as keys of heads do not lie one behind the other there.
    cache = torch.ones(1, _shared_heads(needs), 2 * ATTENTION_SLOTS, width, dtype=timer.dtype, device=timer.device)
    keys = cache[:, :, :ATTENTION_SLOTS]
    are_paired = timer.dtype == torch.bfloat16 and timer.device.type == "cpu" and bfloat_loop() is PAIRS

    def attend(rows: int) -> object:
        if are_paired and 1 < rows <= MOST_ROWS and not (shape.eager or width % UNIT):
            return attend_in_steps(torch.ones(shape.heads, rows, width), keys[0])
        queries = torch.ones(1, shape.heads, rows, width, dtype=timer.dtype, device=timer.device)
        if not shape.eager:
            return tree_attention(nn.Module(), queries, keys, keys, _tree_mask(rows, timer))[0]
        whole = keys.repeat_interleave(shape.heads // keys.shape[1], 1)
        scores = queries @ whole.transpose(2, 3) + torch.zeros(
            rows, ATTENTION_SLOTS, dtype=timer.dtype, device=timer.device
        )
        return scores.softmax(-1) @ whole

    return _pass_time(ATTENTION_ROWS, lambda _rows: ATTENTION_SLOTS * shape.query_width, attend, timer)


def attend_in_steps(query: Tensor, keys: Tensor) -> Tensor:
    """As layers of one call attend: query float32 [heads, rows, width], keys (and values) [heads, slots, width]."""
    loop, (heads, rows, width) = native().works.attending, query.shape
    found, mask = torch.empty(rows, heads, width), torch.ones(rows, keys.shape[1], dtype=torch.bool)
    told = np.zeros(loop.FACTS, np.int64)
    told[[loop.QUERY, loop.OUT, loop.MASK]] = query.data_ptr(), found.data_ptr(), mask.data_ptr()
    told[[loop.KEYS, loop.VALUES]], told[loop.MASK_STEP] = keys.data_ptr(), mask.stride(0)
    told[[loop.KEY_STEP, loop.VALUE_STEP]] = keys.stride(0)
    told[[loop.HEADS, loop.GROUP, loop.ROWS]] = heads, heads // len(keys), rows
    told[[loop.SLOTS, loop.WIDTH, loop.NARROW]] = keys.shape[1], width, 1
    told.view(np.float32)[2 * loop.SCALE] = width**-0.5
    steps = Steps()
    steps.attend(told)
    steps.finish()
    steps.run(0, len(steps))
    return found


def _head_width(needs: ModelNeeds) -> int:
    """Numbers of a head's query; 1 where all layers keep a state, and nothing attends."""
    return max(1, needs.shape.query_width // needs.shape.heads)


def _shared_heads(needs: ModelNeeds) -> int:
    """How many heads keys and values have, in the mean of layers, by what is kept of a token."""
    shape, attending = needs.shape, sum(layer.attends for layer in needs.layers)
    of_head = 2 * _head_width(needs) * shape.value_bytes
    found = round(needs.kv_bytes / max(1, attending * of_head))
    return next(count for count in range(max(1, min(shape.heads, found)), 0, -1) if shape.heads % count == 0)


def _tree_mask(rows: int, timer: DeviceTimer) -> Tensor | None:
    """As trees bring it: none for one row, and on a device one that is added."""
    if rows == 1:
        return None
    if is_accelerator(timer.device):
        return torch.zeros(1, 1, rows, ATTENTION_SLOTS, dtype=timer.dtype, device=timer.device)
    return torch.ones(1, 1, rows, ATTENTION_SLOTS, dtype=torch.bool)


def slots_unpacking_rate(needs: ModelNeeds, timer: DeviceTimer) -> float:
    """Numbers per second of keys and values in 8 bits that attention unpacks, some heads at a time."""
    shape = needs.shape
    width = _head_width(needs)
    states = torch.ones(1, shape.heads, ATTENTION_SLOTS, width, dtype=timer.dtype, device=timer.device)
    keys, values = (PackedStates(*packed(states, group), timer.dtype) for group in (key_group(width), width))
    at_once = heads_at_once(keys, values)

    def unpack() -> None:
        for begin in range(0, shape.heads, at_once):
            for each in (keys, values):
                each.heads(begin, min(begin + at_once, shape.heads))

    return 2 * states.numel() / timer.seconds(unpack)


def unpacking_rate(codec_name: str, timer: DeviceTimer) -> float:
    """Weights per second that a codec unpacks, written to more memory than a processor's cache holds."""
    codec, name = codec_named(codec_name), "mlp.up_proj.weight"
    shape = (MATRIX_ELEMENTS // PACKED_ELEMENTS, PACKED_ELEMENTS // 1024, 1024)
    weights = torch.ones(shape, dtype=timer.dtype, device=timer.device)
    stored = codec.encode(name, weights[0])

    def unpack() -> None:
        for weight in weights:
            codec.decode(stored, name, weight)

    return weights.numel() / timer.seconds(unpack)


def stored_product_time(
    samples: Samples, timer: DeviceTimer, cold: Callable[[], object] = nothing
) -> tuple[PassTime, int]:
    """Seconds of a product against rows, for 1e9 weights as they are stored, and up to how many rows it is not decoded.

    That is one row at least: larger passes multiply weights where they lie only if these stay as they are stored.

    Where the two ways part is what all measurements say together: one that other programs disturbed must not have
    larger passes decoded from then on. Decoding takes the same for any few rows, so that these are tried once.
    `cold`: called before what few rows are multiplied with is read.
    """
    as_stored: list[float] = []
    decoded: list[float] = []
    for rows in MEASURED_ROWS:
        if rows < FEW_ROWS_MOST:
            as_stored += _seconds_of_all(samples.few, rows, (rows,), timer, cold)
            continue
        found, before = (samples.many, nothing) if rows > FEW_ROWS_MOST else (samples.few, cold)
        one, other = _seconds_of_all(found, rows, (rows, 0), timer, before)
        decoded += [other] * (len(as_stored) + 1 - len(decoded))
        as_stored.append(one)
    count = _parting(as_stored, decoded)
    few_rows = _crossing(as_stored, decoded, count) if count else 1
    return PassTime(tuple(map(float, MEASURED_ROWS)), (*as_stored[:count], *decoded[count:])), few_rows


def _parting(first: Sequence[float], then: Sequence[float]) -> int:
    """How many of these measurements the first way has before the other one is faster, as most of them say."""
    gains = (math.log(other / one) for one, other in zip(first, then, strict=True))
    gained = accumulate((max(-DISTURBED, min(gain, DISTURBED)) for gain in gains), initial=0.0)
    return max((gain, count) for count, gain in enumerate(gained))[1]


def _seconds_of_all(
    found: Sequence[tuple[float, tuple[StoredSample, ...]]],
    rows: int,
    ways: Sequence[int],
    timer: DeviceTimer,
    before: Callable[[], object],
) -> list[float]:
    """Of each of the `ways`, up to how many rows weights are not decoded; samples stand for parts of a model."""
    whole = sum(part for part, _ in found)
    seconds = [_seconds_of(samples, rows, ways, timer, before) for _, samples in found]
    parts = [part / whole for part, _ in found]
    return [sum(part * each for part, each in zip(parts, way, strict=True)) for way in zip(*seconds, strict=True)]


def _crossing(first: Sequence[float], then: Sequence[float], count: int) -> int:
    """Up to how many rows the first way is faster, which the first `count` of all measurements say; linear between."""
    if count == len(first):
        return MEASURED_ROWS[-1]
    saved, lost = then[count - 1] - first[count - 1], first[count] - then[count]
    part = saved / (saved + lost) if saved > 0 and lost > 0 else 0.0
    return int(MEASURED_ROWS[count - 1] + part * (MEASURED_ROWS[count] - MEASURED_ROWS[count - 1]))


@torch.inference_mode()
def _seconds_of(
    samples: Sequence[StoredSample],
    rows: int,
    ways: Sequence[int],
    timer: DeviceTimer,
    before: Callable[[], object],
) -> list[float]:
    """One product with each of them, for 1e9 weights, in each of the ways."""
    place = torch.zeros(max(math.prod(sample.shape) for sample in samples), dtype=timer.dtype)
    numbers = sum(math.prod(sample.shape) for sample in samples)
    with in_own_thread() if rows <= MOST_ROWS else nullcontext():  # as passes over so few rows compute
        runs = [_run(_weights(samples, few_rows, place), rows, timer.dtype) for few_rows in ways]

        def awake() -> None:
            before()
            _wake()

        return [seconds / (numbers / 1e9) for seconds in timer.seconds_in_turns(runs, awake)]


def _run(weights: Sequence[tuple[StoredWeight, StoredSample]], rows: int, dtype: torch.dtype) -> Callable[[], object]:
    """Products with all of these: in steps where they are multiplied as they are stored, as those of layers are."""
    for weight, sample in weights:
        weight.point(sample.stored)
    products = [_in_a_layer(weight.few_product(rows)) for weight, _ in weights]
    loop = bfloat_loop() if dtype == torch.bfloat16 else None
    # Torch may multiply several rows of bfloat16 with weights that are bfloat16, too.
    are_torchs = rows > 1 and loop is not None and loop.leaves_plain and any(map(_is_narrow, products))
    if rows > MOST_ROWS or are_torchs or not all(isinstance(each, Stored) for each in products):
        return partial(_multiply, weights, rows, [{} for _ in weights])
    by_width: dict[int, list[Stored]] = {}
    for product, (_, sample) in zip(products, weights, strict=True):
        assert isinstance(product, Stored)
        by_width.setdefault(sample.shape[1], []).append(product)
    # Few rows are multiplied in float32, whatever the network computes in; those of pairs in steps, too.
    if loop is None or loop is PAIRS or rows < loop.from_rows:
        steps = _in_steps(by_width, rows, is_narrow=loop is not None)
        return lambda: steps.run(0, len(steps))

    def multiply() -> None:
        for width, some in by_width.items():
            times_all(some, torch.ones(rows, width, dtype=dtype))

    return multiply


def _in_a_layer(product: Product | None) -> Product | None:
    """As a layer of one call multiplies it: what lies in pairs is turned so, not brought into another order."""
    return product.matrix if isinstance(product, Woven) else product


def _is_narrow(product: Product | None) -> bool:
    return isinstance(product, Stored) and isinstance(product.parts, layouts.Bfloats)


def _in_steps(by_width: Mapping[int, Sequence[Stored]], rows: int, is_narrow: bool) -> Steps:
    """Products of rows of ones with matrices of each width."""
    while True:
        steps, room = Steps(), Room()
        try:
            for width, some in by_width.items():
                x = room.take(rows, width).fill_(1)
                steps.multiply([(each, room.take(rows, each.rows)) for each in some], x, room, is_narrow)
        except RoomError:
            continue  # in a larger one
        steps.keep(room.numbers)
        steps.finish()
        return steps


@lru_cache(maxsize=1)
def _small_product() -> Product | None:
    return floats(torch.zeros(AWAKE // 256, 256))


def _wake() -> None:
    """Threads that help stay awake for a moment behind a product, as they are in the midst of a pass."""
    if product := _small_product():
        product(torch.zeros(1, 256))
        until = time.perf_counter() + WAKING_SECONDS
        while not team().is_awake and time.perf_counter() < until:
            time.sleep(0)


def _weights(samples: Sequence[StoredSample], few_rows: int, place: Tensor) -> list[tuple[StoredWeight, StoredSample]]:
    """`place`: where those that are decoded are decoded to."""
    found = []
    for sample in samples:
        where = place[: math.prod(sample.shape)].view(sample.shape)
        found.append((StoredWeight(sample.name, sample.decoder, where, few_rows), sample))
    return found


def _multiply(weights: Sequence[tuple[StoredWeight, StoredSample]], rows: int, kept: Sequence[Products]) -> None:
    """`kept`: what is made of each, as layers keep it from one pass to the next."""
    for (weight, sample), products in zip(weights, kept, strict=True):
        weight.point(sample.stored, products)
        functional.linear(torch.ones(rows, sample.shape[1], dtype=weight.dtype), weight)


def packed_rate(weight: PackedWeight, timer: DeviceTimer) -> float:
    """Weights per second that the format of a packed weight decodes; its shapes count, nothing is read."""
    parts = usual_parts(weight, timer.device)
    out = torch.zeros(weight.shape, dtype=timer.dtype, device=timer.device)
    return weight.elements / timer.seconds(lambda: weight.format.decode(parts, out))


@torch.inference_mode()
def _pass_time(
    row_counts: Sequence[int],
    elements: Callable[[int], int],
    run: Callable[[int], object],
    timer: DeviceTimer,
    cold: Callable[[], object] = nothing,
) -> PassTime:
    """Seconds for 1e9 of the `elements` that a run with so many rows takes; `cold`: before each of a few rows."""
    seconds = (
        timer.seconds(lambda rows=rows: run(rows), cold if rows <= MEMORY_ROWS_MOST else nothing)  # type: ignore[misc]
        for rows in row_counts
    )
    found = tuple(one / (elements(rows) / 1e9) for rows, one in zip(row_counts, seconds, strict=True))
    return PassTime(tuple(row_counts), found)

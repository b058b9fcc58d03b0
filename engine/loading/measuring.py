"""Measures how fast this machine reads, copies, computes and unpacks, with the shapes of the model at hand."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from torch import Tensor
from torch.nn import functional

from engine import accelerator
from engine.model.assembly import Assembly, Piece
from engine.model.context import Context
from engine.model.formats.packed import PackedWeight
from engine.model.network import wrap
from engine.number_types import torch_types
from engine.speculation.tuning.pass_time import PassTime
from engine.weights.codecs.codec import Decoder, codec_named
from engine.weights.codecs.packed import Packed
from engine.weights.planning.needs import ModelNeeds
from engine.weights.store.disk import DiskReader
from engine.weights.store.layout import LayerLayout, Segment
from engine.weights.streaming.copy_stream import CopyStream
from engine.weights.streaming.host_memory import HostArena
from engine.weights.streaming.pinning import pinning_for
from engine.weights.streaming.stored_weight import StoredWeight

MIB = 1 << 20
READ_BYTES, READ_SECONDS = 64 * MIB, 0.4  # at once, and after which no further read begins
COPY_BYTES = 128 * MIB
MATRIX_ELEMENTS = 1 << 25  # more than any processor's cache holds
PACKED_ELEMENTS = 1 << 22
PRODUCT_ROWS = (1, 2, 4, 16, 64, 256)  # a second row may cost as much as the first: it is another kernel
STORED_ROWS = (1, 2, 4, 8, 16, 32, 64, 256)
ATTENTION_ROWS, ATTENTION_SLOTS = (1, 64, 256), 1024
REPEATS, LONG_SECONDS = 3, 0.15
NARROW_LAYERS, NARROW_REPEATS = 4, 12


@dataclass(frozen=True, slots=True)
class DeviceTimer:
    """Times calls on a device; `check` runs before each and may raise. `dtype` is the number type to compute in."""

    device: torch.device
    dtype: torch.dtype
    check: Callable[[], None]

    def seconds(self, run: Callable[[], object]) -> float:
        """The median time of `run` after one warm-up; fewer repeats where it takes long."""
        self._timed(run)
        times = [self._timed(run)]
        while len(times) < REPEATS and sum(times) < LONG_SECONDS:
            times.append(self._timed(run))
        return statistics.median(times)

    def _timed(self, run: Callable[[], object]) -> float:
        self.check()
        accelerator.wait_for_current_stream(self.device)
        begin = time.perf_counter()
        run()
        accelerator.wait_for_current_stream(self.device)
        return time.perf_counter() - begin


def disk_rate(files: Sequence[Path], check: Callable[[], None]) -> float:
    """Bytes a second of reading these files as the stream does; raises `ModelError` if they cannot be read."""
    segments = [
        Segment(path, offset, min(READ_BYTES, path.stat().st_size - offset), 0)
        for path in files
        for offset in range(0, path.stat().st_size, READ_BYTES)
    ]
    reader = DiskReader([LayerLayout(0, tuple(segments), (), READ_BYTES)])
    buffer = HostArena(READ_BYTES).take(READ_BYTES)
    begin = time.perf_counter()
    try:
        for segment in segments:
            check()
            reader.read(LayerLayout(0, (segment,), (), READ_BYTES), buffer)
            if time.perf_counter() - begin > READ_SECONDS:
                break
    finally:
        reader.close()
    return reader.bytes_read / (time.perf_counter() - begin)


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


def product_time(needs: ModelNeeds, timer: DeviceTimer) -> PassTime:
    """Seconds of an MLP of the model's own width, up to a limit, against rows.

    Includes the activation between the products, which counts with many rows where a model is wide for its depth.
    """
    hidden = needs.shape.hidden
    wide = max(1, min(needs.shape.widest, MATRIX_ELEMENTS // hidden))
    matrices = min(sum(layer.elements for layer in needs.layers), 3 * MATRIX_ELEMENTS) // (wide * hidden)
    count = max(1, matrices // 3)
    mlps = [
        [torch.full((wide, hidden), 0.01, dtype=timer.dtype, device=timer.device) for _ in range(3)]
        for _ in range(count)
    ]

    def multiply(rows: int) -> None:
        state = torch.ones(rows, hidden, dtype=timer.dtype, device=timer.device)
        for gate, up, down in mlps:
            inner = functional.silu(functional.linear(state, gate)) * functional.linear(state, up)
            functional.linear(inner, down.view(hidden, wide))

    return _pass_time(PRODUCT_ROWS, 3 * count * wide * hidden, multiply, timer)


def attention_time(needs: ModelNeeds, timer: DeviceTimer) -> PassTime:
    """Seconds of attention over the cache against rows, with as many heads as the model has."""
    shape = needs.shape
    keys = torch.ones(
        1, shape.heads, ATTENTION_SLOTS, shape.query_width // shape.heads, dtype=timer.dtype, device=timer.device
    )

    def attend(rows: int) -> Tensor:
        mask = torch.ones(rows, ATTENTION_SLOTS, dtype=torch.bool, device=timer.device)
        queries = keys[:, :, :rows]
        if not shape.eager:
            return functional.scaled_dot_product_attention(queries, keys, keys, attn_mask=mask)
        scores = (queries @ keys.transpose(2, 3)).masked_fill(~mask, -1e4)
        return scores.float().softmax(-1).to(timer.dtype) @ keys

    return _pass_time(ATTENTION_ROWS, ATTENTION_SLOTS * shape.query_width, attend, timer)


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


@dataclass(frozen=True, slots=True)
class StoredSample:
    """A weight [out, in] as it is stored: and what decodes it."""

    name: str
    decoder: Decoder
    stored: Mapping[str, Tensor]
    shape: tuple[int, int]


def stored_product_time(sample: StoredSample, timer: DeviceTimer) -> tuple[PassTime, int]:
    """Seconds of a product against rows, for 1e9 weights as they are stored, and up to how many rows it is not decoded.

    Both ways are tried from one row on; once decoding has won, it is decoded for more rows too.
    """
    place = torch.zeros(sample.shape, dtype=timer.dtype)
    weights = place.numel() / 1e9
    seconds, few_rows, is_few = [], 0, True
    for rows in STORED_ROWS:
        states = torch.ones(rows, sample.shape[1], dtype=timer.dtype)
        ways = [_seconds_of(sample, place, states, few, timer) for few in ((0, rows) if is_few else (0,))]
        is_few = len(ways) > 1 and ways[1] < ways[0]
        few_rows = rows if is_few else few_rows
        seconds.append(min(ways) / weights)
    return PassTime(tuple(map(float, STORED_ROWS)), tuple(seconds)), few_rows


@torch.inference_mode()
def _seconds_of(sample: StoredSample, place: Tensor, states: Tensor, few_rows: int, timer: DeviceTimer) -> float:
    weight = StoredWeight(sample.name, sample.decoder, place, few_rows)

    def multiply() -> None:
        weight.point(sample.stored)
        functional.linear(states, weight)

    return timer.seconds(multiply)


def coded_sample(codec_name: str, hidden: int, stored: torch.dtype) -> StoredSample:
    """A weight of a layer's width in one of our codecs; `cast` keeps numbers of type `stored`."""
    shape = (max(1, MATRIX_ELEMENTS // 2 // hidden), hidden)
    codec, name = codec_named(codec_name), "mlp.up_proj.weight"
    return StoredSample(name, codec, codec.encode(name, torch.full(shape, 0.01, dtype=stored)), shape)


def packed_sample(weight: PackedWeight) -> StoredSample:
    """A weight as its checkpoint packs it; its shapes count, nothing is read."""
    assembly = Assembly(weight.shape, (Piece(weight),))
    decoder = Packed({weight.name: assembly})
    stored = {
        name: torch.zeros(info.nbytes, dtype=torch.uint8).view(torch_types()[info.dtype]).view(info.shape)
        for name, info in decoder.entries().items()
    }
    return StoredSample(weight.name, decoder, stored, (weight.shape[0], weight.shape[1]))


def packed_rate(weight: PackedWeight, timer: DeviceTimer) -> float:
    """Weights per second that the format of a packed weight decodes; its shapes count, nothing is read."""
    parts = {}
    for role, info in weight.parts.items():
        zeros = torch.zeros(info.nbytes, dtype=torch.uint8, device=timer.device)
        parts[role] = zeros.view(torch_types()[info.dtype]).view(info.shape)
    out = torch.zeros(weight.shape, dtype=timer.dtype, device=timer.device)
    return weight.elements / timer.seconds(lambda: weight.format.decode(parts, out))


@torch.inference_mode()
def _pass_time(row_counts: Sequence[int], elements: int, run: Callable[[int], object], timer: DeviceTimer) -> PassTime:
    seconds = (timer.seconds(lambda rows=rows: run(rows)) for rows in row_counts)  # type: ignore[misc]
    return PassTime(tuple(row_counts), tuple(one / (elements / 1e9) for one in seconds))


def layer_overhead_seconds(
    device: torch.device, dtype: torch.dtype, check: Callable[[], None], experts: int = 0, chosen: int = 0
) -> float:
    """The median time of a layer so narrow that nothing but overhead is left; `check` may raise.

    `experts`, of which a token is routed to `chosen`: of a mixture, whose router and many small products take longer.
    """
    shape = {
        "vocab_size": 64, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": NARROW_LAYERS,
        "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 64,
    }  # fmt: skip
    config: transformers.PreTrainedConfig = transformers.LlamaConfig(**shape)
    if experts:
        config = transformers.Qwen3MoeConfig(
            **shape, num_experts=experts, num_experts_per_tok=chosen, moe_intermediate_size=32
        )
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=dtype)
    network = wrap(model.eval().requires_grad_(False).to(device), "sdpa", "overhead")
    context = Context(network, 64, check)
    context.prefill([1, 2, 3, 4])
    seconds = []
    for _ in range(NARROW_REPEATS):
        begin = time.perf_counter()
        context.score([5], [-1])
        seconds.append(time.perf_counter() - begin)
        context.rewind(4)
    return statistics.median(seconds) / NARROW_LAYERS

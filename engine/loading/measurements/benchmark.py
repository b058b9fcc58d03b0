"""Measures how fast this machine is with the weights of a model, once for each kind of them, and keeps it."""

import os
import platform
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from engine import accelerator
from engine.errors import ModelError
from engine.loading.measurements.best_rates import best_of
from engine.loading.measurements.cold_cache import cold_cache
from engine.loading.measurements.measuring import (
    LOOPS,
    MEASURED_ROWS,
    READ_BYTES,
    DeviceTimer,
    attention_time,
    copy_rate,
    disk_rate,
    link_rate,
    packed_rate,
    product_time,
    slots_unpacking_rate,
    stored_product_time,
    unpacking_rate,
)
from engine.loading.measurements.overheads import Narrow, level_overhead, pass_overhead, round_overhead
from engine.loading.measurements.rates_file import Measured, RatesFile
from engine.loading.measurements.samples import PACKED_SIZES, Samples, coded_samples, packed_samples, rounded_samples
from engine.loading.pair import OF_TARGET, PairIdentity
from engine.loading.planning import lies_in_shards, needs_of
from engine.loading.preparation import COMPRESSED, draft_rounds, draft_weights, dtype_for, rounds
from engine.loading.store import cache_root
from engine.model.architecture import open_architecture
from engine.model.checkpoint import Checkpoint
from engine.model.device import Arithmetic, own_dtype
from engine.model.formats.packed import PackedWeight
from engine.model.passes.light.adoption import has_known_layers
from engine.model.products.bfloat_loops import bfloat_loop
from engine.model.shape import ModelSizes, model_sizes
from engine.own_thread import threads_allowed
from engine.protocol.heads import is_eagle3
from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.machine import FEW_ROWS, Rates
from engine.weights.planning.needs import ModelNeeds
from engine.weights.planning.usual_rates import usual_rates
from engine.weights.planning.volume import volume_of
from engine.weights.streaming.copy_stream import CudaCopyStream

GIGA, TERA = 1e9, 1e12
MATRIX = 2  # dimensions
BFLOATS = "BF16"  # a format that packs weights only where their rows lie in another order
FEWER_BITS = "nf4"  # what weights in 16 bits may be compressed to
WORTH_TELLING = 0.1  # of a checkpoint's packed weights, from which a format counts


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What is measured: a model's shapes and number type on a device, and the disk that its layers stream from.

    `stored`: the number type in its files. `packed`: if its layers are streamed as the checkpoint packs them, of each
    format what part of the weights it packs, and some of the model's own weights by about how many numbers they have.
    `is_rounded`: they are multiplied with rows in 8 bits, see `preparation.rounds`; `keeps_few`: see `Stored`.
    """

    checkpoint: Checkpoint
    needs: ModelNeeds
    packed: tuple[tuple[float, Mapping[int, PackedWeight]], ...]
    stored: torch.dtype
    dtype: torch.dtype
    device: torch.device
    shards: tuple[Path, ...]
    folder: Path
    cache: Path
    is_rounded: bool = False
    keeps_few: bool = False

    @property
    def key(self) -> str:
        """All that the figures depend on."""
        shape, family = self.needs.shape, self.checkpoint.config.get("model_type")
        names = [next(iter(weights.values())).format.name for _, weights in self.packed]
        stored_as = "+".join(names) or self.needs.codec
        loops = f"{LOOPS} of 8 bits{' but for few' if self.keeps_few else ''}" if self.is_rounded else LOOPS
        parts = (
            machine_key(self.device), f"disk {volume_of(self.folder)}", f"{stored_as} {self.dtype}, loops {loops}",
            f"{family}, {shape.hidden} x {shape.widest}, {shape.heads} heads, {shape.vocabulary} tokens",
        )  # fmt: skip
        experts, chosen = self._mixture
        return " | ".join((*parts, f"{chosen} of {experts} experts") if experts else parts)

    @property
    def _mixture(self) -> tuple[int, int]:
        """The experts of a layer, and how many a token is routed to; (0, 0) where there are none."""
        return next(((each.experts, each.chosen) for each in self.needs.layers if each.experts), (0, 0))

    @property
    def _row_bytes(self) -> int:
        """What the largest layer reads for a row."""
        return max(each.stored_bytes * each.active_elements // max(1, each.elements) for each in self.needs.layers)

    @property
    def _is_known(self) -> bool:
        """Whether its layers can take one call for few rows."""
        try:
            return has_known_layers(open_architecture(self.checkpoint).model_class)
        except ModelError:  # which is told where it is loaded
            return False

    def recall(self) -> Measured | None:
        """What was measured here before; None if nothing was."""
        return RatesFile(self.cache).recall(self.key)

    def measure(self, check: Callable[[], None], like: Rates | None = None, before: Measured | None = None) -> Measured:
        """Measure now, which takes a second or two, and remember it; `check` is called in between and may raise.

        `like`: rates of this machine with another model, which share what is none of the model's. `before`: what was
        measured here, and is not believed: the best of both counts.
        """
        rates = self._measured(check, like)
        accelerator.give_back_cache()  # the buffers must not fragment the memory of the layers
        if before:
            rates = best_of(rates, before.rates)
        return RatesFile(self.cache).remember(self.key, rates, before.times + 1 if before else 1)

    def _measured(self, check: Callable[[], None], like: Rates | None) -> Rates:
        timer = DeviceTimer(self.device, self.dtype, check)
        usual = usual_rates(self.device, self.needs.is_packed)
        cold = cold_cache(self.device, sum(layer.stored_bytes for layer in self.needs.layers))
        products = product_time(self.needs, timer, cold)
        rows, seconds = products.rows[-1], products.seconds[-1]
        (stored, few_rows), (host, few_of_host) = self._stored(timer, cold, products), self._on_host(check)
        as_stored = few_rows if stored else 0
        narrow = Narrow(self.device, self.dtype, *self._mixture, as_stored, self._is_known, self._row_bytes)
        calls = pass_overhead(narrow, check)
        return Rates(
            link=like.link if like else self._link_rate(timer) or usual.link,
            ssd=like.ssd if like else self._disk_rate(check) or usual.ssd,
            memory=like.memory if like else copy_rate(timer) / GIGA,
            tflops=2 * rows * GIGA / seconds / TERA,
            decode=self._decode_rate(timer),
            call_seconds=calls.layer(1.0),
            products=products,
            attention=attention_time(self.needs, timer),
            unpack=slots_unpacking_rate(self.needs, timer) / GIGA,
            stored=stored,
            few_rows=few_of_host if host else few_rows,
            calls=calls.layer,
            pass_seconds=calls.in_all,
            levels=level_overhead(self.needs.shape.vocabulary, self.device, check),
            host=host,
            round_seconds=round_overhead(self.needs.shape.vocabulary, self.device, check),
        )

    def _stored(
        self, timer: DeviceTimer, cold: Callable[[], object], products: PassTime
    ) -> tuple[PassTime | None, int]:
        """Of weights as they are stored, where they are decoded and the processor computes; and the few rows.

        `products`: of torch, which also multiplies several rows with weights of bfloat16 where they lie.
        """
        if self.device.type != "cpu" or self.needs.codec == "plain" or self._is_odd:
            return None, FEW_ROWS
        found, few_rows = stored_product_time(self._samples, timer, cold)
        if self.is_rounded:  # more rows are multiplied by the same loops
            return found, MEASURED_ROWS[-1]
        are_bfloats = self.packed and all(weights[PACKED_SIZES[0]].format.name == BFLOATS for _, weights in self.packed)
        loop = bfloat_loop() if self.dtype == torch.bfloat16 else None
        if are_bfloats and loop is not None and loop.leaves_plain:
            found = PassTime(found.rows, (found.seconds[0], *(products(rows) for rows in found.rows[1:])))
        return found, few_rows

    def _on_host(self, check: Callable[[], None]) -> tuple[PassTime | None, int]:
        """The same of a mixture's experts that stay in RAM beside a GPU."""
        if self.device.type == "cpu" or not self._mixture[0] or self._is_odd:
            return None, FEW_ROWS
        cpu = torch.device("cpu")
        cold = cold_cache(cpu, sum(layer.expert_bytes for layer in self.needs.layers))
        return stored_product_time(self._samples, DeviceTimer(cpu, torch.float32, check), cold)

    @property
    def _is_odd(self) -> bool:
        """Whether not even the shape of a packed weight is known."""
        return any(len(each.shape) != MATRIX for _, weights in self.packed for each in weights.values())

    @property
    def _samples(self) -> Samples:
        needs = self.needs
        if self.packed:
            found = packed_samples(self.packed)
            return rounded_samples(found, self.keeps_few) if self.is_rounded else found
        return coded_samples(needs.codec, needs.shape.hidden, needs.shape.widest, self.stored)

    def _decode_rate(self, timer: DeviceTimer) -> float:
        """1e9 weights a second; where none are packed, in 4 bits, as the plan tells of these ways too."""
        if self.packed:
            whole = sum(part for part, _ in self.packed)
            parts = [(part, packed_rate(weights[PACKED_SIZES[1]], timer)) for part, weights in self.packed]
            return whole / sum(part / rate for part, rate in parts) / GIGA
        return unpacking_rate(self.needs.codec if self.needs.is_packed else FEWER_BITS, timer) / GIGA

    def _link_rate(self, timer: DeviceTimer) -> float | None:
        """1e9 bytes a second; None where weights are computed with where they are."""
        has_link = accelerator.is_accelerator(self.device)
        return link_rate(CudaCopyStream(self.device), timer) / GIGA if has_link else None

    def _disk_rate(self, check: Callable[[], None]) -> float | None:
        """1e9 bytes a second; None where nothing can be read to find out."""
        try:
            with _sample(self.shards, self.folder, self.cache) as files:
                return disk_rate(files, check) / GIGA
        except (OSError, ModelError):
            return None


def benchmark_of(
    checkpoint: Checkpoint, weights: str, device: torch.device, cache: Path, arithmetic: Arithmetic | None = None
) -> Benchmark:
    """What is to be measured for a checkpoint whose weights are held in this way; `cache` holds prepared layers too.

    `arithmetic`: what is fastest here, where it was measured.
    """
    sizes = model_sizes(checkpoint)
    dtype = dtype_for(weights, checkpoint, device, arithmetic)
    folder = checkpoint.folder if weights not in COMPRESSED and lies_in_shards(sizes) else cache
    needs = needs_of(checkpoint, sizes, weights, device, arithmetic)
    packed = _formats(checkpoint, sizes) if needs.codec == "packed" else ()
    shards = tuple(checkpoint.shards)
    return Benchmark(checkpoint, needs, packed, own_dtype(checkpoint), dtype, device, shards, folder, cache)


def target_benchmark(identity: PairIdentity, device: torch.device, arithmetic: Arithmetic | None = None) -> Benchmark:
    """The same for a pair's target."""
    options = identity.options
    found = benchmark_of(identity.target, options.weights, device, cache_root(options), arithmetic)
    return replace(found, is_rounded=rounds(options, identity.target, device, arithmetic))


def draft_benchmark(
    identity: PairIdentity, device: torch.device, arithmetic: Arithmetic | None = None
) -> Benchmark | None:
    """The same for a pair's draft; None where nothing but heads drafts, which compute as the target does."""
    draft, options = identity.draft, identity.options
    if draft is None or is_eagle3(draft.config) or options.draft in OF_TARGET:
        return None
    found = benchmark_of(draft, draft_weights(options.weights), device, cache_root(options), arithmetic)
    return replace(found, is_rounded=draft_rounds(options, draft, device, arithmetic), keeps_few=True)


def _formats(checkpoint: Checkpoint, sizes: ModelSizes) -> tuple[tuple[float, Mapping[int, PackedWeight]], ...]:
    """The formats that pack much of a checkpoint; the first one where none does."""
    packed = Counter[str]()
    for weight in checkpoint.packed.values():
        packed[weight.format.name] += weight.elements
    whole = packed.total()
    names = [name for name in sizes.formats if packed[name] >= WORTH_TELLING * whole] or sizes.formats[:1]
    return tuple(
        (packed[name] / whole, {elements: _typical(checkpoint, name, elements) for elements in PACKED_SIZES})
        for name in names
    )


def _typical(checkpoint: Checkpoint, name: str, elements: int) -> PackedWeight:
    """A weight in the format called `name` that has about so many elements; of experts, one."""
    alike = [weight for weight in checkpoint.packed.values() if weight.format.name == name]
    found = min(alike, key=lambda weight: abs(weight.elements - elements))
    return found.member(0) if found.is_stack else found


@contextmanager
def _sample(shards: Sequence[Path], folder: Path, cache: Path) -> Iterator[Sequence[Path]]:
    """Files on the disk of `folder` that are large enough to tell its rate: the shards, or one made for this.

    What is made lies in the cache if that is on the same disk: a model's folder is its owner's.
    """
    disk = volume_of(folder)
    if volume_of(shards[0]) == disk and sum(path.stat().st_size for path in shards) >= READ_BYTES:
        yield shards
        return
    place = cache if volume_of(cache) == disk else folder
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place, suffix=".part") as file:
        piece = os.urandom(1 << 20)
        for _ in range(READ_BYTES // len(piece)):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
        yield [Path(file.name)]


def machine_key(device: torch.device) -> str:
    """Processor or GPU, and what else of this process all figures depend on."""
    return f"{device_name(device)} | torch {torch.__version__} | {threads_allowed()} threads"


def device_name(device: torch.device) -> str:
    """What tells this processor or GPU from others."""
    if accelerator.is_accelerator(device):
        return accelerator.name(device)
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()

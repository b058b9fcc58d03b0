"""How fast this machine and a pair on it are: measured once or seen at the last answer, kept, and planned with."""

import math
import os
import platform
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from engine import accelerator
from engine.errors import ModelError
from engine.loading.measuring import (
    MATRIX_ELEMENTS,
    READ_BYTES,
    DeviceTimer,
    attention_time,
    coded_sample,
    copy_rate,
    disk_rate,
    layer_overhead_seconds,
    link_rate,
    packed_rate,
    packed_sample,
    product_time,
    stored_product_time,
    unpacking_rate,
)
from engine.loading.pair import Pair, PairIdentity, drafts_with_heads
from engine.loading.planning import Question, lies_in_shards, needs_of, usual_rates
from engine.loading.preparation import COMPRESSED, dtype_for
from engine.loading.store import CacheFile, cache_root
from engine.model.checkpoint import Checkpoint
from engine.model.device import Arithmetic, own_dtype
from engine.model.formats.packed import PackedWeight
from engine.model.shape import model_sizes
from engine.protocol.messages import Statistics
from engine.protocol.options import SELF_DRAFT, SpeculationOptions
from engine.speculation.tuning.pass_time import PassTime
from engine.speculation.tuning.throughput_model import BUDGETS, DEPTHS, ThroughputModel
from engine.speculation.tuning.throughput_model import Plan as TreePlan
from engine.weights.planning.machine import FEW_ROWS, Memory, Rates
from engine.weights.planning.needs import ModelNeeds
from engine.weights.planning.placement import Override
from engine.weights.planning.volume import volume_of
from engine.weights.planning.ways import TreeYield
from engine.weights.streaming.copy_stream import CudaCopyStream

NAME = "rates.json"
VERSION = 1
PASS_TIMES = ("products", "attention", "stored")
NUMBERS = ("link", "ssd", "memory", "tflops", "decode", "call_seconds")

GIGA, TERA = 1e9, 1e12
MATRIX = 2  # dimensions
LEAST_PASSES = 8  # of an answer that says something
PLANNED = "specexec"  # the method whose trees plans are for


@dataclass(frozen=True, slots=True)
class Measured:
    """A machine's rates, and when they were measured: date and time in UTC."""

    rates: Rates
    at: str


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """What the last answer of a pair gave: tokens and seconds per pass of the target.

    `trees`: what trees of several sizes were expected to give by then: nodes, tokens per pass, and levels.
    """

    tokens_per_pass: float
    seconds_per_pass: float
    trees: tuple[tuple[int, float, float], ...] = ()


class RatesFile:
    """What was measured of machines and pairs, in one cache folder."""

    def __init__(self, folder: Path) -> None:
        self._file = CacheFile(folder / NAME, VERSION)

    def recall(self, key: str) -> Measured | None:
        """The rates that were remembered under `key`."""
        return self._file.entry("machines", key, _measured)

    def remember(self, key: str, rates: Rates) -> Measured:
        """Keep rates that were measured just now."""
        measured = Measured(rates, datetime.now(UTC).isoformat(timespec="seconds"))
        document = asdict(measured)
        for name in PASS_TIMES:
            if (passes := getattr(rates, name)) is not None:
                document["rates"][name] = {"points": list(zip(passes.rows, passes.seconds, strict=True))}
        self._file.put("machines", key, document)
        return measured

    def recall_answer(self, key: str) -> LastAnswer | None:
        """What a pair gave when it was used last."""
        return self._file.entry("pairs", key, _last_answer)

    def remember_answer(self, key: str, last_answer: LastAnswer) -> None:
        """Keep what a pair gave."""
        self._file.put("pairs", key, asdict(last_answer))


def _measured(value: Mapping[str, Any]) -> Measured:
    rates = value["rates"]
    at = datetime.fromisoformat(value["at"]).isoformat(timespec="seconds")
    passes = {name: _pass_time(rates[name]) for name in PASS_TIMES if name != "stored" or rates[name]}
    numbers = {name: _positive(rates[name]) for name in NUMBERS}
    return Measured(Rates(**numbers, **passes, few_rows=int(rates["few_rows"])), at)  # type: ignore[arg-type]


def _pass_time(value: Mapping[str, Any]) -> PassTime:
    points = tuple((int(rows), _positive(seconds)) for rows, seconds in value["points"])
    if not points or any(low >= high for (low, _), (high, _) in pairwise(points)):
        raise ValueError("rows must ascend")
    return PassTime(*zip(*points, strict=True))


def _last_answer(value: Mapping[str, Any]) -> LastAnswer:
    trees = tuple(
        (int(nodes), _positive(tokens), _positive(levels)) for nodes, tokens, levels in value.get("trees", ())
    )
    return LastAnswer(_positive(value["tokens_per_pass"]), _positive(value["seconds_per_pass"]), trees)


def _positive(value: Any) -> float:
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError("a rate is a number above 0")
    return number


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What is measured: a model's shapes and number type on a device, and the disk that its layers stream from.

    `stored`: the number type in its files. `packed`: one of the model's own weights, if its layers are streamed as the
    checkpoint packs them.
    """

    needs: ModelNeeds
    packed: PackedWeight | None
    stored: torch.dtype
    dtype: torch.dtype
    device: torch.device
    shards: tuple[Path, ...]
    folder: Path
    cache: Path

    @property
    def key(self) -> str:
        """All that the figures depend on."""
        shape = self.needs.shape
        stored_as = self.packed.format.name if self.packed else self.needs.codec
        parts = (
            device_name(self.device), f"torch {torch.__version__}", f"{torch.get_num_threads()} threads",
            f"disk {volume_of(self.folder)}", f"{stored_as} {self.dtype}",
            f"{shape.hidden} x {shape.widest}, {shape.heads} heads",
        )  # fmt: skip
        experts, chosen = self._mixture
        return " | ".join((*parts, f"{chosen} of {experts} experts") if experts else parts)

    @property
    def _mixture(self) -> tuple[int, int]:
        """The experts of a layer, and how many a token is routed to; (0, 0) where there are none."""
        return next(((each.experts, each.chosen) for each in self.needs.layers if each.experts), (0, 0))

    def recall(self) -> Measured | None:
        """What was measured here before; None if nothing was."""
        return RatesFile(self.cache).recall(self.key)

    def measure(self, check: Callable[[], None]) -> Measured:
        """Measure now, which takes a second or two, and remember it; `check` is called in between and may raise."""
        timer = DeviceTimer(self.device, self.dtype, check)
        usual, has_link = usual_rates(self.device), accelerator.is_accelerator(self.device)
        products = product_time(self.needs, timer)
        rows, seconds = products.rows[-1], products.seconds[-1]
        stored, few_rows = self._stored(timer)
        rates = Rates(
            link=link_rate(CudaCopyStream(self.device), timer) / GIGA if has_link else usual.link,
            ssd=self._disk_rate(check) or usual.ssd,
            memory=copy_rate(timer) / GIGA,
            tflops=2 * rows * GIGA / seconds / TERA,
            decode=self._decode_rate(timer) or usual.decode,
            call_seconds=layer_overhead_seconds(self.device, self.dtype, check, *self._mixture),
            products=products,
            attention=attention_time(self.needs, timer),
            stored=stored,
            few_rows=few_rows,
        )
        accelerator.give_back_cache()  # the buffers must not fragment the memory of the layers
        return RatesFile(self.cache).remember(self.key, rates)

    def _stored(self, timer: DeviceTimer) -> tuple[PassTime | None, int]:
        """Of weights as they are stored, where they are decoded and the processor computes; and the few rows."""
        codec = self.needs.codec
        if self.device.type != "cpu" or codec == "plain" or (self.packed and len(self.packed.shape) != MATRIX):
            return None, FEW_ROWS
        sample = (
            packed_sample(self.packed) if self.packed else coded_sample(codec, self.needs.shape.hidden, self.stored)
        )
        return stored_product_time(sample, timer)

    def _decode_rate(self, timer: DeviceTimer) -> float | None:
        """1e9 weights a second; None where none are packed."""
        if self.packed:
            return packed_rate(self.packed, timer) / GIGA
        return unpacking_rate(self.needs.codec, timer) / GIGA if self.needs.is_packed else None

    def _disk_rate(self, check: Callable[[], None]) -> float | None:
        """1e9 bytes a second; None where nothing can be read to find out."""
        try:
            with _sample(self.shards, self.folder) as files:
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
    packed = _typical(checkpoint, sizes.formats[0]) if needs.codec == "packed" else None
    return Benchmark(needs, packed, own_dtype(checkpoint), dtype, device, tuple(checkpoint.shards), folder, cache)


def _typical(checkpoint: Checkpoint, name: str) -> PackedWeight:
    """A weight in the format called `name` that is neither very large nor very small; of experts, one."""
    alike = [weight for weight in checkpoint.packed.values() if weight.format.name == name]
    found = min(alike, key=lambda weight: abs(weight.elements - MATRIX_ELEMENTS))
    return found.rows(0, 1) if found.is_stack else found


def remember_answer(
    pair: Pair, speculation: SpeculationOptions, statistics: Statistics, learned: ThroughputModel | None = None
) -> None:
    """Keep tokens and seconds per pass of an answer that was drafted for, and long enough, under method and budget.

    `learned`: by answers of this kind, what trees give.
    """
    drafts = pair.draft is not None or pair.drafts_itself
    if not drafts or statistics.passes < LEAST_PASSES or not statistics.drafted_nodes:
        return
    key = pair.identity.by_folders(speculation.budget, speculation.method)
    seconds = statistics.seconds.decode / statistics.passes
    found = LastAnswer(statistics.tokens_per_pass, seconds, _trees(learned) if learned else ())
    RatesFile(cache_root(pair.options)).remember_answer(key, found)


def _trees(learned: ThroughputModel) -> tuple[tuple[int, float, float], ...]:
    """Of each size the depth that gives most tokens per second; nothing before some trees were seen."""
    stats = learned.methods.get(PLANNED)
    if stats is None or stats.rounds < LEAST_PASSES or not stats.drafting.largest:
        return ()
    best: dict[int, TreePlan] = {}
    for each in learned.plans(PLANNED, BUDGETS[-1], DEPTHS[-1]):
        if each.levels and (each.budget not in best or each.rate > best[each.budget].rate):
            best[each.budget] = each
    return tuple((nodes, each.tokens, each.levels) for nodes, each in best.items())


def recall_answer(identity: PairIdentity, budget: int) -> LastAnswer | None:
    """What the pair's last answer with this budget gave: a figure of its own is better than a published one."""
    return RatesFile(cache_root(identity.options)).recall_answer(identity.by_folders(budget))


def question_for(
    identity: PairIdentity,
    measured: Measured | None,
    memory: Memory | None = None,
    arithmetic: Arithmetic | None = None,
) -> Question:
    """What the options of a pair ask the planner, with what was measured and learned; nothing is measured for it.

    `memory`: what is free; None to look. `arithmetic`: what is fastest here, likewise.
    """
    options = identity.options
    last_answer = recall_answer(identity, options.budget)
    return Question(
        weights=options.weights,
        context_tokens=options.context_tokens,
        budget=options.budget,
        tokens_per_pass=last_answer.tokens_per_pass if last_answer else 0.0,
        rates=measured.rates if measured else None,
        arithmetic=arithmetic,
        memory=memory,
        trees=tuple(TreeYield(*each) for each in last_answer.trees) if last_answer else (),
        drafts_itself=options.draft == SELF_DRAFT,
        drafts_with_heads=drafts_with_heads(options),
        kv=options.kv,
        override=Override(
            place=options.place,
            vram_limit=options.vram_limit_bytes or None,
            ram_limit=options.ram_limit_bytes or None,
            force=options.force,
        ),
    )


@contextmanager
def _sample(shards: Sequence[Path], folder: Path) -> Iterator[Sequence[Path]]:
    """Files on the disk of `folder` that are large enough to tell its rate: the shards, or one made for this."""
    if volume_of(shards[0]) == volume_of(folder) and sum(path.stat().st_size for path in shards) >= READ_BYTES:
        yield shards
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".part") as file:
        piece = os.urandom(1 << 20)
        for _ in range(READ_BYTES // len(piece)):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
        yield [Path(file.name)]


def device_name(device: torch.device) -> str:
    """What tells this processor or GPU from others."""
    if accelerator.is_accelerator(device):
        return accelerator.name(device)
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()

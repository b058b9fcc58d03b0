"""How fast this machine is with the model at hand: measured once, at its first use, and remembered."""

import os
import platform
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.errors import ModelError
from engine.loading.measuring import (
    READ_BYTES,
    Setting,
    attention_time,
    copy_rate,
    disk_rate,
    link_rate,
    product_time,
    unpacking_rate,
)
from engine.loading.planning import lies_in_shards, needs_of, usual_rates
from engine.loading.preparation import COMPRESSED, storage
from engine.loading.rates_file import Measured, RatesFile
from engine.model.checkpoint import Checkpoint
from engine.model.device import choose_dtype
from engine.model.overhead import layer_overhead_seconds
from engine.model.sizes import model_sizes
from engine.weights.planning.machine import Rates
from engine.weights.planning.needs import ModelNeeds
from engine.weights.planning.volume import volume_of
from engine.weights.streaming.lane import CudaLane

GIGA, TERA = 1e9, 1e12


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured: a model's shapes and number type on a device, and the disk that its layers stream from."""

    needs: ModelNeeds
    dtype: torch.dtype
    device: torch.device
    shards: tuple[Path, ...]
    folder: Path
    cache: Path

    @property
    def key(self) -> str:
        """All that the figures depend on."""
        shape = self.needs.shape
        parts = (
            _device_name(self.device), f"torch {torch.__version__}", f"{torch.get_num_threads()} threads",
            f"disk {volume_of(self.folder)}", f"{self.needs.codec} {self.dtype}",
            f"{shape.hidden} x {shape.widest}, {shape.heads} heads",
        )  # fmt: skip
        return " | ".join(parts)

    def recall(self) -> Measured | None:
        """What was measured here before; None if nothing was."""
        return RatesFile(self.cache).recall(self.key)

    def measure(self, check: Callable[[], None]) -> Measured:
        """Measure now, which takes a second or two, and remember it; `check` is called in between and may raise."""
        setting = Setting(self.device, self.dtype, check)
        usual = usual_rates(self.device)
        products = product_time(self.needs, setting)
        rows, seconds = products.rows[-1], products.seconds[-1]
        rates = Rates(
            link=link_rate(CudaLane(self.device), setting) / GIGA if self.device.type == "cuda" else usual.link,
            ssd=self._disk_rate(check) or usual.ssd,
            memory=copy_rate(setting) / GIGA,
            tflops=2 * rows * GIGA / seconds / TERA,
            decode=unpacking_rate(self.needs.codec, setting) / GIGA if self.needs.is_packed else usual.decode,
            call_seconds=layer_overhead_seconds(self.device, self.dtype, check),
            products=products,
            attention=attention_time(self.needs, setting),
        )
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # what was measured with must not lie between the layers that come
        return RatesFile(self.cache).remember(self.key, rates)

    def _disk_rate(self, check: Callable[[], None]) -> float | None:
        """1e9 bytes a second; None where nothing can be read to find out."""
        try:
            with _sample(self.shards, self.folder) as files:
                return disk_rate(files, check) / GIGA
        except (OSError, ModelError):
            return None


def bench_of(checkpoint: Checkpoint, weights: str, device: torch.device, cache: Path) -> Bench:
    """What is to be measured for a checkpoint whose weights are held in this way; `cache` holds prepared layers too."""
    sizes = model_sizes(checkpoint)
    dtype = storage(weights, checkpoint)[1] if weights in COMPRESSED else choose_dtype(weights, checkpoint, device)
    folder = checkpoint.folder if weights not in COMPRESSED and lies_in_shards(sizes) else cache
    return Bench(needs_of(checkpoint, sizes, weights, device), dtype, device, tuple(checkpoint.shards), folder, cache)


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


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()

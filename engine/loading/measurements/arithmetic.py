"""How this machine's processor is fastest with 16-bit weights: measured once, not assumed.

Few desktop processors have units for bfloat16. Without them its products take several times as long as those in
float32, which are exact besides; weights stay in 16 bits either way, in memory and on their way.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch.nn import functional

from engine.loading.measurements.benchmark import machine_key
from engine.loading.measurements.cold_cache import cold_cache
from engine.loading.measurements.measuring import LOOPS, DeviceTimer, stored_product_time
from engine.loading.measurements.rates_file import NAME, VERSION
from engine.loading.measurements.samples import coded_samples
from engine.loading.pair import PairIdentity
from engine.loading.preparation import COMPRESSED
from engine.loading.store import CacheFile, cache_root
from engine.model.device import SMALLEST, Arithmetic, own_dtype
from engine.number_types import COMPUTED
from engine.protocol.options import LoadOptions

SECTION = "arithmetic"
WIDTH, ROWS = 4096, 64  # of the product that decides: a layer's, with the rows of a usual tree
WORTH = 1.25  # so many times as fast float32 must be: its cache takes twice the memory


def recall_arithmetic(options: LoadOptions, device: torch.device) -> Arithmetic | None:
    """What was found to be fastest here; None if nothing was yet, or the device is no CPU."""
    if device.type != "cpu":
        return None
    return CacheFile(cache_root(options) / NAME, VERSION).entry(SECTION, machine_key(device), _parsed)


def is_arithmetic_missing(pair: PairIdentity, device: torch.device) -> bool:
    """Whether one of these models needs it, and nothing was found yet."""
    models = [model for model in (pair.target, pair.draft) if model is not None]
    matters = any(own_dtype(model) != torch.float32 and model.parameters >= SMALLEST for model in models)
    if device.type != "cpu" or not matters or pair.options.weights not in {"auto", *COMPRESSED}:
        return False
    return recall_arithmetic(pair.options, device) is None


def find_arithmetic(pair: PairIdentity, device: torch.device, check: Callable[[], None]) -> Arithmetic | None:
    """The same, found out now if it is missing: in a second, or in ten where loops have to be compiled first.

    `check` is called in between and may raise.
    """
    if not is_arithmetic_missing(pair, device):
        return recall_arithmetic(pair.options, device)
    found = measure_arithmetic(device, check)
    CacheFile(cache_root(pair.options) / NAME, VERSION).put(
        SECTION, machine_key(device), {**asdict(found), "loops": LOOPS}
    )
    return found


def _parsed(value: Mapping[str, Any]) -> Arithmetic:
    found = Arithmetic(str(value["type_name"]), int(value["few_rows"]), int(value["narrow_rows"]))
    if value["loops"] != LOOPS or found.type_name not in COMPUTED or min(found.few_rows, found.narrow_rows) < 0:
        raise ValueError("nothing that was measured")
    return found


@torch.inference_mode()
def measure_arithmetic(device: torch.device, check: Callable[[], None]) -> Arithmetic:
    """What is fastest now: float32, its weights in 16 bits, where that is faster by far; else bfloat16."""
    samples = coded_samples("cast", WIDTH, WIDTH, torch.bfloat16)
    sample = samples.few[0][1][0]
    stored = sample.stored[sample.name]
    wide, narrow = (DeviceTimer(device, dtype, check) for dtype in (torch.float32, torch.bfloat16))
    cold = cold_cache(device, weights_bytes=1 << 40)  # those of a large model

    def seconds_of_torch(rows: int, timer: DeviceTimer) -> float:
        """Of weights that are ready in the type that is computed in."""
        weight, states = stored.to(timer.dtype), torch.ones(rows, WIDTH, dtype=timer.dtype)
        return timer.seconds(lambda: functional.linear(states, weight), cold) / weight.numel() * 1e9

    exact, few_rows = stored_product_time(samples, wide, cold)
    if exact(ROWS) * WORTH < seconds_of_torch(ROWS, narrow):
        return Arithmetic("float32", few_rows)
    rounded, narrow_rows = stored_product_time(samples, narrow, cold)
    return Arithmetic(
        "bfloat16",
        few_rows if exact(1) < seconds_of_torch(1, wide) else 0,
        narrow_rows if rounded(1) < seconds_of_torch(1, narrow) else 0,
    )

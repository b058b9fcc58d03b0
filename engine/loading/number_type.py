"""Which number type this machine's processor computes fastest in: measured once, not assumed.

Few desktop processors have units for bfloat16. Without them its products take several times as long as those in
float32, which are exact besides; 16-bit weights stay in 16 bits either way, where they lie and on their way.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from engine.loading.measuring import DeviceTimer
from engine.loading.preparation import COMPRESSED
from engine.loading.rates import NAME, VERSION, device_name
from engine.loading.store import CacheFile, cache_root
from engine.model.checkpoint import Checkpoint
from engine.model.device import FLOAT32_ON_CPU_BYTES, own_dtype
from engine.number_types import computed_types
from engine.protocol.options import LoadOptions

SECTION = "number types"
WIDTH, ROWS = 2048, 64  # of the product that decides: a layer's, with the rows of a usual tree
WORTH = 1.25  # so many times as fast float32 must be: its cache takes twice the memory


def fastest_type(
    checkpoint: Checkpoint, options: LoadOptions, device: torch.device, check: Callable[[], None] | None = None
) -> torch.dtype | None:
    """The number type that computes fastest here, as it was found once; None where that makes no difference.

    Where nothing was found yet it takes a tenth of a second to find out, if there is a `check`, which is called in
    between and may raise.
    """
    if device.type != "cpu" or not _makes_a_difference(checkpoint, options.weights):
        return None
    file = CacheFile(cache_root(options) / NAME, VERSION)
    key = f"{device_name(device)} | torch {torch.__version__} | {torch.get_num_threads()} threads"
    found = file.entry(SECTION, key, lambda value: computed_types()[value["type"]])
    if found is None and check is not None:
        found = _measured(DeviceTimer(device, torch.float32, check))
        file.put(SECTION, key, {"type": str(found).removeprefix("torch.")})
    return found


def _makes_a_difference(checkpoint: Checkpoint, weights: str) -> bool:
    """Not where a person names the type, nor where it is float32 anyway."""
    if own_dtype(checkpoint) == torch.float32:
        return False
    return weights in COMPRESSED or (weights == "auto" and checkpoint.parameters * 4 > FLOAT32_ON_CPU_BYTES)


@torch.inference_mode()
def _measured(timer: DeviceTimer) -> torch.dtype:
    """float32, its weights in 16 bits, where that is faster by far; else bfloat16."""
    stored = torch.full((WIDTH, WIDTH), 0.01, dtype=torch.bfloat16)
    states, place = torch.ones(ROWS, WIDTH, dtype=torch.bfloat16), torch.zeros(WIDTH, WIDTH)
    exact = states.float()

    def cast_and_multiply() -> Tensor:
        return functional.linear(exact, place.copy_(stored))

    narrow = timer.seconds(lambda: functional.linear(states, stored))
    return torch.float32 if timer.seconds(cast_and_multiply) * WORTH < narrow else torch.bfloat16

"""How fast machines usually are, for one that was not measured yet: conservative figures."""

from dataclasses import replace

import torch

from engine import accelerator
from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.machine import Rates

# A desktop of some eight cores with two channels of memory, and a mid-range gaming card on PCIe 4.0 x16; both with a
# PCIe 3.0 SSD.
CPU_RATES = Rates(link=10.0, ssd=2.0, memory=30.0, tflops=0.5, decode=0.5)
GPU_RATES = Rates(link=22.0, ssd=2.0, memory=400.0, tflops=40.0, decode=80.0)
AS_STORED = PassTime((1.0, 4.0, 16.0, 64.0), (0.025, 0.045, 0.11, 0.4))  # as loops for AVX2 multiply weights of 4 bits


def usual_rates(device: torch.device, is_packed: bool) -> Rates:
    """Those of a machine with such a device; `is_packed`: of weights that a processor multiplies as they are stored."""
    if accelerator.is_accelerator(device):
        return GPU_RATES
    return replace(CPU_RATES, stored=AS_STORED) if is_packed else CPU_RATES

"""What a machine offers: the memory that is free now, and how fast it moves and computes."""

from dataclasses import dataclass, field

from engine.speculation.tuning.pass_time import PassTime

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes that may be taken. `shared`: there is no GPU, so that what the device takes is taken from RAM."""

    device: int
    ram: int
    shared: bool

    def holds(self, device: int, ram: int) -> bool:
        """Whether so many bytes on the device and, besides, in RAM fit."""
        return device <= self.device and self.ram_taken(device, ram) <= self.ram

    def ram_taken(self, device: int, ram: int) -> int:
        """Bytes of RAM that go when so many are taken on the device and in RAM."""
        return ram + device if self.shared else ram


@dataclass(frozen=True, slots=True)
class Memory:
    """Free bytes as they are now, and the part of them that is left to others.

    Without a GPU the device computes in RAM, and the two figures for VRAM mean nothing.
    """

    ram_free: int
    ram_reserve: int = 0
    vram_free: int = 0
    vram_reserve: int = 0
    has_gpu: bool = False

    def room(self, vram_limit: int | None = None, ram_limit: int | None = None) -> Room:
        """What may be taken when a person sets limits too, in bytes."""
        ram = _least(self.ram_free - self.ram_reserve, ram_limit)
        device = _least(self.vram_free - self.vram_reserve if self.has_gpu else ram, vram_limit)
        return Room(device, ram, shared=not self.has_gpu)


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast the machine is, best measured on it.

    `link`: pinned RAM to device; `ssd`: direct reads; `memory`: the device's own memory, all in 1e9 bytes a second.
    `tflops`: matrix products in the weights' type; `decode`: 1e9 packed weights a second that become numbers again.
    `call_seconds`: what one layer costs before it computes anything. `layer_seconds`: one decoder layer of the target
    in one pass of the budget at hand, if it was measured. `products` and `attention`: what weights and cache slots take
    with more and more rows, if that was measured; otherwise `memory` and `tflops` tell.
    """

    link: float
    ssd: float
    memory: float
    tflops: float
    decode: float
    call_seconds: float = 5e-4
    layer_seconds: float | None = None
    products: PassTime | None = None
    attention: PassTime | None = None


@dataclass(frozen=True, slots=True)
class Rings:
    """Slots, each of one layer, of the ring that reads from SSD into RAM and of the one on a GPU."""

    disk: int = 3
    device: int = 2


@dataclass(frozen=True, slots=True)
class Machine:
    """Memory as it is now, rates, and how far ahead weights are read."""

    memory: Memory
    rates: Rates
    rings: Rings = field(default_factory=Rings)


# Careful figures, for a machine that nobody has measured yet: a desktop of some eight cores with two channels of
# memory, and a gaming card of the middle class on PCIe 4.0 x16; both with a PCIe 3.0 SSD.
CPU_RATES = Rates(link=10.0, ssd=2.0, memory=30.0, tflops=0.5, decode=0.5)
GPU_RATES = Rates(link=22.0, ssd=2.0, memory=400.0, tflops=40.0, decode=80.0)


def _least(free: int, limit: int | None) -> int:
    return max(0, free if limit is None else min(free, limit))

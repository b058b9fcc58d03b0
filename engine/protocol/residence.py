"""Part of the counter: where the layers of a loaded target are kept, and how fast those that stream can come."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Holding:
    """One kind of memory, in bytes: all that the pair takes there at its peak, and all that it might take.

    `taken` is more than the layers: on the device also draft, context and working space, in RAM what layers pass
    through. `room` is 0 where nobody knows it, as of an SSD.
    """

    taken: int = 0
    room: int = 0


@dataclass(frozen=True, slots=True)
class Residence:
    """`layer_bytes` is what each layer takes where it is kept. `shared`: there is no GPU, the device computes in RAM.

    `stream_bytes_per_second`: at most so much of the streamed layers arrives, by the rates that were measured on this
    machine; 0 where nothing streams, or experts come one by one. `pinned`: of the RAM that a GPU copies layers from
    (`room`), what it copies from at full speed (`taken`). `only_experts`: all but the experts of the layers that are
    kept elsewhere is on the device.
    """

    layer_bytes: tuple[int, ...] = ()
    device: Holding = Holding()
    ram: Holding = Holding()
    shared: bool = True
    stream_bytes_per_second: float = 0.0
    pinned: Holding = Holding()
    only_experts: bool = False

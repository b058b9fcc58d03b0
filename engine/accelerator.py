"""What GPUs of different makers do differently, in one file: which there are, their memory, streams and events.

CUDA's and ROCm's devices are of torch's type `cuda`, Intel's are `xpu`. Functions take the device that they are about
(`torch.device`) and ask torch's module for that type; those that say so do what is right on a CPU: nothing to wait for,
no memory of its own. What only CUDA has (pinning through its runtime, bitsandbytes) stays with those who use it.

    which:    `find`, `is_accelerator`, `types_in_use`, `name`
    memory:   `free_bytes`, `total_bytes`, `allocated_bytes`, `peak_bytes`, `give_back_cache`, `keep_off_ram`
    copies:   `sent`, `reads_are_free`
    streams:  `current_stream`, `make_stream`, `on_stream`, `on_own_stream`, `begin_stream`, `wait_for_current_stream`
    events:   `make_event`, `record_event`
    graphs:   `has_graphs`, `make_graph`
    numbers:  `computes_bfloat16`

torch is imported by whoever calls; the process that answers commands reads this file before torch is there.
"""

import platform
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

P = ParamSpec("P")
R = TypeVar("R")

TYPES = ("cuda", "xpu")
"""Torch's types of devices that have memory and streams of their own, the usual one first."""

OUTSIDE_BYTES = 256 << 20
"""What CUDA takes later beside torch's allocator, for kernels that are loaded when they first run."""

FIRST = -1
"""The priority of a stream whose kernels go before those of others. Usual ones have CUDA's lowest, 0."""

# Compute capability 8.0 (Ampere) is the first of NVIDIA's whose tensor cores take bfloat16; before it the type is
# emulated: CUDA C++ Programming Guide, "Compute Capabilities", arithmetic instructions.
BFLOAT16_CAPABILITY = (8, 0)
# AMD: matrix instructions for bfloat16 came with CDNA 1 (gfx908) and RDNA 3 (gfx11); the instruction sets of Vega
# (gfx900 to gfx90c without the CDNA chips) and of RDNA 1 and 2 (gfx10) have none.
NO_BFLOAT16_ON_AMD = ("gfx803", "gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c", "gfx10")


class Event(Protocol):
    """A place in a stream's work, as torch's modules give it."""

    def record(self, stream: Any = None) -> None:
        """Mark the work that was launched on `stream`, the current one by default, until now."""

    def synchronize(self) -> None:
        """Wait on the host until the device has passed the mark."""

    def query(self) -> bool:
        """Whether the device has passed the mark."""

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds of the device from this mark to `end_event`; both were made with `timed`, and were passed."""


def find() -> "torch.device | None":
    """The accelerator that torch was built for and can use now; None where there is none."""
    import torch  # noqa: PLC0415

    found = torch.accelerator.current_accelerator(check_available=True)
    return found if found is not None and is_accelerator(found) else None


def is_accelerator(device: "torch.device") -> bool:
    """Whether a device has memory and streams of its own."""
    return device.type in TYPES


def types_in_use() -> tuple[str, ...]:
    """The types of accelerators that this process has used; never imports torch, and never begins to use one."""
    torch = sys.modules.get("torch")  # whoever uses one has imported it
    return tuple(each for each in TYPES if torch is not None and getattr(torch, each).is_initialized())


def name(device: "torch.device") -> str:
    """What the maker calls the device; of others the type."""
    return str(_module(device).get_device_name(device)) if is_accelerator(device) else device.type


def free_bytes(device: "torch.device | str") -> int:
    """What is free on an accelerator, and what torch's allocator holds there without using it."""
    module = _module(device)
    free, _total = module.mem_get_info(device)
    return int(free + module.memory_reserved(device) - module.memory_allocated(device))


def total_bytes(device: "torch.device | str") -> int:
    """All memory of an accelerator."""
    return int(_module(device).mem_get_info(device)[1])


def allocated_bytes(device: "torch.device") -> int:
    """What tensors of this process take on an accelerator; 0 elsewhere."""
    return int(_module(device).memory_allocated(device)) if is_accelerator(device) else 0


def peak_bytes() -> int:
    """The most memory of accelerators that this process has held so far; 0 where it has used none."""
    return max((int(_module(each).max_memory_reserved()) for each in types_in_use()), default=0)


def give_back_cache() -> None:
    """Return memory that torch's allocators hold without using it, if an accelerator was used at all."""
    for each in types_in_use():
        _module(each).empty_cache()


def keep_off_ram(device: "torch.device") -> None:
    """Have torch say that a GPU's memory has run out where Windows, also under WSL, would go on in RAM.

    NVIDIA's drivers do so there ("CUDA - Sysmem Fallback Policy"), many times slower, and nothing would tell the engine
    to load less. What is free now is all that torch may take, until the next load.
    """
    if device.type != "cuda" or not (sys.platform == "win32" or "microsoft" in platform.release().lower()):
        return
    module = _module(device)
    free, total = module.mem_get_info(device)
    held = max(0, free + module.memory_reserved(device) - OUTSIDE_BYTES)
    module.set_per_process_memory_fraction(min(1.0, held / total), device.index)  # no device without one


def sent(
    values: "Sequence[int] | Sequence[float]", device: "torch.device", dtype: "torch.dtype | None" = None
) -> "torch.Tensor":
    """The numbers as a tensor [n] on any device, int64 by default; what is queued there already goes on.

    `torch.tensor(..., device=device)` waits until the device has done all of that. A small copy that need not block is
    staged by the driver before the call returns, so the host's memory may go at once.
    """
    import torch  # noqa: PLC0415

    return torch.tensor(values, dtype=dtype or torch.int64).to(device, non_blocking=True)


def reads_are_free(device: "torch.device") -> bool:
    """Whether the host may look at a tensor without waiting for anything."""
    return device.type == "cpu"


def current_stream(device: "torch.device") -> Any:
    """The stream that work of this thread goes to on an accelerator."""
    return _module(device).current_stream(device)


def make_stream(device: "torch.device", priority: int = 0) -> Any:
    """A stream of an accelerator beside the current one.

    `priority`: 0 or `FIRST`. The usual stream has CUDA's lowest, 0: a stream can be put before it, never behind it.
    """
    return _module(device).Stream(device, priority=priority)


def on_stream(stream: Any) -> AbstractContextManager[Any]:
    """Work inside goes to `stream`; None for where it goes anyway."""
    return nullcontext() if stream is None else _module(stream.device).stream(stream)


class HasStream(Protocol):
    """`stream`: of `make_stream`; None to compute on that of the caller."""

    stream: Any


OnStream = TypeVar("OnStream", bound=HasStream)


def on_own_stream(method: Callable[Concatenate[OnStream, P], R]) -> Callable[Concatenate[OnStream, P], R]:
    """A method whose work on the device goes to the stream of its object, if that has one.

    For a draft's short passes beside the long ones of its target. A host that waits for a target's weights is no idle
    GPU: layers that were launched already may be computing still. On the same stream a draft's pass would stand behind
    them, the host would wait for both and launch the next layer late. So the draft has a stream that goes first
    (`FIRST`): the host waits for its few small kernels alone, and what the target was given computes on in between. A
    stream that goes last would have the host wait for the target again.

    What makes it safe: all that such an object keeps is made, changed and dropped on its stream, in order. It takes
    numbers from the host, and is done when the method returns, so any stream may read the tensor that is returned; it
    is marked as used there, for torch's allocator gives memory back to the stream that it was made for.
    """

    @wraps(method)
    def run(self: OnStream, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.stream is None:
            return method(self, *args, **kwargs)
        caller = current_stream(self.stream.device)
        with on_stream(self.stream):
            found = method(self, *args, **kwargs)
        if hasattr(found, "record_stream") and caller != self.stream:
            found.record_stream(caller)
        return found

    return cast(Callable[Concatenate[OnStream, P], R], run)


def begin_stream(stream: Any) -> Any:
    """`stream`, behind all that the caller's stream was given until now, such as copies of weights."""
    if stream is not None:
        stream.wait_stream(current_stream(stream.device))
    return stream


def make_event(device: "torch.device", timed: bool = False) -> Event:
    """An event of an accelerator, whose `synchronize` lets the processor sleep.

    The generic `torch.Event` takes `blocking` and ignores it (torch/csrc/Event.cpp), so CUDA's own is made: waiting by
    polling keeps a core busy, which the draft's search or the reading of a disk needs. XPU's have no such flag.
    """
    module = _module(device)
    event: Event = module.Event(enable_timing=timed, blocking=True) if device.type == "cuda" else module.Event(timed)
    return event


def record_event(device: "torch.device", timed: bool = False) -> Event:
    """An event behind all work launched until now on the accelerator's current stream."""
    event = make_event(device, timed)
    event.record(current_stream(device))
    return event


def wait_for_current_stream(device: "torch.device") -> None:
    """Wait until the device has done what was launched on the current stream; other streams, of copies, go on.

    The processor sleeps meanwhile. A CPU has done its work when a call returns.
    """
    if is_accelerator(device):
        record_event(device).synchronize()


def has_graphs(device: "torch.device") -> bool:
    """Whether work on the device can be recorded, and launched again at once."""
    return device.type == "cuda"


def make_graph(device: "torch.device") -> Any:
    """An empty `torch.cuda.CUDAGraph` of a device that has graphs."""
    return _module(device).CUDAGraph()


def computes_bfloat16(device: "torch.device") -> bool:
    """Whether the device's matrix units take bfloat16; where it is emulated, float16 is many times as fast.

    True for a CPU: one without such units has none for float16 either. True for a device that is planned for but not
    there.
    """
    module = _module(device)
    if not is_accelerator(device) or not module.is_available():
        return True
    properties = module.get_device_properties(device)
    if device.type == "xpu":
        return bool(properties.has_bfloat16_conversions)
    if architecture := _amd_architecture(properties):
        return not architecture.startswith(NO_BFLOAT16_ON_AMD)
    return (properties.major, properties.minor) >= BFLOAT16_CAPABILITY


def _amd_architecture(properties: Any) -> str:
    """Such as `gfx1100`; empty for another maker's device."""
    import torch  # noqa: PLC0415

    return str(properties.gcnArchName) if torch.version.hip else ""


def _module(device: "torch.device | str") -> Any:
    import torch  # noqa: PLC0415

    return torch.get_device_module(device)

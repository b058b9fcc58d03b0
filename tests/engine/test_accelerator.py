"""What is asked of an accelerator, shown on one that counts: nobody waits for more than the current stream."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import accelerator
from engine.loading.measurements.measuring import DeviceTimer
from engine.loading.preparation import dtype_for
from engine.model.checkpoint import Checkpoint
from engine.model.context import Context
from engine.model.device import choose_dtype
from engine.weights.streaming.idle_clock import IdleClock
from tests.engine.model.test_context import PREFIX, random_tree
from tests.engine.tiny_models import tiny_network

CUDA, XPU = torch.device("cuda", 0), torch.device("xpu", 0)


class Module:
    """As torch's module of a device type; `log` has what was asked of it, in order. Its clock is `now`, in seconds."""

    def __init__(self, **properties: Any) -> None:
        self.log: list[str] = []
        self.now = 0.0
        self.fractions: list[float] = []
        self._properties = SimpleNamespace(**properties)
        self._current = Stream(self, "main", 0)

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def get_device_properties(self, _device: torch.device) -> SimpleNamespace:
        return self._properties

    def current_stream(self, _device: torch.device) -> Any:
        return self._current

    def Stream(self, device: torch.device, priority: int) -> Any:  # torch's name
        return Stream(self, f"own {priority}", device.index)

    def Event(self, enable_timing: bool = False, blocking: bool = False) -> Any:
        return Event(self, enable_timing, blocking)

    def mem_get_info(self, _device: object) -> tuple[int, int]:
        return 100, 1000

    def memory_reserved(self, _device: object) -> int:
        return 50

    def set_per_process_memory_fraction(self, fraction: float, device: int | None) -> None:
        assert not isinstance(device, torch.device), "torch takes none that has no index, as that of a load has none"
        self.fractions.append(fraction)

    def memory_allocated(self, _device: object) -> int:
        return 20

    def max_memory_reserved(self) -> int:
        return 70

    def empty_cache(self) -> None:
        self.log.append("empty cache")

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        before, self._current = self._current, stream
        try:
            yield
        finally:
            self._current = before


class Stream:
    device = CUDA

    def __init__(self, module: Module, name: str, _index: int) -> None:
        self.module, self.name = module, name

    def wait_stream(self, other: "Stream") -> None:
        self.module.log.append(f"{self.name} waits for {other.name}")


class Event:
    def __init__(self, module: Module, timed: bool, blocking: bool) -> None:
        self.module, self.timed, self.kind = module, timed, "sleeping" if blocking else "spinning"
        self.passed: float | None = None

    def record(self, stream: Stream) -> None:
        self.stream = stream
        self.passed = self.module.now

    def synchronize(self) -> None:
        self.module.log.append(f"host, {self.kind}, waits for {self.stream.name}")

    def query(self) -> bool:
        return self.passed is not None

    def elapsed_time(self, end: "Event") -> float:
        assert self.timed
        assert self.passed is not None
        assert end.passed is not None
        return 1e3 * (end.passed - self.passed)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Module:
    return played(monkeypatch, major=8, minor=0)


def played(monkeypatch: pytest.MonkeyPatch, hip: Any = None, **properties: Any) -> Module:
    module = Module(**properties)
    monkeypatch.setattr(torch, "get_device_module", lambda _device: module)
    monkeypatch.setattr(torch.version, "hip", hip)
    return module


def test_the_host_sleeps_until_the_current_stream_is_done_and_no_longer(cuda: Module) -> None:
    accelerator.wait_for_current_stream(CUDA)
    DeviceTimer(CUDA, torch.float32, lambda: None).seconds(lambda: None)
    assert set(cuda.log) == {"host, sleeping, waits for main"}
    cuda.log.clear()
    accelerator.wait_for_current_stream(torch.device("cpu"))
    assert not cuda.log


def test_a_pass_waits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[torch.device] = []
    monkeypatch.setattr(accelerator, "wait_for_current_stream", waits.append)
    context = Context(tiny_network("llama"), 64)
    context.prefill(PREFIX)
    context.score(*random_tree(9, seed=0))
    assert len(waits) == 2


def test_a_context_computes_on_its_own_stream_alone(cuda: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    network = tiny_network("llama")
    stream = accelerator.make_stream(CUDA, accelerator.FIRST)
    context = Context(network, 64, stream=stream)
    assert cuda.log == ["own -1 waits for main"], "weights may be on their way still"
    places: set[str] = set()
    network.layers[0].register_forward_pre_hook(lambda *_: places.add(cuda.current_stream(CUDA).name))
    keep = context._cache.keep

    def kept(*args: Any) -> None:
        places.add(cuda.current_stream(CUDA).name)
        keep(*args)

    monkeypatch.setattr(context._cache, "keep", kept)
    handed: list[str] = []
    monkeypatch.setattr(Tensor, "record_stream", lambda _tensor, stream: handed.append(stream.name))
    context.prefill(PREFIX)
    context.score(*random_tree(9, seed=0))
    context.keep([0, 1])
    assert places == {"own -1"}
    assert handed == ["main"], "logits are read by the caller, whose stream the allocator does not know of"
    with accelerator.on_stream(stream):
        context.score([5], [-1])
    assert handed == ["main"]
    assert cuda.current_stream(CUDA).name == "main"


@pytest.mark.parametrize(
    ("ends", "begins", "host", "idle"), [(1.0, 3.0, 9.0, 2.0), (1.0, 3.0, 0.5, 0.5), (3.0, 3.0, 9.0, 0.0)]
)
def test_a_device_that_computes_while_the_host_waits_is_not_idle(
    ends: float, begins: float, host: float, idle: float, cuda: Module
) -> None:
    clock = IdleClock(CUDA)
    clock.waited(5.0)  # nothing was launched before
    cuda.now = ends
    clock.launched()
    cuda.now = begins
    clock.waited(host)
    assert clock.seconds == pytest.approx(idle)
    assert clock.seconds == pytest.approx(idle), "counted once"


def test_memory_is_what_the_device_and_the_allocator_have_free(cuda: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "cuda", cuda)
    assert accelerator.free_bytes(CUDA) == 100 + 50 - 20
    assert accelerator.total_bytes(CUDA) == 1000
    assert accelerator.allocated_bytes(CUDA) == 20
    assert accelerator.allocated_bytes(torch.device("cpu")) == 0
    assert accelerator.types_in_use() == ("cuda",)
    assert accelerator.peak_bytes() == 70
    accelerator.give_back_cache()
    assert cuda.log == ["empty cache"]


@pytest.mark.parametrize(("release", "fractions"), [("6.12.0", []), ("6.6.87.2-microsoft-standard-WSL2", [0.14])])
def test_what_is_not_free_on_windows_is_no_memory_of_the_gpus(
    release: str, fractions: list[float], cuda: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 of 1000 bytes are free, 50 are the allocator's, and 10 are left to kernels that come later."""
    monkeypatch.setattr(torch, "cuda", cuda)
    monkeypatch.setattr("platform.release", lambda: release)
    monkeypatch.setattr(accelerator, "OUTSIDE_BYTES", 10)
    accelerator.keep_off_ram(torch.device("cuda"))
    accelerator.keep_off_ram(torch.device("cpu"))
    assert cuda.fractions == fractions


def test_nothing_is_begun_where_no_accelerator_is() -> None:
    if torch.accelerator.is_available():
        pytest.skip("there is one")
    assert accelerator.find() is None
    assert accelerator.types_in_use() == ()
    assert accelerator.peak_bytes() == 0
    accelerator.give_back_cache()


BFLOAT16, FLOAT16, FLOAT32 = torch.bfloat16, torch.float16, torch.float32
AMPERE, TURING, PASCAL = ({"major": major, "minor": minor} for major, minor in ((8, 6), (7, 5), (6, 1)))


@pytest.mark.parametrize(
    ("device", "properties", "hip", "native"),
    [
        (CUDA, AMPERE, None, True),
        (CUDA, TURING, None, False),
        (CUDA, PASCAL, None, False),
        (CUDA, {"gcnArchName": "gfx1100", **AMPERE}, "6.4", True),
        (CUDA, {"gcnArchName": "gfx90a:sramecc+:xnack-", **AMPERE}, "6.4", True),
        (CUDA, {"gcnArchName": "gfx1030", **AMPERE}, "6.4", False),
        (CUDA, {"gcnArchName": "gfx906:sramecc+:xnack-", **AMPERE}, "6.4", False),
        (XPU, {"has_bfloat16_conversions": False}, None, False),
        (XPU, {"has_bfloat16_conversions": True}, None, True),
    ],
)
def test_bfloat16_is_computed_where_matrix_units_take_it(
    device: torch.device, properties: dict[str, Any], hip: str | None, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(monkeypatch, hip, **properties)
    assert accelerator.computes_bfloat16(device) == native


@pytest.mark.parametrize(
    ("weights", "kind", "own", "capability", "expected"),
    [
        ("auto", "llama", "bfloat16", AMPERE, BFLOAT16),
        ("auto", "llama", "bfloat16", TURING, FLOAT16),
        ("nf4", "llama", "bfloat16", TURING, FLOAT16),
        ("auto", "gemma3_text", "bfloat16", TURING, BFLOAT16),
        ("auto", "llama", "float32", TURING, FLOAT32),
        ("bfloat16", "llama", "bfloat16", TURING, BFLOAT16),
    ],
)
def test_float16_takes_the_place_of_a_bfloat16_that_is_emulated(
    weights: str,
    kind: str,
    own: str,
    capability: dict[str, int],
    expected: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played(monkeypatch, **capability)
    checkpoint: Any = SimpleNamespace(config={"model_type": kind, "dtype": own}, parameters=1 << 33)
    found: Checkpoint = checkpoint
    choose = dtype_for if weights == "nf4" else choose_dtype
    assert choose(weights, found, CUDA) == expected

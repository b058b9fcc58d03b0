"""Compiled decoding steps: once for any number of rows, the bits of the plain step, and plain wherever that fails."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.gguf_header import TYPES
from engine.model.decoding.compiled import Compiled, fused
from engine.model.formats import awq, four_bits, mxfp4, nvfp4, packed_integers
from engine.model.gguf.block_decoders import DECODERS
from tests.campaigns.extent import choose

BYTES = {kind.name: kind.nbytes for kind in TYPES}
Backend = Callable[[Any, list[Tensor]], Callable[..., Any]]


def counting(compiled: list[str]) -> Backend:
    """Compiles nothing, but counts how often it is asked to."""

    def backend(graph: Any, _inputs: list[Tensor]) -> Callable[..., Any]:
        compiled.append("once")
        return graph.forward  # type: ignore[no-any-return]

    return backend


def stored(*shape: int) -> Tensor:
    return torch.randint(0, 64, shape, dtype=torch.uint8)


def words(*shape: int) -> Tensor:
    return torch.randint(-(1 << 31), 1 << 31, shape).int()


PLACES = torch.tensor(awq.PLACES, dtype=torch.int32)[:, None]
SIGNED = " ".join(map(str, range(-8, 8)))
Case = tuple[Callable[..., Tensor], Callable[[int], tuple[object, ...]]]
"""A step, and its arguments for so many rows."""

STEPS: dict[str, Case] = {
    "awq": (awq._scaled, lambda n: (words(n, 64), PLACES, torch.rand(8 * n, 2), words(n, 2))),
    "integers": (packed_integers._scaled, lambda n: (stored(n, 32), SIGNED, -8, 64, torch.rand(n, 2), None, None)),
    "nvfp4": (nvfp4._scaled, lambda n: (stored(n, 32), torch.rand(n, 4))),
    "nf4": (four_bits.scaled_levels, lambda n: (stored(n, 32), torch.rand(n), "nf4")),
    "mxfp4": (mxfp4._every_second, lambda n: (stored(64, 4 * n), torch.rand(4, 4 * n), 1)),
}
NAMES = choose(["IQ2_XS", "nf4"], [*STEPS, *DECODERS])


def case(name: str) -> Case:
    return STEPS[name] if name in STEPS else (DECODERS[name], lambda rows: (stored(rows, BYTES[name]),))


@pytest.mark.parametrize("kind", four_bits.KINDS)
def test_four_bits_are_the_same_by_levels_as_by_bytes(kind: str) -> None:
    pairs, absmax = torch.arange(256, dtype=torch.uint8).view(8, 32), torch.rand(8)
    by_levels, by_bytes = four_bits.scaled_levels(pairs, absmax, kind), four_bits._by_bytes(pairs, absmax, kind)
    assert torch.equal(by_levels.view(torch.int32), by_bytes.view(torch.int32)), "also of zeros with a sign"


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_compiled_once_and_gives_the_same_bits(name: str) -> None:
    step, arguments = case(name)
    compiled: list[str] = []
    tried = Compiled(step, counting(compiled))
    for rows in (26, 40, 58):  # as long as no block: torch takes numbers that are alike for the same one
        given = arguments(rows)
        assert torch.equal(tried(*given).view(torch.int32), step(*given).view(torch.int32))
    assert compiled == ["once"]
    assert not tried.is_plain


def double(numbers: Tensor) -> Tensor:
    return numbers.float() * 2


def unable(error: BaseException) -> Backend:
    def backend(_graph: Any, _inputs: list[Tensor]) -> Callable[..., Any]:
        raise error

    return backend


def wrong(_graph: Any, _inputs: list[Tensor]) -> Callable[..., Any]:
    return lambda *inputs: (inputs[-1] * 3.0,)


@pytest.mark.parametrize(
    "backend", [unable(RuntimeError("no compiler")), unable(ImportError("no triton")), wrong], ids=["R", "I", "wrong"]
)
def test_what_cannot_be_compiled_stays_plain_for_ever(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    tried = Compiled(double, backend)
    with caplog.at_level(logging.WARNING, "engine.model.decoding.compiled"):
        for rows in (3, 4):
            assert torch.equal(tried(torch.ones(rows)), torch.full((rows,), 2.0))
    assert tried.is_plain
    assert len(caplog.records) == 1


def test_memory_that_runs_out_is_told() -> None:
    tried = Compiled(double)

    def full(*_: object) -> Tensor:
        raise torch.OutOfMemoryError("no memory")

    tried._compiled = full
    with pytest.raises(torch.OutOfMemoryError):
        tried(torch.ones(3))
    assert not tried.is_plain


def test_only_cuda_compiles() -> None:
    assert fused(double, torch.device("cpu")) is double
    on_cuda = fused(double, torch.device("cuda"))
    assert isinstance(on_cuda, Compiled)
    assert fused(double, torch.device("cuda", 1)) is on_cuda

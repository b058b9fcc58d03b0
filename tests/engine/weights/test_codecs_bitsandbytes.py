"""Byte for byte what bitsandbytes stores, and bit for bit what it reads back, against its operators on the CPU."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.model.decoding.tables import NUMBERS
from engine.model.formats import four_bits
from engine.weights.codecs.codec import codec_named
from engine.weights.codecs.nf4 import compress_absmax, restore_absmax

SHAPES = [(64, 64), (100, 192), (1200, 1792), (33, 4096)]
TYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.fixture(scope="module")
def functional() -> Any:
    """Bitsandbytes' functions; seconds to import, so here and not above."""
    return pytest.importorskip("bitsandbytes.functional", reason="bitsandbytes has no build for this platform")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Bitsandbytes' mean depends on the number of threads; ours is the one it takes in a single thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def weight_with_zeros(shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(shape[0])
    weight = torch.randn(shape, generator=generator) * torch.rand(shape[0], 1, generator=generator)
    weight[7, :64] = 0
    return weight.to(dtype)


@pytest.mark.parametrize(("shape", "dtype"), [*product(SHAPES, TYPES)])
def test_nf4_bytes_are_those_of_double_quantisation(
    functional: Any, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    weight = weight_with_zeros(shape, dtype)
    stored = codec_named("nf4").encode("w", weight)
    packed, state = functional.quantize_4bit(weight, blocksize=64, compress_statistics=True, quant_type="nf4")
    assert torch.equal(stored["w.nf4"].view(torch.uint8).view(-1), packed.view(-1))
    assert torch.equal(stored["w.absmax"], state.absmax)
    assert torch.equal(stored["w.absmax_scale"], state.state2.absmax)
    assert torch.equal(stored["w.absmax_offset"], state.offset.view(1))
    plain, _ = functional.quantize_4bit(weight, blocksize=64, compress_statistics=False, quant_type="nf4")
    assert torch.equal(plain, packed)


@pytest.mark.parametrize(("shape", "dtype"), [*product(SHAPES, TYPES)])
def test_nf4_weights_are_read_back_as_bitsandbytes_does(
    functional: Any, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    weight = weight_with_zeros(shape, dtype)
    packed, state = functional.quantize_4bit(weight, blocksize=64, compress_statistics=True, quant_type="nf4")
    out = torch.empty_like(weight)
    codec_named("nf4").decode(codec_named("nf4").encode("w", weight), "w", out)
    assert torch.equal(out, functional.dequantize_4bit(packed, state))


def test_absmax_is_rounded_as_bitsandbytes_does_also_at_the_edges_of_its_grid(functional: Any) -> None:
    absmax = torch.rand(64, 256, generator=torch.Generator().manual_seed(1)).view(-1)
    absmax[1024:1280] = absmax.mean()
    codes, scales, offset = compress_absmax(absmax)
    expected, state = functional.quantize_blockwise(absmax - absmax.mean(), blocksize=256)
    assert torch.equal(codes, expected)
    assert torch.equal(scales, state.absmax)
    back = functional.dequantize_blockwise(expected, state) + offset
    assert torch.equal(restore_absmax(codes[None], scales[None], offset[None]), back)


@pytest.mark.parametrize(("shape", "dtype"), [*product(SHAPES, TYPES)])
def test_int8_bytes_and_weights_are_those_of_the_vectorwise_functions(
    functional: Any, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    weight = weight_with_zeros(shape, dtype)
    stored = codec_named("int8").encode("w", weight)
    codes, scales, _ = functional.int8_vectorwise_quant(weight.clone())
    assert torch.equal(stored["w.int8"], codes)
    assert torch.equal(stored["w.absmax"], scales)
    out = torch.empty(shape)
    codec_named("int8").decode(stored, "w", out)
    assert torch.equal(out, functional.int8_vectorwise_dequant(codes, scales))


def as_on_cuda(offset: float) -> Any:
    """The CUDA kernel's signature over plain arithmetic, off by `offset`."""

    def dequantise(
        codes: Tensor, absmax: Tensor, block: int, kind: str, shape: list[int], dtype: torch.dtype, out: Tensor
    ) -> None:
        assert (list(out.shape), out.dtype) == (shape, dtype)
        numbers = torch.tensor(NUMBERS[kind])[torch.stack([codes >> 4, codes & 15], 1).int()]
        out.copy_((numbers.view(-1, block) * absmax[:, None]).view(-1) - offset)  # less 0.0, -0.0 stays

    return dequantise


@pytest.mark.parametrize(("kind", "offset", "agrees"), [("nf4", 0.0, True), ("fp4", 0.0, True), ("nf4", 0.01, False)])
def test_the_kernel_is_used_where_it_is_there_and_right(
    functional: Any, monkeypatch: pytest.MonkeyPatch, kind: str, offset: float, agrees: bool
) -> None:
    monkeypatch.setattr(four_bits, "KERNEL_WEIGHTS", 256)
    cpu = torch.device("cpu")
    assert not four_bits.kernel_agrees(kind, cpu)
    with torch.library._scoped_library("bitsandbytes", "IMPL") as library:
        library.impl("dequantize_4bit.out", as_on_cuda(offset), "CPU")
        assert four_bits.kernel_agrees(kind, cpu) is agrees
    assert four_bits.unpacking_for(kind, cpu) is four_bits.unpack_by_table


@pytest.mark.parametrize(
    ("hip", "capability", "is_used"),
    [(None, (8, 0), True), (None, (6, 0), True), (None, (5, 2), False), ("7.0", (10, 3), False)],
)
def test_no_kernel_is_launched_on_a_card_that_it_may_not_be_built_for(
    hip: str | None, capability: tuple[int, int], is_used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bitsandbytes ends the process there; nothing is raised."""
    tried: list[str] = []

    def agrees(kind: str, _device: torch.device) -> bool:
        tried.append(kind)
        return True

    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device=None: capability)
    monkeypatch.setattr(four_bits, "kernel_agrees", agrees)
    found = four_bits.unpacking_for.__wrapped__("nf4", torch.device("cuda"))
    assert found is (four_bits.unpack_by_kernel if is_used else four_bits.unpack_by_table)
    assert bool(tried) == is_used


def test_a_kernel_whose_fault_shows_only_behind_it_is_not_used(
    functional: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch returns before the kernel has run: the next one raises what went wrong."""
    launched = []

    def fail_later(*_: object) -> None:
        launched.append("kernel")

    def raise_what_is_pending(*_: object) -> None:
        if launched:
            raise RuntimeError("CUDA error: an illegal instruction was encountered")

    monkeypatch.setattr(four_bits, "unpack_by_kernel", fail_later)
    monkeypatch.setattr(four_bits, "unpack_by_table", raise_what_is_pending)
    assert not four_bits.kernel_agrees("nf4", torch.device("cpu"))
    assert launched

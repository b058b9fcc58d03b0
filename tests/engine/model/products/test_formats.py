"""Packed weights are multiplied as they are stored, and decoded on a CPU with the bits that torch's operations give."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.gguf_header import TYPES
from engine.model.formats.awq import Awq, AwqGemv
from engine.model.formats.bitsandbytes import FourBits
from engine.model.formats.compressed_tensors import Integers8
from engine.model.formats.fp8 import Fp8
from engine.model.formats.nvfp4 import Float4
from engine.model.formats.packed import PackedFormat
from engine.model.formats.packed_integers import PackedIntegers
from engine.model.gguf.packed_blocks import Gguf
from engine.model.products import layouts, product
from engine.model.products.arranged import Outputs
from engine.model.products.bfloat_loops import bfloat_loop
from engine.model.products.loops import output_kernels
from engine.model.products.product import Stored, native
from engine.weights.codecs.codec import codec_named
from tests.campaigns.extent import choose, for_the_proofs
from tests.engine.model.gguf.test_block_decoders import blocks
from tests.engine.weights.codec_cases import WEIGHT, random_weight

ROWS, COLUMNS = 264, 512
SHAPE = (ROWS, COLUMNS)
BY_NAME = {kind.name: kind for kind in TYPES}

Case = tuple[PackedFormat, dict[str, Tensor]]


def _codes(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8)


def _words(*shape: int) -> Tensor:
    return torch.randint(-(1 << 31), 1 << 31, shape).to(torch.int32)


def _gguf(name: str) -> Callable[[], Case]:
    kind = BY_NAME[name]
    return lambda: (Gguf((kind,)), {"0": blocks(kind, ROWS, COLUMNS)})


def _nested() -> Case:
    parts = {
        "codes": _codes(ROWS * COLUMNS // 2, 1),
        "absmax": _codes(ROWS * COLUMNS // 64),
        "group_absmax": torch.rand(ROWS * COLUMNS // 64 // 256 + 1),
        "group_levels": torch.randn(256),
    }
    return FourBits("nf4", 64, group=256, offset=0.3), parts


def _fp8(scales: Tensor, *block: int) -> Callable[[], Case]:
    return lambda: (Fp8(*block), {"weight": torch.randn(SHAPE).to(torch.float8_e4m3fn), "scale": scales})


def _groups(zeros: bool) -> Case:
    parts = {"codes": _words(ROWS, COLUMNS // 8), "scales": torch.rand(ROWS, COLUMNS // 128).bfloat16()}
    if zeros:
        parts["zeros"] = _words(ROWS // 8, COLUMNS // 128)
    return PackedIntegers("INT", 4, 128), parts


def _gptq() -> Case:
    parts = {
        "codes": _words(COLUMNS // 8, ROWS),
        "scales": torch.rand(COLUMNS // 64, ROWS).half(),
        "zeros": _words(COLUMNS // 64, ROWS // 8),
        "order": torch.arange(COLUMNS, dtype=torch.int32) // 64,
    }
    return PackedIntegers("GPTQ", 4, 64, turned=True, zero_offset=1), parts


def _awq(zeros: bool) -> Case:
    parts = {"codes": _words(COLUMNS, ROWS // 8), "scales": torch.rand(COLUMNS // 64, ROWS).half()}
    if zeros:
        parts["zeros"] = _words(COLUMNS // 64, ROWS // 8)
    return Awq(), parts


def _gemv() -> Case:
    parts = {"codes": _words(ROWS, COLUMNS // 8), "scales": torch.rand(ROWS, 16).half(), "zeros": _words(ROWS, 2)}
    return AwqGemv(64), parts


def _nvfp4(divides: bool) -> Case:
    parts = {
        "codes": _codes(ROWS, COLUMNS // 2),
        "scales": torch.rand(ROWS, COLUMNS // 16).to(torch.float8_e4m3fn),
        "whole": torch.tensor(3.7),
    }
    return Float4("NVFP4", divides), parts


CASES: dict[str, Callable[[], Case]] = {
    **{name: _gguf(name) for name in layouts.BLOCKS},
    "NF4": lambda: (FourBits("nf4", 64), {"codes": _codes(ROWS * COLUMNS // 2), "absmax": torch.rand(ROWS * 8)}),
    "nested NF4": _nested,
    "FP8": _fp8(torch.rand(3, 4), 128, 128),
    "FP8 rows": _fp8(torch.rand(ROWS, 1).bfloat16(), 1, COLUMNS),
    "groups": lambda: _groups(zeros=False),
    "groups with zeros": lambda: _groups(zeros=True),
    "GPTQ": _gptq,
    "AWQ": lambda: _awq(zeros=True),
    "AWQ without zeros": lambda: _awq(zeros=False),
    "AWQ for GEMV": _gemv,
    "NVFP4": lambda: _nvfp4(divides=False),
    "NVFP4, divided": lambda: _nvfp4(divides=True),
    "MXFP4 rows": lambda: (
        Float4("MXFP4"),
        {"codes": _codes(ROWS, COLUMNS // 2), "scales": torch.randint(110, 130, (ROWS, COLUMNS // 32)).byte()},
    ),
    "INT8": lambda: (
        Integers8(),
        {"codes": _codes(*SHAPE).view(torch.int8), "scales": torch.rand(ROWS, 1).bfloat16()},
    ),
}
FEW = choose(["Q4_K", "IQ2_S", "AWQ"], list(CASES))  # loops are compiled for each, for a second or two


SIDE_BY_SIDE = ("GPTQ", "AWQ", "AWQ without zeros")
AS_BFLOATS = choose(["Q4_0", "Q4_K", "Q6_K", "NF4", "IQ2_S", "AWQ"], list(CASES))  # as different as they are written


@pytest.mark.parametrize("name", FEW)
def test_a_packed_weight_is_decoded_with_the_same_bits_and_multiplied(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    form, parts = CASES[name]()
    for dtype in (torch.float32, torch.bfloat16):
        by_loops, by_torch = torch.empty(SHAPE, dtype=dtype), torch.empty(SHAPE, dtype=dtype)
        form.decode(parts, by_loops)
        with monkeypatch.context() as patch:
            patch.setattr(product, "has_compiler", lambda: False)
            form.decode(parts, by_torch)
        assert torch.equal(by_loops.view(torch.uint8), by_torch.view(torch.uint8))

    weight = torch.empty(SHAPE)
    form.decode(parts, weight)
    multiply = form.product(parts, SHAPE)
    assert multiply is not None
    x = torch.randn(17, COLUMNS)
    expected = (x.double() @ weight.double().t()).float()
    for rows in (1, 3, 8, 17):
        found = multiply(x[:rows].clone())
        assert float((found - expected[:rows]).abs().max()) <= 1e-5 * float(expected.abs().max())
        # More rows than are multiplied in whole numbers have other bits than fewer ones.
        is_other = isinstance(multiply, Stored) and multiply.order is not None and multiply.order_of(rows) is None
        same = min(rows, native().whole_numbers.most_rows() + 1) if is_other else 1
        assert torch.equal(found[0], multiply(x[:same].clone())[0])


@pytest.mark.skipif(bfloat_loop() is None, reason="this processor multiplies no bfloat16")
@pytest.mark.parametrize("name", AS_BFLOATS)
def test_rows_of_bfloat16_are_multiplied_with_the_bits_of_the_weight_as_it_is_decoded_to_that(name: str) -> None:
    torch.manual_seed(0)
    form, parts = CASES[name]()
    if name == "MXFP4":
        parts["0"][:, ::17] = 120  # scales that leave all numbers finite
    weight = torch.empty(SHAPE, dtype=torch.float32 if name in SIDE_BY_SIDE else torch.bfloat16)
    form.decode(parts, weight)
    multiply = form.product(parts, SHAPE)
    assert multiply is not None
    columns = multiply(torch.eye(COLUMNS, dtype=torch.bfloat16))
    assert torch.equal(columns, weight.float().t())
    assert torch.equal(columns[32:48], multiply(torch.eye(COLUMNS, dtype=torch.bfloat16)[32:48].clone()))


@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_where_outputs_lie_side_by_side_they_are_multiplied_so(name: str) -> None:
    """As rows they would touch a line of the cache for every number: that took ten times as long."""
    torch.manual_seed(0)
    form, parts = CASES[name]()
    multiply = form.product(parts, SHAPE)
    assert isinstance(multiply, Outputs)
    for rows, loop in ((1, output_kernels.one_row), (3, output_kernels.several_rows)):
        x, found = torch.randn(rows, COLUMNS), torch.empty(rows, ROWS)
        loop(multiply.parts, x.numpy(), found.numpy(), 0, ROWS)
        assert torch.equal(multiply(x), found)


@for_the_proofs
@pytest.mark.parametrize("name", ["AWQ", "AWQ without zeros", "GPTQ"])
def test_units_of_weights_that_lie_by_outputs_are_those_of_their_own_loops(name: str) -> None:
    torch.manual_seed(0)
    form, parts = CASES[name]()
    found = form.product(parts, SHAPE)
    assert isinstance(found, Outputs)
    by_units, by_outputs = torch.empty(SHAPE), torch.empty(SHAPE)
    Stored(found.parts, *SHAPE).decode(by_units)
    found.decode(by_outputs)
    assert torch.equal(by_units, by_outputs)


@for_the_proofs
@pytest.mark.parametrize("name", ["nf4", "int8"])
def test_codecs_decode_with_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    codec, weight = codec_named(name), random_weight(2, ROWS, COLUMNS)
    stored = codec.encode(WEIGHT, weight)
    for dtype in (torch.float32, torch.bfloat16):
        by_loops, by_torch = torch.empty(weight.shape, dtype=dtype), torch.empty(weight.shape, dtype=dtype)
        codec.decode(stored, WEIGHT, by_loops)
        with monkeypatch.context() as patch:
            patch.setattr(product, "has_compiler", lambda: False)
            codec.decode(stored, WEIGHT, by_torch)
        assert torch.equal(by_loops, by_torch)


@pytest.mark.parametrize("order", ["heads", "joined"])
def test_rows_of_gguf_files_come_in_the_networks_order(order: Any) -> None:
    kind = BY_NAME["Q4_K"]
    rows = 2 * ROWS if order == "joined" else ROWS
    parts = {str(number): blocks(kind, ROWS, COLUMNS, number) for number in range(rows // ROWS)}
    form = Gguf((kind,) * len(parts), order, heads=4)
    form.decode(parts, weight := torch.empty(rows, COLUMNS))
    multiply, x = form.product(parts, (rows, COLUMNS)), torch.randn(2, COLUMNS)
    assert multiply is not None
    assert torch.allclose(multiply(x), x @ weight.t(), rtol=1e-4, atol=1e-5 * float(weight.abs().max()) * COLUMNS)


def test_what_no_loop_reads_is_decoded() -> None:
    torch.manual_seed(0)
    turned, parts = _gptq()
    shuffled = {**parts, "order": parts["order"][torch.randperm(COLUMNS)]}
    assert turned.product(shuffled, SHAPE) is None
    assert PackedIntegers("INT", 8, 128).product({"codes": _words(ROWS, 128), "scales": torch.rand(1)}, SHAPE) is None
    assert Gguf((BY_NAME["F32"],), plus=1.0).product({"0": torch.rand(SHAPE)}, SHAPE) is None
    odd = {"codes": _words(COLUMNS, 33), "scales": torch.rand(COLUMNS // 64, 264).double()}
    assert AwqGemv(16).product({**odd, "zeros": _words(1, 1)}, SHAPE) is None
    not_square = Fp8(96, 128), {"weight": torch.zeros(SHAPE).to(torch.float8_e4m3fn), "scale": torch.rand(3, 6)}
    assert not_square[0].product(not_square[1], SHAPE) is None

"""FP8 and MXFP4 as transformers decodes them, bit by bit, into whatever lies in whatever order."""

import pytest
import torch
from torch import Tensor
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from engine.model.decoding import chunks
from engine.model.formats.fp8 import Fp8
from engine.model.formats.mxfp4 import Mxfp4

TYPES = [torch.float32, torch.bfloat16, torch.float16]


def fp8_weight(*shape: int) -> Tensor:
    """Random numbers, with all that e4m3 has among them: zeros, the smallest and the largest."""
    weight = torch.randn(shape).mul_(100).to(torch.float8_e4m3fn)
    every = torch.arange(256, dtype=torch.uint8)
    every = every[(every & 127) < 127].view(torch.float8_e4m3fn)  # without its two NaNs
    weight.view(-1)[: len(every)] = every[: weight.numel()]
    return weight


def mxfp4_parts(experts: int, rows: int, groups: int) -> dict[str, Tensor]:
    """Every pair of codes, and scales from very small to very large."""
    blocks = torch.arange(experts * rows * groups * 16).remainder(256).to(torch.uint8)
    scales = torch.randint(90, 160, (experts, rows, groups), dtype=torch.uint8)
    return {"blocks": blocks.view(experts, rows, groups, 16), "scales": scales}


def same_bits(found: Tensor, expected: Tensor) -> bool:
    """Zeros of another sign are other bits."""
    return found.dtype == expected.dtype and torch.equal(
        found.contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8)
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("grid", [(2, 3), (1, 1), (256, 1), (256, 12)])
@pytest.mark.parametrize("scale_type", [torch.float32, torch.bfloat16, torch.float8_e8m0fnu])
def test_fp8_is_decoded_as_transformers_decodes_it(
    grid: tuple[int, int], scale_type: torch.dtype, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    weight, scale = fp8_weight(256, 384), torch.rand(grid).add_(0.01).to(scale_type)
    out = torch.empty(256, 384, dtype=dtype)
    Fp8(256 // grid[0], 384 // grid[1]).decode({"weight": weight, "scale": scale}, out)
    assert same_bits(out, Fp8Dequantize(None)._dequantize_one(weight, scale, dtype))


@pytest.mark.parametrize("block", [(1, 8), (16, 16), (128, 16), (128, 32), (128, 48)])
def test_blocks_of_fp8_of_any_width_have_their_own_scales_in_large_weights(block: tuple[int, int]) -> None:
    """Large enough for loops, which find one scale for 32 columns."""
    torch.manual_seed(0)
    weight, scale = fp8_weight(1024, 192), torch.rand(1024 // block[0], 192 // block[1]).add_(0.01)
    out = torch.empty(1024, 192)
    Fp8(*block).decode({"weight": weight, "scale": scale}, out)
    assert same_bits(out, weight.float() * scale.repeat_interleave(block[0], 0).repeat_interleave(block[1], 1))


@pytest.mark.parametrize("scale", [1.0, 3.3e-39, 1e37, float("inf"), float("nan"), 0.0, -2.5])
def test_every_code_of_fp8_is_the_number_that_torch_takes_it_for(scale: float) -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).view(16, 16)
    out = torch.empty(16, 16)
    Fp8(16, 16).decode({"weight": codes, "scale": torch.tensor([scale])}, out)
    expected = codes.float() * scale
    assert torch.equal(out.isnan(), expected.isnan())
    assert same_bits(out.nan_to_num(0), expected.nan_to_num(0))


def test_fp8_scales_of_bytes_are_powers_of_two() -> None:
    weight, scale = fp8_weight(64, 64), torch.randint(100, 150, (2, 2), dtype=torch.uint8)
    out = torch.empty(64, 64)
    Fp8(32, 32).decode({"weight": weight, "scale": scale}, out)
    assert same_bits(out, Fp8Dequantize(None)._dequantize_one(weight, scale, torch.float32))


@pytest.mark.parametrize(("rows", "columns"), [(300, 200), (100, 128), (129, 127), (1, 1)])
def test_fp8_blocks_are_cut_off_where_the_weight_ends(rows: int, columns: int) -> None:
    weight = fp8_weight(rows, columns)
    grid = torch.rand(-(-rows // 128), -(-columns // 128))
    out = torch.empty(rows, columns)
    Fp8(128, 128).decode({"weight": weight, "scale": grid}, out)
    each = grid.repeat_interleave(128, 0).repeat_interleave(128, 1)[:rows, :columns]
    assert same_bits(out, weight.float() * each)


def test_a_stack_of_fp8_matrices_has_scales_for_each() -> None:
    weight, scale = fp8_weight(3, 64, 32), torch.rand(3, 1, 1)
    out = torch.empty(3, 64, 32, dtype=torch.bfloat16)
    Fp8(64, 32).decode({"weight": weight, "scale": scale}, out)
    assert same_bits(out, (weight.float() * scale).bfloat16())


@pytest.mark.parametrize("dtype", TYPES)
def test_mxfp4_is_decoded_as_transformers_decodes_it(dtype: torch.dtype) -> None:
    parts = mxfp4_parts(3, 20, 5)
    if dtype == torch.float16:
        parts["scales"].clamp_(115, 138)  # its numbers end there
    out = torch.empty(3, 160, 20, dtype=dtype)
    Mxfp4().decode(parts, out)
    assert same_bits(out, convert_moe_packed_tensors(parts["blocks"], parts["scales"], dtype=dtype))


def test_mxfp4_may_begin_at_any_byte() -> None:
    parts = mxfp4_parts(2, 8, 3)
    expected, out = torch.empty(2, 96, 8), torch.empty(2, 96, 8)
    Mxfp4().decode(parts, expected)
    memory = torch.empty(parts["blocks"].nbytes + 1, dtype=torch.uint8)
    odd = memory[1:].view(parts["blocks"].shape).copy_(parts["blocks"])
    Mxfp4().decode({**parts, "blocks": odd}, out)
    assert same_bits(out, expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_strides_and_chunks_change_no_bit(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    fp8 = {"weight": fp8_weight(2, 70, 96), "scale": torch.rand(2, 5, 3)}
    mxfp4 = mxfp4_parts(2, 70, 3)
    plain = torch.empty(2, 70, 96, dtype=dtype), torch.empty(2, 96, 70, dtype=dtype)
    Fp8(16, 32).decode(fp8, plain[0])
    Mxfp4().decode(mxfp4, plain[1])
    monkeypatch.setattr(chunks, "CHUNK_WEIGHTS", 100)
    turned = torch.empty(96, 2, 210, dtype=dtype)[:, :, 70:140].permute(1, 2, 0)
    Fp8(16, 32).decode(fp8, turned)
    assert same_bits(turned, plain[0])
    Mxfp4().decode(mxfp4, turned.transpose(1, 2))
    assert same_bits(turned.transpose(1, 2), plain[1])

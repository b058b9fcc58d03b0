"""One row times whole codes, of K types and of units: as exact as sums of float32, whatever the row holds."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, quantize
from torch import Tensor

from engine.gguf_header import TYPES
from engine.model.products import arrays, layouts, product
from engine.model.products.compiling import has_compiler
from engine.model.products.grouped import Group, Member, multiply
from engine.model.products.product import Stored, blocks, times_all
from engine.model.products.programs import Room, Steps
from tests.campaigns.extent import choose, for_the_proofs
from tests.engine.model.gguf.test_block_decoders import HALVES
from tests.engine.model.gguf.test_block_decoders import blocks as random_blocks

pytestmark = pytest.mark.skipif(not has_compiler(), reason="numba does not run here")

ROWS, COLUMNS = 136, 768
BY_NAME = {kind.name: kind for kind in TYPES}
OF_UNITS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4"]
NAMES = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", *OF_UNITS]
OF_BYTES = ["IQ4_NL", "IQ4_XS"]  # whose codes only some processors multiply so: others do it in float32
FEW = choose(["Q4_K", "Q6_K", "Q4_0", "Q5_1", "MXFP4", "IQ4_XS"], [*NAMES, *OF_BYTES])  # of each kind
ROUNDED = 2.0**-22  # of the sum of magnitudes: a sum of 768 products in float32 may be off by more
BESIDE_LARGE = 4  # times as much, where numbers of a block are of very different sizes: thrice what float32 is off by

NARROW = "+avx,+avx2,+fma,+f16c,+sse4.2,+sse4.1,+ssse3,+sse3,+popcnt,+bmi,+bmi2,+lzcnt,+movbe"
"""Without these words numba would still take all that the processor here can do."""

CHILD = """
import sys, torch
from tests.engine.model.products.test_whole_numbers import matrix_of, row_of
print([matrix_of(name)[0](row_of()).view(torch.int32).tolist() for name in sys.argv[1:]])
"""


def matrix_of(name: str, columns: int = COLUMNS) -> tuple[Stored, Tensor]:
    """A matrix of a type, and its numbers in float64.

    Any blocks of 256 numbers, but units of 32 whose scales are not far apart: these have no common factor, and x is
    rounded to what is little beside the largest of 256 numbers.
    """
    rows = _units(name, columns) if name in OF_UNITS else random_blocks(BY_NAME[name], ROWS, columns)
    if name == "IQ4_NL":
        rows.reshape(-1, 18)[:, :2] = _units("Q4_0", columns).reshape(-1, 18)[:, :2]
    made = blocks(name, rows, columns)
    assert made is not None
    made.decode(weight := torch.empty(ROWS, columns))
    return made, weight.double()


def _units(name: str, columns: int) -> Tensor:
    generator = np.random.default_rng(0)
    scales = np.exp(0.5 * generator.normal(size=(ROWS, columns // 32))).repeat(32, 1)
    weight = (scales * generator.normal(size=(ROWS, columns))).astype(np.float32)
    return torch.from_numpy(quantize(weight, GGMLQuantizationType[name]))


def row_of() -> Tensor:
    """One whose numbers are of very different sizes."""
    torch.manual_seed(1)
    return torch.randn(1, COLUMNS) * torch.exp(3 * torch.randn(COLUMNS))


def _share_of_magnitudes(found: Tensor, x: Tensor, weight: Tensor) -> float:
    """How far off sums are, by sums of magnitudes with the largest weight of each unit, which codes are steps of."""
    error = (found.double() - x.double() @ weight.t()).abs()
    largest = weight.abs().reshape(len(weight), -1, 32).amax(2).repeat_interleave(32, 1)
    return float((error / (x.double().abs() @ largest.t())).max())


@pytest.mark.parametrize("name", FEW)
def test_a_row_alone_is_as_exact_as_rows_of_float32(name: str) -> None:
    matrix, weight = matrix_of(name)
    assert _share_of_magnitudes(matrix(row_of()), row_of(), weight) < BESIDE_LARGE * ROUNDED
    for x in (torch.randn(1, COLUMNS), 1e-25 * torch.randn(1, COLUMNS), 1e20 * torch.randn(1, COLUMNS)):
        assert _share_of_magnitudes(matrix(x), x, weight) < ROUNDED


@pytest.fixture
def small_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small matrices are multiplied as they are stored, too."""
    monkeypatch.setattr(product, "SMALLEST", 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FEW)
def test_few_rows_have_the_bits_of_each_alone(name: str, dtype: torch.dtype) -> None:
    from engine.model.products.loops import whole_numbers

    matrix, _ = matrix_of(name)
    if matrix.order is None or whole_numbers.most_rows() == 1:
        pytest.skip("this processor decodes the matrix for them")
    x = (torch.randn(4, COLUMNS) * torch.exp(3 * torch.randn(COLUMNS))).to(dtype)
    alone = torch.cat([multiply([Group(Member((matrix,)), 0, 1)], row[None]) for row in x])
    assert whole_numbers.most_rows() == len(x)
    for rows in (2, 3, 4):
        assert torch.equal(matrix(x[:rows].clone()), alone[:rows])
        assert torch.equal(multiply([Group(Member((matrix,)), 0, rows)], x[:rows]), alone[:rows])
        steps, room = Steps(), Room()
        there, found = room.take(rows, COLUMNS).copy_(x[:rows].float()), room.take(rows, ROWS)
        steps.multiply([(matrix, found)], there, room, is_narrow=dtype == torch.bfloat16)
        steps.finish()
        steps.run(0, len(steps))
        assert torch.equal(found, alone[:rows])


@pytest.mark.usefixtures("small_count")
@pytest.mark.parametrize("columns", [32, 64, 7 * 32, 2 * 256 + 64, 1024 - 32])
@pytest.mark.parametrize("name", [*OF_UNITS, "IQ4_NL"])
def test_units_need_not_fill_a_block(name: str, columns: int) -> None:
    matrix, weight = matrix_of(name, columns)
    assert name == "IQ4_NL" or matrix.order is not None
    x = torch.randn(1, columns)
    assert _share_of_magnitudes(matrix(x), x, weight) < ROUNDED
    assert _share_of_magnitudes(short(matrix, x), x, weight) < 2.0**-13


@pytest.mark.usefixtures("small_count")
@pytest.mark.parametrize("columns", [32, 64, 576, 768])
@pytest.mark.parametrize("group", [4, 5])  # scales of sixteen numbers each, as NVFP4 has them, and of 32
def test_levels_of_four_bits_may_have_their_scales_elsewhere(group: int, columns: int) -> None:
    codes = torch.randint(0, 256, (ROWS, columns // 2), dtype=torch.uint8)
    exponents = torch.randint(122, 130, (ROWS, columns >> group), dtype=torch.uint8)
    steps = 2.0 ** (torch.arange(256, dtype=torch.float32) - 127)
    fields = arrays.array(codes), layouts.levels("e2m1"), arrays.array(exponents), arrays.array(steps), group
    matrix = product.stored(lambda: layouts.ScaledLevels(*fields), (ROWS, columns), codes, exponents)
    assert matrix is not None
    assert matrix.order is not None
    matrix.decode(weight := torch.empty(ROWS, columns))
    for x in (torch.randn(1, columns), 1e-20 * torch.randn(1, columns)):
        assert _share_of_magnitudes(matrix(x), x, weight.double()) < ROUNDED
        assert _share_of_magnitudes(short(matrix, x), x, weight.double()) < 2.0**-13


@pytest.mark.parametrize("name", FEW)
def test_a_large_number_costs_those_of_other_blocks_nothing(name: str) -> None:
    matrix, weight = matrix_of(name)
    x = torch.randn(1, COLUMNS)
    x[0, 300], weight[:, 256:512] = 1e6, 0
    with_outlier, without = matrix(x), x.clone()
    without[0, 256:512] = 0
    alone = x - without
    rest = with_outlier - matrix(alone)
    assert float((rest.double() - without.double() @ weight.t()).abs().max()) < 1e-6 * float(matrix(alone).abs().max())
    assert _share_of_magnitudes(matrix(without), without, weight) < ROUNDED


@pytest.mark.parametrize("name", ["Q4_K", "Q4_0"])
def test_no_numbers_stay_no_numbers_and_zeros_give_zeros(name: str) -> None:
    matrix, _ = matrix_of(name)
    assert float(matrix(torch.zeros(1, COLUMNS)).abs().max()) == 0
    assert float(matrix(torch.full((1, COLUMNS), 1e-38)).abs().max()) < 1e-30
    for wrong in (float("nan"), float("inf"), -float("inf")):
        x = torch.randn(1, COLUMNS)
        x[0, 100] = wrong
        assert not bool(torch.isfinite(matrix(x)).any())


def test_bits_depend_neither_on_threads_nor_on_what_else_is_multiplied() -> None:
    first, second = matrix_of("Q4_K")[0], matrix_of("Q6_K")[0]
    x, threads = row_of(), torch.get_num_threads()
    alone = first(x), second(x)
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            together = times_all([second, first, first], x)
            assert torch.equal(together[0], alone[1])
            assert torch.equal(together[1], alone[0])
            assert torch.equal(together[2], alone[0])
    finally:
        torch.set_num_threads(threads)


def short(matrix: Stored, x: Tensor) -> Tensor:
    """The product as networks in bfloat16 compute it in steps."""
    steps, room = Steps(), Room()
    row, found = room.take(1, matrix.columns).copy_(x), room.take(1, matrix.rows)
    steps.multiply([(matrix, found)], row, room, is_narrow=True)
    steps.finish()
    steps.run(0, len(steps))
    return found.clone()


@pytest.mark.parametrize("name", FEW)
def test_a_row_in_fewer_digits_is_rounded_by_far_less_than_to_bfloat16(name: str) -> None:
    matrix, weight = matrix_of(name)
    for x in (row_of(), torch.randn(1, COLUMNS), 1e-25 * torch.randn(1, COLUMNS), 1e20 * torch.randn(1, COLUMNS)):
        found, narrow = short(matrix, x), x.bfloat16().float() @ weight.float().t()
        assert matrix.order_of(1) is None or not torch.equal(found, matrix(x))  # None: not on this processor
        assert _share_of_magnitudes(found, x, weight) < 0.25 * _share_of_magnitudes(narrow, x, weight)
    assert float(short(matrix, torch.zeros(1, COLUMNS)).abs().max()) == 0


@pytest.mark.parametrize("name", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"])
def test_sums_of_the_largest_codes_factors_and_numbers_have_room(name: str) -> None:
    kind = BY_NAME[name]
    stored = torch.full((ROWS, COLUMNS // 256, kind.nbytes), 255, dtype=torch.uint8)
    if name == "Q6_K":
        stored[..., 192:208] = 127  # factors have a sign
    for at in HALVES[name]:
        stored[..., at : at + 2] = torch.tensor([0, 0x3C], dtype=torch.uint8)  # 1
    made = blocks(name, stored.view(ROWS, -1), COLUMNS)
    assert made is not None
    made.decode(weight := torch.empty(ROWS, COLUMNS))
    for x in (torch.full((1, COLUMNS), 1.98), torch.full((1, COLUMNS), -1.98)):
        wanted = x.double() @ weight.double().t()
        assert torch.allclose(made(x).double(), wanted, rtol=2.0**-20)
        assert torch.allclose(short(made, x).double(), wanted, rtol=2.0**-13)


def _in_order(digits: layouts.Array, order: int, count: int) -> layouts.Array:
    """What was written, one number behind the other: float64."""
    if order == 0:
        some = digits.reshape(-1, count, 64)
    elif order == 3:
        turns = digits.reshape(-1, 2, count, 2, 32)  # of four units the first and the third, and then the others
        some = turns.transpose(0, 2, 3, 1, 4).reshape(-1, count, 128)
    else:
        fours = digits.reshape(-1, count, 2, 4, 16)  # of halves sixteen numbers of four units each
        some = fours.transpose(0, 1, 3, 2, 4) if order == 1 else fours.transpose(0, 1, 3, 4, 2)
        some = some.reshape(-1, count, 128)
    return np.asarray(sum(some[:, digit] * 256.0**digit for digit in range(count))).reshape(-1)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS - 96])
@pytest.mark.parametrize(("count", "kind"), [(3, np.uint8), (2, np.int8)])
def test_digits_give_back_the_numbers_that_were_written(
    count: int, kind: type[np.uint8 | np.int8], columns: int, order: int
) -> None:
    from engine.model.products.loops import whole_numbers

    x = row_of()[0].numpy()[:columns]
    digits = np.empty(count * COLUMNS, kind)
    steps, sums = np.empty(COLUMNS // 256, np.float32), np.empty(3 * COLUMNS // 32, np.float32)
    whole_numbers.write_row(x, (digits, steps, sums), order, 0, 1)
    steps = steps.repeat(8)
    whole = _in_order(digits.view(np.int8).astype(np.float64), order, count)
    found = whole.reshape(-1, 32) * steps[:, None].astype(np.float64)
    wanted = np.concatenate([x, np.zeros(COLUMNS - columns)]).reshape(-1, 32)
    assert np.all(np.abs(found - wanted) <= 0.5 * steps[:, None])
    assert np.allclose(sums[: COLUMNS // 32], found.sum(1), rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
    assert np.allclose(sums[COLUMNS // 32 :], found.reshape(-1, 16).sum(1), rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


def on_several_processors(child: str, names: Sequence[str]) -> list[object]:
    """What a script prints as JSON on this processor, and held to what most desktop ones can do, or newer ones."""
    from llvmlite import binding

    newer = ["+avxvnni"] if binding.get_host_cpu_features().get("avxvnni") else []
    found = []
    for features in ("", NARROW, *(f"{NARROW},{each}" for each in newer)):
        processor = {"NUMBA_CPU_NAME": "znver3", "NUMBA_CPU_FEATURES": features} if features else {}
        run = [sys.executable, "-c", child, *names]
        output = subprocess.run(run, env={**os.environ, **processor}, capture_output=True, check=True).stdout
        found.append(json.loads(output))
    return found


@for_the_proofs
def test_processors_with_narrower_registers_give_the_same_bits() -> None:
    found = on_several_processors(CHILD, NAMES)
    assert all(each == found[0] for each in found[1:])

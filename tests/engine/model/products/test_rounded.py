"""Rows that are rounded to 8 bits, times whole codes: exact but for that, and the same alone and among others."""

import pytest
import torch
from torch import Tensor

from engine.model.products import product
from engine.model.products.arranged import Alternating, Joined, Woven, rounding
from engine.model.products.compiling import has_compiler
from engine.model.products.product import Stored, floats, plain, times_all
from engine.model.products.programs import Room, Steps
from tests.campaigns.extent import choose, for_the_proofs
from tests.engine.model.products.test_whole_numbers import NAMES, OF_UNITS, ROWS, matrix_of, on_several_processors

pytestmark = pytest.mark.skipif(not has_compiler(), reason="numba does not run here")

COLUMNS = 768
FEW = choose(["Q4_K", "Q6_K", "Q5_1"], NAMES)  # of each kind
ROUNDED = 2.0**-22  # of the sum of magnitudes, beside what x is rounded by

CHILD = """
import sys, torch
from tests.engine.model.products.test_rounded import rows_of
from tests.engine.model.products.test_whole_numbers import matrix_of
matrices = [matrix_of(name)[0].rounding() for name in sys.argv[1:]]
print([each(rows_of(rows)).view(torch.int32).tolist() for each in matrices for rows in (1, 5)])
"""


def rounded_matrix(name: str, columns: int = COLUMNS) -> tuple[Stored, Tensor]:
    """A matrix whose rows of x are rounded, and its numbers in float64."""
    matrix, weight = matrix_of(name, columns)
    found = matrix.rounding()
    if not found.is_rounded:
        pytest.skip("this processor has no loop for rows in 8 bits")
    return found, weight


def rows_of(count: int, columns: int = COLUMNS) -> Tensor:
    """Some whose numbers are of very different sizes."""
    torch.manual_seed(count)
    return torch.randn(count, columns) * torch.exp(2 * torch.randn(columns))


def in_8_bits(x: Tensor) -> Tensor:
    """x as it is rounded: to 127 steps of the largest of 256 numbers."""
    blocks = torch.nn.functional.pad(x, (0, -x.shape[1] % 256)).view(len(x), -1, 256)
    largest = blocks.abs().amax(2, keepdim=True)
    step = largest / 127
    by = torch.where(largest > 0, 127 / largest, torch.zeros_like(largest))
    return ((blocks * by).round() * step).view(len(x), -1)[:, : x.shape[1]]


def off_by(found: Tensor, x: Tensor, weight: Tensor) -> float:
    """How far sums are from those of x in 8 bits, by sums of magnitudes with the largest weight of each unit."""
    exact = in_8_bits(x).double()
    largest = weight.abs().reshape(len(weight), -1, 32).amax(2).repeat_interleave(32, 1)
    return float(((found.double() - exact @ weight.t()).abs() / (exact.abs() @ largest.t())).max())


@pytest.mark.parametrize("name", FEW)
def test_nothing_is_rounded_but_x(name: str) -> None:
    matrix, weight = rounded_matrix(name)
    for rows in (1, 2, 7, 70):
        assert off_by(matrix(rows_of(rows)), rows_of(rows), weight) < ROUNDED
    for size in (1e-25, 1e20):
        x = size * torch.randn(3, COLUMNS)
        assert off_by(matrix(x), x, weight) < ROUNDED


@pytest.mark.parametrize("name", FEW)
def test_a_row_has_the_same_bits_whichever_rows_are_beside_it(name: str) -> None:
    matrix, _ = rounded_matrix(name)
    x = rows_of(150)
    all_rows = matrix(x)
    for rows in (1, 2, 3, 5, 17, 64):
        assert torch.equal(matrix(x[:rows].clone()), all_rows[:rows])
    assert torch.equal(matrix(x[40:43].clone()), all_rows[40:43])


@pytest.mark.parametrize("name", FEW)
def test_an_error_of_8_bits_is_what_it_costs(name: str) -> None:
    matrix, weight = rounded_matrix(name)
    x = torch.randn(9, COLUMNS)
    exact = x.double() @ weight.t()
    for found in (matrix(x), matrix(x[:1].clone())):
        error = (found.double() - exact[: len(found)]).norm() / exact[: len(found)].norm()
        assert 1e-3 < float(error) < 2e-2  # a step of a 127th of three deviations, evenly off by half of it


@pytest.mark.parametrize("columns", [32, 7 * 32, 2 * 256 + 64])
@pytest.mark.parametrize("name", choose(["Q5_1"], OF_UNITS))
def test_units_need_not_fill_a_block(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "SMALLEST", 1)
    matrix, weight = rounded_matrix(name, columns)
    for rows in (1, 3):
        assert off_by(matrix(rows_of(rows, columns)), rows_of(rows, columns), weight) < ROUNDED


@pytest.mark.parametrize("name", ["Q4_K", "Q5_1"])
def test_no_numbers_stay_no_numbers_and_zeros_give_zeros(name: str) -> None:
    matrix, _ = rounded_matrix(name)
    for rows in (1, 3):
        assert float(matrix(torch.zeros(rows, COLUMNS)).abs().max()) == 0
        for wrong in (float("nan"), float("inf"), -float("inf")):
            x = torch.randn(rows, COLUMNS)
            x[0, 100] = wrong
            found = matrix(x)
            assert not bool(torch.isfinite(found[0]).any())
            assert bool(torch.isfinite(found[1:]).all())


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_steps_and_batches_multiply_alike(rows: int) -> None:
    first, second = rounded_matrix("Q4_K")[0], rounded_matrix("Q5_1")[0]
    x = rows_of(rows)
    alone = first(x), second(x)
    together = times_all([second, first], x)
    assert torch.equal(together[0], alone[1])
    assert torch.equal(together[1], alone[0])
    wide = first.wide(x)
    assert wide is not None
    assert torch.equal(wide, alone[0])
    steps, room = Steps(), Room()
    there, found = room.take(rows, COLUMNS).copy_(x), [room.take(rows, ROWS) for _ in range(2)]
    steps.multiply([(first, found[0]), (second, found[1])], there, room)
    steps.finish()
    steps.run(0, len(steps))
    assert torch.equal(found[0], alone[0])
    assert torch.equal(found[1], alone[1])


def test_shares_of_any_rows_give_the_same_bits() -> None:
    matrix, threads = rounded_matrix("Q6_K")[0], torch.get_num_threads()
    x = rows_of(5)
    try:
        found = []
        for count in (1, 3):
            torch.set_num_threads(count)
            found.append(matrix(x))
        assert torch.equal(*found)
    finally:
        torch.set_num_threads(threads)


def test_matrices_that_lie_otherwise_are_rounded_too_and_others_stay_exact() -> None:
    matrix, _ = matrix_of("Q4_K")
    wide, narrow = floats(torch.ones(256, 256)), plain(torch.ones(256, 256, dtype=torch.bfloat16))
    assert wide is not None
    assert narrow is not None
    assert rounding(wide) is wide
    assert rounding(narrow) is narrow
    assert rounding(None) is None
    if not matrix.rounding().is_rounded:
        return
    x = rows_of(3)
    y = matrix.rounding()(x)
    assert torch.equal(rounding(Joined([matrix, matrix]))(x), torch.cat([y, y], 1))
    assert torch.equal(rounding(Alternating([matrix, matrix]))(x), y.repeat_interleave(2, 1))
    assert torch.equal(rounding(Woven(matrix, 1))(x), y.view(3, -1, 2).transpose(1, 2).reshape(3, -1))


@for_the_proofs
def test_processors_with_narrower_registers_give_the_same_bits() -> None:
    found = on_several_processors(CHILD, NAMES)
    assert all(each == found[0] for each in found[1:])


@pytest.mark.parametrize("name", FEW)
def test_few_rows_are_exact_where_their_number_may_matter(name: str) -> None:
    matrix, _ = matrix_of(name, COLUMNS)
    rounded = matrix.rounding(keeps_few=True)
    if not rounded.is_rounded:
        pytest.skip("this processor has no loop for rows in 8 bits")
    x = rows_of(9)
    assert torch.equal(rounded(x[:1]), matrix(x[:1]))
    assert not rounded.rounds(1)
    assert rounded.rounds(9)
    assert torch.equal(rounded(x), matrix.rounding()(x))

"""Several rows of bfloat16 are multiplied as tiles where the processor can, with what torch's product in it gives."""

from functools import cache

import pytest
import torch
from torch import Tensor

from engine.model.products import product
from engine.model.products.grouped import Group, member_of, multiply
from engine.model.products.matrix_unit import TILED_FROM, has_tiles, in_tiles
from engine.model.products.product import Alternating, Joined, Product, Stored, Woven, native
from engine.weights.codecs.codec import codec_named
from tests.engine.weights.codec_cases import WEIGHT, random_weight

SHAPE = (1031, 352)  # an odd number of rows, and columns that are no whole blocks of scales
WIDE = (136, 2080)  # more columns than are decoded at once
needs_tiles = pytest.mark.skipif(not has_tiles(), reason="this processor has no unit that multiplies tiles")


@cache
def made(shape: tuple[int, int] = SHAPE) -> tuple[Stored, Tensor, dict[str, Tensor]]:
    """A product of int8 codes, the weight as bfloat16, and what is stored of it, which must stay."""
    codec = codec_named("int8")
    stored = codec.encode(WEIGHT, random_weight(*shape))
    found, decoded = codec.product(stored, WEIGHT, shape), torch.empty(shape, dtype=torch.bfloat16)
    assert isinstance(found, Stored)
    codec.decode(stored, WEIGHT, decoded)
    return found, decoded, stored


def rows_of_x(rows: int, columns: int = SHAPE[1]) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows)).bfloat16()


def near(found: Tensor, expected: Tensor) -> bool:
    """But for the order of sums in float32."""
    return float((found - expected).abs().max()) <= 1e-5 * float(expected.abs().max())


def test_tiles_hold_pairs_of_columns_of_sixteen_rows() -> None:
    x = rows_of_x(21, 64)
    tiles = in_tiles(x).view(torch.bfloat16).view(2, 2, 16, 16, 2)
    for row, column in ((0, 0), (3, 1), (15, 63), (16, 34), (20, 31)):
        pair = column % 32 // 2
        assert tiles[row // 16, column // 32, pair, row % 16, column % 2] == x[row, column]
    assert not tiles[1, :, :, 5:].any(), "filled up with zeros"


@needs_tiles
@pytest.mark.parametrize("shape", [SHAPE, WIDE])
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 32, 33, 47, 80])
def test_a_product_is_that_with_the_weight_in_bfloat16(shape: tuple[int, int], rows: int) -> None:
    matrix, decoded, _ = made(shape)
    x = rows_of_x(rows, shape[1])
    found = matrix(x)
    assert (found.shape, found.dtype) == ((rows, shape[0]), torch.float32)
    assert near(found, x.float() @ decoded.float().t())


@needs_tiles
def test_the_bits_of_a_row_depend_on_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, x = made()[0], rows_of_x(70)
    alone = torch.cat([matrix(row[None]) for row in x])
    monkeypatch.setattr(product, "WORTH_A_THREAD", 1 << 10)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for rows in (2, 16, 31, 33, 70):
            assert torch.equal(matrix(x[:rows].clone()), alone[:rows])
    finally:
        torch.set_num_threads(before)


@needs_tiles
def test_any_range_of_rows_is_multiplied_and_nothing_beside_it() -> None:
    matrix, x = made()[0], rows_of_x(5)
    loop, found = native().tiles, torch.full((5, SHAPE[0]), 7.0)
    for begin, end in ((0, 1), (1, 40), (40, 1020), (1020, SHAPE[0] - 2)):
        loop.tile_rows(matrix.parts, in_tiles(x).numpy(), found.numpy(), begin, end, loop.SHAPES)
    assert torch.equal(found[:, :-2], matrix(x)[:, :-2])
    assert (found[:, -2:] == 7).all()


@needs_tiles
def test_numbers_that_are_none_stay_in_their_row() -> None:
    matrix, x = made()[0], rows_of_x(20)
    expected = matrix(x.clone())
    x[2], x[17, 300] = float("nan"), float("inf")
    found = matrix(x)
    assert found[2].isnan().all()
    assert not found[17].isfinite().any()
    others = [each for each in range(20) if each not in (2, 17)]
    assert torch.equal(found[others], expected[others])


@needs_tiles
def test_groups_of_few_rows_are_not_rounded_and_those_of_many_are_tiles() -> None:
    few, many = TILED_FROM - 1, TILED_FROM
    matrix, x = made()[0], rows_of_x(1 + few + many)
    member = member_of(matrix)
    assert member is not None
    ends = 1, 1 + few, 1 + few + many
    found = multiply([Group(member, 0, ends[0]), Group(member, *ends[:2]), Group(member, *ends[1:])], x)
    assert torch.equal(found[:1], matrix(x[:1].float()))
    assert torch.equal(found[1 : ends[1]], matrix(x[1 : ends[1]].float()))
    assert torch.equal(found[ends[1] :], matrix(x[ends[1] :].clone()))


def several() -> list[Product]:
    """Each way of putting matrices together."""
    matrix = made(WIDE)[0]
    return [matrix, Joined([matrix, matrix]), Alternating([matrix, matrix]), Woven(matrix, 4)]


@pytest.mark.parametrize("number", range(4))
def test_many_rows_are_multiplied_block_by_block_with_the_same_bits_on_any_number_of_threads(number: int) -> None:
    matrix, x = several()[number], rows_of_x(40, WIDE[1]).float()
    with torch.inference_mode():
        found = matrix.wide(x.clone())
    assert found is not None
    assert near(found, matrix(x))
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            again = matrix.wide(x)
            assert again is not None
            assert torch.equal(again, found)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("number", range(4))
def test_only_what_is_stored_in_bfloat16_is_multiplied_in_it_without_decoding(number: int) -> None:
    x = rows_of_x(3, WIDE[1])
    assert several()[number].wide(x) is None
    numbers = torch.randn(WIDE).bfloat16()
    plain = product.plain(numbers)
    assert plain is not None
    found = plain.wide(x)
    assert found is not None
    assert torch.equal(found, x @ numbers.t())

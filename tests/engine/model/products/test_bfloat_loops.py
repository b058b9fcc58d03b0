"""Several rows of bfloat16 are multiplied as such where the processor can, with what torch's product in it gives."""

from functools import cache

import pytest
import torch
from torch import Tensor

from engine.model.products import product
from engine.model.products.arranged import Alternating, Joined, Woven
from engine.model.products.bfloat_loops import PAIRS, TILES, bfloat_loop, in_pairs, in_tiles
from engine.model.products.grouped import Group, member_of, multiply
from engine.model.products.product import Product, Stored, native
from engine.weights.codecs.codec import codec_named
from tests.engine.weights.codec_cases import WEIGHT, random_weight

SHAPE = (1031, 352)  # an odd number of rows, and columns that are no whole blocks of scales
WIDE = (136, 2080)  # more columns than are decoded at once
needs_loop = pytest.mark.skipif(bfloat_loop() is None, reason="this processor multiplies no bfloat16")


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


@pytest.mark.skipif(bfloat_loop() is not PAIRS, reason="no loop of this processor reads pairs")
def test_pairs_lie_as_tiles_of_three_rows_and_of_two_read_them() -> None:
    columns = 1024 + 64  # a whole block, and a part of one
    x = rows_of_x(9, columns)
    packed = in_pairs(x, [(1, 6), (6, 8)]).view(torch.bfloat16).view(-1)
    five, two = packed[: 5 * columns], packed[5 * columns :]
    whole, rest = five[: 5 * 1024], five[5 * 1024 :]
    assert torch.equal(whole[: 3 * 1024].view(32, 3, 32).transpose(0, 1).flatten(1), x[1:4, :1024])
    assert torch.equal(rest[3 * 64 :].view(2, 2, 32).transpose(0, 1).flatten(1), x[4:6, 1024:])
    assert torch.equal(two[2 * 1024 :].view(2, 2, 32).transpose(0, 1).flatten(1), x[6:8, 1024:])


@needs_loop
@pytest.mark.parametrize("shape", [SHAPE, WIDE])
@pytest.mark.parametrize("rows", [2, 3, 4, 5, 16, 17, 32, 33, 47, 80])
def test_a_product_is_that_with_the_weight_in_bfloat16(shape: tuple[int, int], rows: int) -> None:
    matrix, decoded, _ = made(shape)
    x = rows_of_x(rows, shape[1])
    found = matrix(x)
    assert (found.shape, found.dtype) == ((rows, shape[0]), torch.float32)
    assert near(found, x.float() @ decoded.float().t())


@needs_loop
@pytest.mark.parametrize("shape", [SHAPE, WIDE])
@pytest.mark.parametrize("rows", [2, 7, 32])
def test_a_matrix_of_bfloat16_is_multiplied_as_it_lies(shape: tuple[int, int], rows: int) -> None:
    numbers, x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16(), rows_of_x(rows, shape[1])
    matrix = product.plain(numbers)
    assert matrix is not None
    assert near(matrix(x), x.float() @ numbers.float().t())


@needs_loop
def test_the_bits_of_a_row_depend_on_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, x = made()[0], rows_of_x(70)
    two = torch.cat([matrix(row.expand(2, -1).contiguous())[:1] for row in x])
    monkeypatch.setattr(product, "WORTH_A_THREAD", 1 << 10)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for rows in (2, 3, 16, 31, 33, 70):
            assert torch.equal(matrix(x[:rows].clone()), two[:rows])
    finally:
        torch.set_num_threads(before)


@needs_loop
def test_any_range_of_rows_is_multiplied_and_nothing_beside_it() -> None:
    matrix, x = made()[0], rows_of_x(5)
    found = torch.full((5, SHAPE[0]), 7.0)
    for begin, end in ((0, 1), (1, 40), (40, 1020), (1020, SHAPE[0] - 2)):
        if bfloat_loop() is TILES:
            tiles = native().tiles
            tiles.tile_rows(matrix.parts, in_tiles(x).numpy(), found.numpy(), begin, end, tiles.SHAPES)
        else:
            native().pairs.paired_rows(matrix.parts, in_pairs(x).view(-1).numpy(), found.numpy(), begin, end)
    assert torch.equal(found[:, :-2], matrix(x)[:, :-2])
    assert (found[:, -2:] == 7).all()


@needs_loop
def test_numbers_that_are_none_stay_in_their_row() -> None:
    matrix, x = made()[0], rows_of_x(20)
    expected = matrix(x.clone())
    x[2], x[17, 300] = float("nan"), float("inf")
    found = matrix(x)
    assert found[2].isnan().all()
    assert not found[17].isfinite().any()
    others = [each for each in range(20) if each not in (2, 17)]
    assert torch.equal(found[others], expected[others])


@needs_loop
def test_groups_of_few_rows_are_not_rounded_and_those_of_many_are() -> None:
    loop = bfloat_loop()
    assert loop is not None
    few, many = loop.from_rows - 1, loop.from_rows
    matrix, x = made()[0], rows_of_x(1 + few + many)
    member = member_of(matrix)
    assert member is not None
    ends = 1, 1 + few, 1 + few + many
    found = multiply([Group(member, 0, 1), Group(member, *ends[:2]), Group(member, *ends[1:])], x)
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

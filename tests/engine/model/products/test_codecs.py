"""Weights of prepared models are multiplied as they are stored, and give what decoding and torch's product give."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.model.products import product
from engine.model.products.product import Product
from engine.weights.codecs.codec import codec_named
from tests.campaigns.extent import choose
from tests.engine.weights.codec_cases import WEIGHT, random_weight

SHAPE = (1031, 384)  # an odd number of rows, and columns that are no whole blocks of the loops
CASES = {
    "bfloat16": ("plain", torch.bfloat16),
    "float16": ("plain", torch.float16),
    "cast": ("cast", torch.float32),
    "int8": ("int8", torch.float32),
    "nf4": ("nf4", torch.float32),
}
FEW = choose(["int8"], list(CASES))  # loops are compiled for each, for a second or two


@cache
def made(case: str) -> tuple[dict[str, Tensor], Product, Tensor]:
    """What is stored of a random weight, its product, and the weight as it is decoded."""
    name, dtype = CASES[case]
    codec = codec_named(name)
    stored = codec.encode(WEIGHT, random_weight(*SHAPE).to(dtype))
    found, decoded = codec.product(stored, WEIGHT, SHAPE), torch.empty(SHAPE)
    assert found is not None
    codec.decode(stored, WEIGHT, decoded)
    return stored, found, decoded


@pytest.mark.parametrize("case", FEW)
def test_a_product_is_that_with_the_decoded_weight(case: str) -> None:
    _, multiply, decoded = made(case)
    x = torch.randn(17, SHAPE[1], generator=torch.Generator().manual_seed(1))
    expected = x @ decoded.t()
    for rows in (1, 2, 4, 9, 17):
        found = multiply(x[:rows].clone())
        assert found.shape == (rows, SHAPE[0])
        assert float((found - expected[:rows]).abs().max()) <= 1e-5 * float(expected.abs().max())


@pytest.mark.parametrize("case", FEW)
def test_the_bits_of_a_row_depend_on_nothing_else(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, multiply, _ = made(case)
    x = torch.randn(18, SHAPE[1], generator=torch.Generator().manual_seed(2))
    alone = torch.cat([multiply(row[None]) for row in x])
    monkeypatch.setattr(product, "WORTH_A_THREAD", 1 << 10)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for rows in (1, 2, 3, 4, 5, 7, 16, 18):
            assert torch.equal(multiply(x[:rows].clone()), alone[:rows])
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("case", FEW)
def test_any_range_of_rows_is_multiplied_with_the_same_bits(case: str) -> None:
    _, multiply, _ = made(case)
    assert isinstance(multiply, product.Stored)
    loops, x = product._kernels(), torch.randn(5, SHAPE[1], generator=torch.Generator().manual_seed(3))
    packed = np.full(x.numel(), np.nan, np.float32)
    for begin, end in ((0, 1), (1, -(-SHAPE[1] // loops.BLOCK))):
        loops.pack(x.numpy(), np.empty(0, np.int64), packed, begin, end)
    for rows, loop, given in ((1, loops.one_row, x[:1].numpy()), (5, loops.several_rows, packed)):
        found = torch.full((rows, SHAPE[0]), 7.0)
        for begin, end in ((0, 1), (1, 4), (4, 27), (27, 1020), (1020, SHAPE[0] - 2)):
            loop(multiply.parts, given, found.numpy(), begin, end)
        assert torch.equal(found[:, :-2], multiply(x[:rows].clone())[:, :-2])
        assert (found[:, -2:] == 7).all(), "nothing is written beside the range"


@pytest.mark.parametrize("case", FEW)
def test_numbers_that_are_none_stay_in_their_row(case: str) -> None:
    _, multiply, _ = made(case)
    x = torch.randn(7, SHAPE[1], generator=torch.Generator().manual_seed(4))
    expected = multiply(x.clone())
    x[2], x[5, 300] = float("nan"), float("inf")
    found = multiply(x)
    assert found[2].isnan().all()
    assert not found[5].isfinite().any()
    others = [0, 1, 3, 4, 6]
    assert torch.equal(found[others], expected[others])


@pytest.mark.parametrize(
    "weight", [torch.randn(1031, 192), torch.randn(1031, 100).bfloat16(), torch.randn(64, 96).bfloat16()]
)
def test_other_numbers_odd_columns_and_small_weights_are_decoded(weight: Tensor) -> None:
    codec = codec_named("plain")
    assert codec.product(codec.encode(WEIGHT, weight), WEIGHT, (len(weight), weight.shape[1])) is None


def test_without_a_compiler_everything_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "has_compiler", lambda: False)
    codec = codec_named("int8")
    assert codec.product(codec.encode(WEIGHT, random_weight(*SHAPE)), WEIGHT, SHAPE) is None

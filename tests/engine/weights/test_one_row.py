"""The experts of one row in one call: what products one by one, torch's gate and a weighted sum give."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from engine.gguf_header import TYPES
from engine.model.products import programs
from engine.model.products.compiling import has_compiler
from engine.model.products.grouped import Gate, Group, Member, multiply
from engine.model.products.product import Stored, blocks, plain
from engine.weights.streaming.experts.one_row import OneRow
from tests.engine.model.gguf.test_block_decoders import blocks as random_blocks

pytestmark = pytest.mark.skipif(not has_compiler(), reason="numba does not run here")

WIDTH, INNER, EXPERTS = 256, 512, 5
BY_NAME = {kind.name: kind for kind in TYPES}
Make = Callable[[int, int], Stored]


def of_blocks(kind: str, rows: int, columns: int) -> Stored:
    made = blocks(kind, random_blocks(BY_NAME[kind], rows, columns), columns)
    assert made is not None
    return made


def of_bfloats(rows: int, columns: int) -> Stored:
    made = plain(torch.randn(rows, columns).bfloat16())
    assert made is not None
    return made


MAKERS: dict[str, Make] = {
    "BF16": of_bfloats, "Q4_K": partial(of_blocks, "Q4_K"), "Q6_K": partial(of_blocks, "Q6_K"),
    "Q4_0": partial(of_blocks, "Q4_0"),
}  # fmt: skip


def ups(make: Make, form: str) -> list[Member]:
    """Gate and up of each expert: in one matrix, in two, or in two whose rows take turns."""
    if form == "one":
        return [Member((make(2 * INNER, WIDTH),)) for _ in range(EXPERTS)]
    return [Member((make(INNER, WIDTH), make(INNER, WIDTH)), form == "turns") for _ in range(EXPERTS)]


def product(member: Member, x: Tensor) -> Tensor:
    found = [piece(x) for piece in member.pieces]
    return torch.stack(found, -1).flatten(-2) if member.is_woven else torch.cat(found, 1)


def chosen(members: list[Member], choice: list[int]) -> list[Member]:
    return [members[each] for each in choice]


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("form", ["one", "two"])
def test_gated_experts(kind: str, form: str) -> None:
    up, down = ups(MAKERS[kind], form), [Member((MAKERS[kind](WIDTH, INNER),)) for _ in range(EXPERTS)]
    of_layer = OneRow(Gate())
    for choice in ([3, 0], [1, 4], [2, 1, 0]):  # other experts in the same steps, and then more of them
        x, weights = torch.randn(1, WIDTH), torch.rand(1, len(choice))
        found = of_layer.mixed(x, chosen(up, choice), chosen(down, choice), weights)
        expected = torch.zeros(1, WIDTH)
        for place, expert in enumerate(choice):
            gate, other = product(up[expert], x).chunk(2, 1)
            expected += weights[0, place] * product(down[expert], functional.silu(gate) * other)
        error = float((found - expected).abs().max() / expected.abs().max())
        assert error < 1e-5
    assert len(of_layer._programs) == 2


@pytest.mark.parametrize("form", ["one", "turns"])
def test_clamped_gates_and_biases(form: str) -> None:
    """gpt-oss's."""
    up, down = ups(MAKERS["Q4_0"], form), [Member((MAKERS["BF16"](WIDTH, INNER),)) for _ in range(EXPERTS)]
    up_bias, down_bias = 3 * torch.randn(EXPERTS, 2 * INNER), torch.randn(EXPERTS, WIDTH)
    gate = Gate(limit=7.0, alpha=1.702)
    of_layer = OneRow(gate, has_bias=True)
    for choice in ([3, 0], [1, 4], [2, 1, 0]):
        x, weights = 4 * torch.randn(1, WIDTH), torch.rand(1, len(choice))
        biases = [[up_bias[each] for each in choice], [down_bias[each] for each in choice]]
        found = of_layer.mixed(x, chosen(up, choice), chosen(down, choice), weights, biases)
        expected = torch.zeros(1, WIDTH)
        for place, expert in enumerate(choice):
            inner = product(up[expert], x) + up_bias[expert]
            first, other = inner[:, ::2].clamp(max=7), inner[:, 1::2].clamp(-7, 7)
            gated = (other + 1) * first * torch.sigmoid(1.702 * first)
            assert float((gate(inner) - gated).abs().max()) < 1e-5 * float(gated.abs().max())
            assert bool((inner[:, ::2] > 7).any())
            assert bool((inner[:, 1::2] < -7).any())
            expected += weights[0, place] * (product(down[expert], gated) + down_bias[expert])
        assert float((found - expected).abs().max()) < 1e-5 * float(expected.abs().max())
    inner[0, 0] = torch.nan
    assert bool(gate(inner).isnan()[0, 0])


@pytest.mark.parametrize("form", ["one", "two", "turns"])
def test_experts_with_something_of_their_own_between(form: str) -> None:
    up, down = ups(MAKERS["Q4_K"], form), [Member((MAKERS["Q6_K"](WIDTH, INNER),)) for _ in range(EXPERTS)]
    choice, x = [4, 2], torch.randn(1, WIDTH)
    seen = []

    def between(inner: Tensor) -> Tensor:
        seen.append(inner.clone())
        return inner[:, ::2].tanh() + inner[:, 1::2]

    found = OneRow(None).outputs(x, chosen(up, choice), chosen(down, choice), between)
    for place, expert in enumerate(choice):
        inner = product(up[expert], x)
        assert torch.equal(seen[0][place], inner[0])
        assert torch.equal(found[place], product(down[expert], inner[:, ::2].tanh() + inner[:, 1::2])[0])


def test_a_row_of_bfloat16_takes_fewer_digits_and_is_rounded_by_less_than_its_numbers_are() -> None:
    make = MAKERS["Q4_K"]
    up, down = ups(make, "two")[:2], [Member((make(WIDTH, INNER),)) for _ in range(2)]
    x, weights = torch.randn(1, WIDTH).bfloat16(), torch.rand(1, 2).bfloat16()
    of_layer = OneRow(Gate())
    found, wide = of_layer.mixed(x, up, down, weights), of_layer.mixed(x.float(), up, down, weights.float())
    assert not torch.equal(found, wide)
    assert float((found - wide).abs().max()) < 2.0**-12 * float(wide.abs().max())
    assert torch.equal(multiply([Group(up[0], 0, 1)], x), multiply([Group(up[0], 0, 1)], x.repeat(2, 1))[:1])


def test_the_room_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "ROOM_NUMBERS", programs.LINE)
    make = MAKERS["BF16"]
    up, down = ups(make, "two")[:2], [Member((make(WIDTH, INNER),)) for _ in range(2)]
    x, weights = torch.randn(1, WIDTH), torch.rand(1, 2)
    expected = OneRow(Gate()).mixed(x, up, down, weights)
    monkeypatch.setattr(programs._room, "numbers", None)
    assert torch.equal(OneRow(Gate()).mixed(x, up, down, weights), expected)

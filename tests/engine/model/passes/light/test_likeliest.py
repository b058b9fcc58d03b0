"""The likeliest tokens that a compiled loop finds are those that torch does."""

import sys

import pytest
import torch
from torch import Tensor

from engine.model.passes.light import likeliest as module
from engine.model.passes.light.likeliest import likeliest
from engine.model.products.compiling import has_compiler
from engine.model.products.product import native

pytestmark = pytest.mark.skipif(not has_compiler(), reason="numba does not run here")


@pytest.fixture(autouse=True)
def _compiled() -> None:
    native()


def by_torch(logits: Tensor, vocabulary: int, width: int) -> tuple[Tensor, Tensor]:
    values, tokens = logits.log_softmax(-1, dtype=torch.float32)[:, :vocabulary].topk(width)
    return values, tokens


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "listed", "vocabulary"), [(1, 131, 131), (5, 4096, 4000), (9, 40001, 50000)])
def test_as_torch_finds_them(rows: int, listed: int, vocabulary: int, dtype: torch.dtype) -> None:
    logits = (4 * torch.randn(rows, listed)).to(dtype)
    logits[0, 7] = -torch.inf  # may not follow
    found = likeliest(logits, vocabulary, 32)
    assert found is not None
    log_probs, tokens = map(torch.from_numpy, found)
    expected, _ = by_torch(logits, vocabulary, 32)
    torch.testing.assert_close(log_probs, expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(logits.gather(1, tokens), logits[:, :vocabulary].topk(32).values)
    assert all(len(set(row)) == 32 for row in tokens.tolist()), "of numbers that are alike, each once"
    assert int(tokens.max()) < min(listed, vocabulary)


def test_of_some_alike_the_first_ones_are_found() -> None:
    found = likeliest(torch.zeros(2, 64), 64, 5)
    assert found is not None
    assert found[1].tolist() == [[0, 1, 2, 3, 4]] * 2


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
@pytest.mark.parametrize("place", [0, 3, 62, 99])
def test_nothing_is_said_of_what_is_no_number(number: float, place: int) -> None:
    logits = torch.randn(3, 100)
    logits[1, place] = number
    found = likeliest(logits, 80, 8)
    assert found is not None
    log_probs = torch.from_numpy(found[0])
    assert bool(log_probs[1].isneginf().all())
    torch.testing.assert_close(log_probs[::2], by_torch(logits[::2], 80, 8)[0])
    assert 0 <= int(found[1].min()) <= int(found[1].max()) < 80


def test_a_row_of_which_nothing_may_follow() -> None:
    found = likeliest(torch.full((1, 40), -torch.inf), 40, 4)
    assert found is not None
    assert bool(torch.from_numpy(found[0]).isneginf().all())


def test_many_logits_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(6, 1000)
    expected = likeliest(logits, 1000, 16)
    monkeypatch.setattr(module, "WORTH_SPREADING", 1)
    found = likeliest(logits, 1000, 16)
    assert found is not None
    assert expected is not None
    assert all((one == other).all() for one, other in zip(found, expected, strict=True))


def test_others_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(4, 64)
    assert likeliest(logits.half(), 64, 4) is None
    assert likeliest(logits.t(), 4, 4) is None
    assert likeliest(logits.to("meta"), 64, 4) is None
    monkeypatch.delitem(sys.modules, module.COMPILED)
    assert likeliest(logits, 64, 4) is None, "nothing is compiled for this alone"

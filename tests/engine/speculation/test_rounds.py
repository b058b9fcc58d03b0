"""A round decides first and writes then: a path is accepted whole, and cut where the answer ends."""

from collections.abc import Sequence

import pytest
import torch

from engine.errors import ModelError
from engine.protocol.options import SamplingOptions
from engine.speculation.interfaces import Fixed, TreeBounds
from engine.speculation.methods.lookup import Autoregression
from engine.speculation.methods.verification import Sampler, Uniforms, accept
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from engine.speculation.trees.tree import Path, Tree
from tests.engine.speculation.host_reads import Bigrams, forbid_free_reads
from tests.engine.speculation.pairs import Silent

TREE = Tree((9, 3, 4, 5), (-1, 0, 1, 2), (0.0, -0.1, -0.2, -0.3))
PATH = Path((0, 1, 2, 3), bonus=7)


class Stopping(Silent):
    """Text that ends with its second token."""

    def __init__(self) -> None:
        self.pushed = 0

    @property
    def stopped(self) -> bool:  # type: ignore[override]
        return self.pushed == 2

    def push(self, token: int) -> str:
        self.pushed += 1
        return ""


def test_a_cut_path_yields_the_first_of_its_tokens() -> None:
    whole = PATH.tokens(TREE)
    assert whole == (3, 4, 5, 7)
    for tokens in range(1, len(whole) + 1):
        assert PATH.cut(TREE, tokens).tokens(TREE) == whole[:tokens]
    assert PATH.cut(TREE, 4) is PATH
    assert PATH.cut(TREE, 2) == Path((0, 1), bonus=4), "the last token is no node that was kept"


@pytest.mark.parametrize(("end_tokens", "most", "taken"), [({4}, 9, 2), ({7}, 9, 4), ({3}, 9, 1), (set(), 4, 4)])
def test_an_answer_takes_tokens_up_to_its_end(end_tokens: set[int], most: int, taken: int) -> None:
    answer = Answer(Silent(), end_tokens, most)
    assert answer.extend((3, 4, 5, 7)) == taken
    assert answer.tokens == [3, 4, 5, 7][:taken]
    assert answer.room == 0


def test_an_answer_ends_where_its_text_does() -> None:
    answer = Answer(Stopping(), frozenset(), 9)
    assert answer.extend((3, 4, 5, 7)) == 2
    assert (answer.room, answer.reason) == (0, "stop")


def test_acceptance_leaves_the_answer_alone() -> None:
    logits = torch.zeros(4, 10)
    logits[torch.arange(4), torch.tensor([3, 4, 5, 7])] = 5.0
    said = [1, 2]
    path = accept(TREE, logits, Sampler(SamplingOptions(), [1], Uniforms(0)), said)
    assert path == PATH
    assert said == [1, 2]


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("sampling", [SamplingOptions(), SamplingOptions(1.0), SamplingOptions(1.0, top_k=2)])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_target_without_numbers_ends_the_answer_in_a_sentence(
    value: float, sampling: SamplingOptions, on_device: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on_device:
        forbid_free_reads(monkeypatch)
    table = torch.full((8, 8), -50.0)
    table[torch.arange(7), torch.arange(1, 8)] = 50.0  # counts up, and computes nothing behind 4
    table[4, 2] = value
    target, answer = Bigrams(table), Answer(Silent(), frozenset(), 9)
    parts = Speculation(target, Fixed(Autoregression(Sampler(sampling, [1], Uniforms(0))), 0), answer, Stopwatch())
    target.prefill([])
    each = rounds(parts, [1])
    assert [next(each).tokens for _ in range(3)] == [(2,), (3,), (4,)]
    with pytest.raises(ModelError, match="computes logits that are not finite numbers"):
        next(each)
    assert target.length == 3, "what no number stands for is not kept"


def test_what_lies_behind_the_end_of_an_answer_may_lack_numbers() -> None:
    table = torch.full((8, 8), -50.0)
    table[torch.arange(7), torch.arange(1, 8)] = 50.0
    table[4, 2] = torch.nan
    target, answer = Bigrams(table), Answer(Silent(), {4}, 9)
    method = Chained(Sampler(SamplingOptions(), [1], Uniforms(0)))
    target.prefill([])
    list(rounds(Speculation(target, Fixed(method, 9), answer, Stopwatch()), [1]))
    assert answer.tokens == [2, 3, 4]


class Chained(Autoregression):
    """Guesses that it counts up."""

    def grow(self, tokens: Sequence[int], bounds: TreeBounds) -> Tree:
        chain = range(tokens[-1], 8)[: bounds.depth]
        return Tree(tuple(chain), tuple(range(-1, len(chain) - 1)), (0.0,) * len(chain))

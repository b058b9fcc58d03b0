"""Two drafts as one: their mean, what is kept of both, and the target's own distribution whatever they say."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from engine.speculation.merged_draft import MergedDraft
from tests.engine.speculation.enumeration import ForkedRng, TableModel, probabilities
from tests.engine.speculation.sampled import METHODS, write_sampled
from tests.engine.speculation.test_sampled_distribution import PROMPT, SETTINGS, assert_same, truth


class Forgetful(TableModel):
    """Commits no more than the first node of what it is told to keep."""

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        del rest
        super().keep(nodes[:1])


class Certain(TableModel):
    """Knows fewer tokens."""

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        return super().score(tokens, parents, last)[:, :2]


@pytest.mark.parametrize(("name", "budget"), [("sequoia", 3), ("specinfer", 2), ("chain", 2)])
def test_every_outcome_has_exactly_the_target_s_probability(name: str, budget: int) -> None:
    target = TableModel(3, seed=1)
    draft = MergedDraft(TableModel(4, seed=2), Forgetful(3, seed=3), 3)
    sampling = SETTINGS[-1]

    def run(rng: ForkedRng) -> tuple[int, ...]:
        return tuple(write_sampled(METHODS[name], target, draft, PROMPT, 2, budget, 3, sampling, rng=rng).tokens)

    assert_same(probabilities(run), truth(target, sampling, 2), within=1e-9)


def test_the_mean_of_both_is_proposed_also_where_one_lacks_a_token() -> None:
    first, second = TableModel(3, seed=2), Certain(3, seed=3)
    draft = MergedDraft(first, second, 3)
    assert draft.prefill([1, 2]) == 0
    found = draft.score([0, 1], [-1, 0]).exp()
    for each in (first, second):
        each.prefill([1, 2])
    mean = first.score([0, 1], [-1, 0]).softmax(-1) / 2
    mean[:, :2] += second.score([0, 1], [-1, 0]).softmax(-1) / 2
    torch.testing.assert_close(found, mean)


def test_both_keep_what_the_second_does() -> None:
    first, second = TableModel(3, seed=2), Forgetful(3, seed=3)
    draft = MergedDraft(first, second, 3)
    draft.prefill([1, 2])
    draft.score([0, 1, 2], [-1, 0, 1])
    draft.keep([0, 1], [2])
    assert draft.length == first.length == second.length == 3

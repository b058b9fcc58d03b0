"""Drafting on while the target is awaited: the text stays the same, and the next tree is partly there already."""

from collections.abc import Sequence
from itertools import product

import pytest
import torch
from torch import Tensor

from engine.model.context import Context
from engine.model.network import Network
from engine.protocol.options import SamplingOptions, SpeculationOptions
from engine.speculation.interfaces import Fixed, RoundResult, TreeBounds
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from engine.speculation.trees.tree import Tree
from tests.campaigns.extent import choose
from tests.engine.speculation.pairs import GREEDY, Silent, noisy_copy, random_prompt, write
from tests.engine.tiny_models import tiny_network

NEW_TOKENS = choose(24, 48)
SAMPLED = SamplingOptions(temperature=0.9, top_p=0.95, seed=8)
OVERLAPPING = ("llama", "mistral_sliding", "gemma3", "gpt_oss")


class AwaitedTarget(Context):
    """A target whose layers come so slowly that there is time for some idle work in every pass."""

    def __init__(self, network: Network, drafter: SpecExec, steps: int) -> None:
        super().__init__(network, capacity=512)
        self._drafter = drafter
        self._steps = steps

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        for _ in range(self._steps):
            if not self._drafter.keep_drafting():
                break
        return super().score(tokens, parents, last)


class CountingDraft(Context):
    """A draft that counts the rows it computed while somebody waited for a tree."""

    grown_rows = 0
    is_waited_for = False

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        self.grown_rows += len(tokens) if self.is_waited_for else 0
        return super().score(tokens, parents, last)


class WaitedFor(SpecExec):
    """Marks the time in which a tree is waited for."""

    def __init__(self, draft: CountingDraft, sampling: Sampler) -> None:
        super().__init__(draft, sampling, SpeculationOptions(), vocabulary=131)
        self._counting = draft

    def grow(self, tokens: Sequence[int], bounds: TreeBounds) -> Tree:
        self._counting.is_waited_for = True
        tree = super().grow(tokens, bounds)
        self._counting.is_waited_for = False
        return tree


def overlapped(
    family: str, steps: int, budget: int, sampling: SamplingOptions
) -> tuple[list[RoundResult], list[int], int]:
    target, draft = tiny_network(family), CountingDraft(noisy_copy(family), capacity=512)
    prompt = random_prompt(19, seed=3)
    drafter = WaitedFor(draft, Sampler(sampling, prompt, Uniforms(sampling.seed)))
    context = AwaitedTarget(target, drafter, steps)
    context.prefill(prompt[:-1])
    drafter.prefill(prompt[:-1])
    answer = Answer(Silent(), frozenset(), NEW_TOKENS)
    results = list(rounds(Speculation(context, Fixed(drafter, budget), answer, Stopwatch()), prompt))
    return results, answer.tokens, draft.grown_rows


@pytest.mark.parametrize(
    ("family", "sampling"),
    choose([("gemma3", SAMPLED)], list(product(OVERLAPPING, (GREEDY, SAMPLED)))),
)
def test_the_text_is_the_same_and_less_is_left_to_draft(family: str, sampling: SamplingOptions) -> None:
    plain = write(tiny_network(family), None, random_prompt(19, seed=3), NEW_TOKENS, 0, sampling)
    alone, text_alone, rows_alone = overlapped(family, 0, 24, sampling)
    busy, text_busy, rows_busy = overlapped(family, 6, 24, sampling)
    assert text_busy == text_alone == plain.tokens
    assert rows_busy < rows_alone, "nothing of the next trees was there already"
    assert abs(len(busy) - len(alone)) <= 0.15 * len(alone), "trees that began early are of another quality"


def test_a_tree_that_began_early_is_the_tree_that_begins_late() -> None:
    """What is known below the bonus token is complete, so the search ends with the same K best prefixes."""
    alone, _, _ = overlapped("llama", 0, 24, GREEDY)
    busy, _, _ = overlapped("llama", 6, 24, GREEDY)
    assert len(alone) == len(busy)
    for late, early in zip(alone, busy, strict=True):
        late_scores, early_scores = (
            torch.tensor(sorted(result.tree.log_probs, reverse=True)) for result in (late, early)
        )
        torch.testing.assert_close(early_scores, late_scores, atol=1e-3, rtol=1e-3)


def test_rest_of_a_tree_stays_in_the_cache_and_can_be_grown() -> None:
    network = tiny_network("gemma3")
    context, reference = Context(network, 64), Context(network, 64)
    context.prefill(list(range(20, 39)))
    # 0 -> 1 -> 3 -> 5, 0 -> 2 -> 4; keep 0 and 2, and of what is below them node 4
    context.score([50, 51, 52, 53, 54, 55], [-1, 0, 0, 1, 2, 3])
    context.keep([0, 2], rest=[4])
    found = context.score([60, 61], [0, -1])
    reference.prefill([*range(20, 39), 50, 52])
    expected = reference.score([54, 60, 61], [-1, 0, -1])[1:]
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)

"""Branches of what the text said before: the same text in fewer passes, and the draft's cache stays right."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
import torch

from engine.model.context import Context
from engine.model.network import Network
from engine.protocol.options import SamplingOptions, SpeculationOptions
from engine.speculation.interfaces import Fixed, MarginalCost, RoundResult, TreeBounds
from engine.speculation.methods.lookup import Autoregression, Lookup
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from engine.speculation.trees.tree import Path
from tests.campaigns.extent import choose
from tests.engine.speculation.pairs import GREEDY, Silent, noisy_copy, random_prompt, write
from tests.engine.tiny_models import FAMILIES, tiny_network

NEW_TOKENS = 60
TEXT_TOKENS = choose(20, 60)
SAMPLED = SamplingOptions(temperature=0.7, top_p=0.9, seed=3)


class Attentive(Context):
    """A target in whose passes the draft guesses on, and sometimes does not."""

    method: Lookup | None = None

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> torch.Tensor:
        for _ in range(self.length % 3):
            if self.method:
                self.method.keep_drafting()
        return super().score(tokens, parents, last)


def answer_with(
    target: Network, draft: Context | None, prompt: list[int], budget: int, sampling: SamplingOptions
) -> tuple[list[int], list[RoundResult], list[Lookup]]:
    sampler = Sampler(sampling, prompt, Uniforms(sampling.seed))
    inner = SpecExec(draft, sampler, SpeculationOptions(), target.vocabulary) if draft else Autoregression(sampler)
    method = Lookup(inner, "both")
    context = Attentive(target, capacity=512)
    context.method = method
    context.prefill(prompt[:-1])
    method.prefill(prompt[:-1])
    answer = Answer(Silent(), frozenset(), TEXT_TOKENS)
    results = list(rounds(Speculation(context, Fixed(method, budget), answer, Stopwatch()), prompt))
    return answer.tokens, results, [method]


@pytest.mark.parametrize(
    ("family", "sampling"),
    choose([("llama", SAMPLED)], list(product(FAMILIES, (GREEDY, SAMPLED)))),
)
def test_the_text_is_the_target_s(family: str, sampling: SamplingOptions) -> None:
    target, prompt = tiny_network(family), random_prompt(6, seed=4) * 3
    expected = write(target, None, prompt, TEXT_TOKENS, 0, sampling).tokens
    assert answer_with(target, None, prompt, 16, sampling)[0] == expected
    for budget in choose((24,), (2, 24)):
        draft = Context(noisy_copy(family, noise=0.6), capacity=512)
        assert answer_with(target, draft, prompt, budget, sampling)[0] == expected


class Counting:
    """A target that counts to nine, over and over: each row of logits says the digit after its token."""

    def __init__(self) -> None:
        self.length = 0

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> torch.Tensor:
        return torch.nn.functional.one_hot((torch.tensor(list(tokens)) + 1) % 10, 131).float()

    def prefill(self, tokens: Sequence[int]) -> int:
        return 0

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        self.length += len(nodes)


@pytest.mark.parametrize("with_draft", [False, True])
def test_a_text_that_repeats_itself_takes_few_passes(with_draft: bool) -> None:
    """The draft knows nothing of it, and is no hindrance."""
    sampler = Sampler(GREEDY, [0], Uniforms(0))
    stranger = Context(tiny_network("llama"), 512)
    drafter = SpecExec(stranger, sampler, SpeculationOptions(), 131) if with_draft else Autoregression(sampler)
    passes = {}
    for method in (drafter, Lookup(drafter, "both")):
        method.prefill([])
        answer = Answer(Silent(), frozenset(), NEW_TOKENS)
        results = list(rounds(Speculation(Counting(), Fixed(method, 16), answer, Stopwatch()), [0]))
        assert answer.tokens == [number % 10 for number in range(1, NEW_TOKENS + 1)]
        passes[method.name] = len(results)
    assert passes["both"] <= 20
    assert passes[drafter.name] > 50


def test_a_path_through_nodes_that_the_draft_never_read_is_caught_up_with() -> None:
    """Whatever was accepted, the next tree is that of a draft which has read the whole text anew."""
    network = noisy_copy("gemma3")
    prompt = [*random_prompt(12, seed=1) * 2]
    sampler = Sampler(GREEDY, prompt, Uniforms(0))

    def method_over(context: Context) -> SpecExec:
        return SpecExec(context, sampler, SpeculationOptions(), network.vocabulary)

    context = Context(network, 512)
    inner = method_over(context)
    method = Lookup(inner, "both")
    method.prefill(prompt[:-1])
    text, foreign = list(prompt), 0
    for number in range(8):
        tree = method.grow(text, TreeBounds(12, 6))
        fresh = method_over(Context(network, 512))
        fresh.prefill(text[:-1])
        reference = fresh.grow(text, TreeBounds(12, 6))
        own = inner.grow(text, TreeBounds(12, 6))
        torch.testing.assert_close(sorted(own.log_probs), sorted(reference.log_probs), atol=1e-4, rtol=1e-4)
        for _ in range(number % 3):
            method.keep_drafting()
        deepest = max(range(len(tree)), key=lambda node: (node_is_foreign(method, node), tree.depths[node]))
        path = path_to(tree.parents, deepest)
        foreign += node_is_foreign(method, deepest)
        kept = Path(tuple(path), bonus=prompt[len(text) % len(prompt)])
        method.keep(kept)
        text += kept.tokens(tree)
    assert foreign >= 3, "hardly a path left the draft's own tree"


def node_is_foreign(method: Lookup, node: int) -> bool:
    """Whether only the text suggested it."""
    assert method._merged
    return method._merged.origins[node] is None


def path_to(parents: Sequence[int], node: int) -> list[int]:
    path = [node]
    while path[-1]:
        path.append(parents[path[-1]])
    return path[::-1]


@pytest.mark.parametrize("is_drafted", [False, True])
def test_what_is_known_but_not_worth_its_price_is_told(is_drafted: bool) -> None:
    target, prompt = tiny_network("llama"), random_prompt(6, seed=4) * 3
    sampler = Sampler(GREEDY, prompt, Uniforms(0))
    dear = MarginalCost(0.0, 0.0, 1.0, np.arange(0.0, 18.0, 2.0))  # a row for two tokens, which none can give
    trees = []
    for price in (dear, None):
        draft = SpecExec(Context(noisy_copy("llama"), 512), sampler, SpeculationOptions(), target.vocabulary)
        method = Lookup(draft if is_drafted else Autoregression(sampler), "both")
        method.prefill(prompt[:-1])
        trees.append(method.grow(prompt, TreeBounds(8, 8, price)))
    empty, full = trees
    assert (empty.drafted, full.left_out) == (0, ())
    assert len(empty.left_out) >= 3
    assert list(empty.left_out) == sorted(empty.left_out, reverse=True)
    assert {depth for _, depth in empty.left_out} >= {1, 2, 3, 4}

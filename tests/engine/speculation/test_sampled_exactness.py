"""What the methods that sample their trees promise besides a distribution: greedy text, repeatable text, and ends."""

from collections.abc import Sequence
from functools import partial

import pytest
import torch

from engine.model.context import Context
from engine.protocol.options import SamplingOptions
from engine.speculation.methods.rng import Rng
from engine.speculation.methods.specinfer import SpecInfer, best_sequences
from engine.speculation.trees.tree_program import PRIOR, AcceptanceVector
from tests.campaigns.extent import choose
from tests.engine.speculation.pairs import GREEDY, Outcome, noisy_copy, random_prompt
from tests.engine.speculation.sampled import METHODS, write_sampled
from tests.engine.tiny_models import FAMILIES, VOCABULARY, tiny_network

NEW_TOKENS = choose(18, 40)
PROMPT_TOKENS = 19  # longer than the sliding window, so that it cuts through prompt and tree
REPRESENTATIVES = {"sequoia": ("gpt_oss",), "chain": ("mixtral",)}
"""Families that differ most in what a tree meets: sliding windows, sinks, experts."""
PAIRS = [
    (name, family) for name in METHODS for family in choose(REPRESENTATIVES.get(name, ("llama",)), tuple(FAMILIES))
]


def answer(
    name: str,
    family: str = "llama",
    budget: int = 16,
    sampling: SamplingOptions = GREEDY,
    new_tokens: int = NEW_TOKENS,
    end_tokens: frozenset[int] = frozenset(),
    is_its_own_draft: bool = False,
) -> Outcome:
    target = Context(tiny_network(family), 512)
    draft = Context(tiny_network(family) if is_its_own_draft else noisy_copy(family), 512)
    prompt = random_prompt(PROMPT_TOKENS, 3)
    return write_sampled(
        METHODS[name], target, draft, prompt, new_tokens, budget, VOCABULARY, sampling, end_tokens=end_tokens
    )


@pytest.mark.parametrize(("name", "family"), PAIRS)
def test_greedy_text_is_what_transformers_generates(name: str, family: str) -> None:
    for seed in choose((0,), (0, 1)):
        network = tiny_network(family, seed)
        target, draft = Context(network, 512), Context(noisy_copy(family, seed), 512)
        prompt = random_prompt(PROMPT_TOKENS, seed)
        expected = network.model.generate(
            torch.tensor([prompt]), max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0
        )[0, PROMPT_TOKENS:].tolist()
        for budget in choose((24,), (1, 8, 64)):
            written = write_sampled(METHODS[name], target, draft, prompt, NEW_TOKENS, budget, VOCABULARY, GREEDY)
            assert written.tokens == expected, f"{family}, seed {seed}, budget {budget}"
            assert all(result.tree.drafted <= budget for result in written.rounds)
        assert len(written.rounds) < NEW_TOKENS, "nothing was ever accepted, so nothing was tested"


@pytest.mark.parametrize("name", choose(["sequoia", "specinfer 2,2,1"], list(METHODS)))
def test_the_same_seed_gives_the_same_text_and_another_seed_another(name: str) -> None:
    sampling = SamplingOptions(temperature=0.8, top_p=0.9, repetition_penalty=1.2, seed=5)
    first, again = (answer(name, sampling=sampling) for _ in range(2))
    assert first.tokens == again.tokens
    assert [result.tree for result in first.rounds] == [result.tree for result in again.rounds]
    assert len(first.rounds) < NEW_TOKENS
    assert answer(name, sampling=SamplingOptions(temperature=0.8, top_p=0.9, seed=6)).tokens != first.tokens


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_end_token_in_the_middle_of_a_tree_ends_the_answer(name: str, temperature: float) -> None:
    sampling = SamplingOptions(temperature=temperature)
    full = answer(name, sampling=sampling, is_its_own_draft=True).tokens
    end = next(token for place, token in enumerate(full) if place > 4 and token not in full[:place])
    ended = answer(name, sampling=sampling, is_its_own_draft=True, end_tokens=frozenset({end}))
    assert ended.tokens == full[: full.index(end) + 1]
    assert ended.rounds[-1].path.bonus == end


@pytest.mark.parametrize("name", METHODS)
def test_a_length_limit_is_kept_to_the_token(name: str) -> None:
    full = answer(name, is_its_own_draft=True).tokens
    for limit in choose((1, 12), (1, 2, 3, 17)):
        outcome = answer(name, new_tokens=limit, is_its_own_draft=True)
        assert outcome.tokens == full[:limit]
        assert all(max(result.tree.depths) < limit for result in outcome.rounds), "nodes that could never be used"


@pytest.mark.parametrize("name", METHODS)
def test_a_draft_that_is_the_target_is_believed_to_the_end(name: str) -> None:
    """All that is drafted along the first path is accepted, when sampling, too."""
    outcome = answer(name, budget=8, sampling=SamplingOptions(temperature=1.0, seed=2), is_its_own_draft=True)
    whole = [result for result in outcome.rounds if len(result.path.nodes) - 1 == max(result.tree.depths)]
    assert len(whole) >= (len(outcome.rounds) if name == "chain" else 1)


@pytest.mark.parametrize("name", METHODS)
def test_what_the_filters_rule_out_is_not_drafted(name: str) -> None:
    sampling = SamplingOptions(temperature=1.0, top_k=2, seed=1)
    for result in answer(name, budget=32, sampling=sampling).rounds:
        assert max(result.tree.parents.count(node) for node in range(len(result.tree))) <= 2
        assert all(log_prob > -torch.inf for log_prob in result.tree.log_probs)


class CountingRng(Rng):
    """Remembers how many tokens were drawn at a time, for all nodes of a level together."""

    def __init__(self) -> None:
        super().__init__(1, torch.device("cpu"))
        self.drawn: list[int] = []

    def independent(self, distributions: torch.Tensor, counts: Sequence[int]) -> torch.Tensor:
        self.drawn.append(sum(counts))
        return super().independent(distributions, counts)


def test_specinfer_s_sequences_all_go_on_to_the_end() -> None:
    target, draft, rng = Context(tiny_network("llama"), 512), Context(noisy_copy("llama"), 512), CountingRng()
    make, prompt, sampling = SpecInfer, random_prompt(PROMPT_TOKENS, 3), SamplingOptions(0.7)
    written = write_sampled(make, target, draft, prompt, 7, 30, VOCABULARY, sampling, rng)
    assert rng.drawn[:6] == [5] * 6
    assert max(written.rounds[0].tree.depths) == 6
    assert written.rounds[0].tree.drafted < 30, "sequences never met, so that nothing was shared"


@pytest.mark.parametrize(
    ("acceptance", "budget", "levels", "sequences"),
    [(PRIOR, 64, 32, 8), (PRIOR, 4, 32, 1), (PRIOR, 64, 8, 8), ((1.0,), 64, 32, 1), ((0.1,) * 10, 60, 32, 10)],
)
def test_specinfer_draws_as_many_sequences_as_promise_most(
    acceptance: AcceptanceVector, budget: int, levels: int, sequences: int
) -> None:
    assert best_sequences(acceptance, budget, levels) == sequences


def test_specinfer_s_trees_are_wide_where_the_draft_is_seldom_right() -> None:
    target, draft, rng = Context(tiny_network("llama"), 512), Context(noisy_copy("llama"), 512), CountingRng()
    make = partial(SpecInfer, acceptance=PRIOR)
    prompt, sampling = random_prompt(PROMPT_TOKENS, 3), SamplingOptions(0.7)
    written = write_sampled(make, target, draft, prompt, 20, 64, VOCABULARY, sampling, rng)
    assert rng.drawn[:8] == [8] * 8
    assert max(written.rounds[0].tree.depths) == 8


def test_the_draft_reads_a_level_at_a_time_and_its_cache_is_kept() -> None:
    network = noisy_copy("llama")
    passes: list[int] = []
    network.layers[0].register_forward_pre_hook(lambda _layer, inputs: passes.append(inputs[0].shape[1]))
    prompt = random_prompt(PROMPT_TOKENS, 3)
    contexts = Context(tiny_network("llama"), 512), Context(network, 512)
    written = write_sampled(METHODS["sequoia"], *contexts, prompt, NEW_TOKENS, 32, VOCABULARY, GREEDY)
    prefill, *growth = passes
    assert prefill == PROMPT_TOKENS - 1
    assert len(growth) == sum(max(result.tree.depths) for result in written.rounds)
    assert sum(rows <= 2 for rows in growth) >= len(written.rounds), "the draft read the text again"

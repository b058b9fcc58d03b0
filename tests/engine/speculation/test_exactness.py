"""The promise of the product: a tree changes the speed of an answer and never its text."""

from dataclasses import replace
from functools import partial
from itertools import product

import pytest
import torch

from engine.protocol.options import SamplingOptions, SpeculationOptions
from tests.campaigns.extent import choose, for_the_proofs
from tests.engine.speculation.pairs import noisy_copy, random_prompt, write
from tests.engine.tiny_models import SOME, tiny_network

NEW_TOKENS = choose(14, 40)
PROMPT_TOKENS = 19  # longer than the sliding window, so that it cuts through prompt and tree
SAMPLINGS = [
    SamplingOptions(temperature=0.6, top_p=0.9, seed=1),
    SamplingOptions(temperature=1.0, seed=2),
    SamplingOptions(temperature=1.5, top_k=20, min_p=0.02, seed=3, frequency_penalty=0.6, bias=((5, 2.0), (9, -9.0))),
    SamplingOptions(temperature=0.8, repetition_penalty=1.3, presence_penalty=0.5, seed=4),
    SamplingOptions(temperature=0.0, repetition_penalty=1.3, presence_penalty=0.5, seed=5),
]
REPEATING = random_prompt(PROMPT_TOKENS, seed=7) * 3  # so that what the model says may go on with a repetition
AGAINST_REPETITION = [
    SamplingOptions(temperature=0.0, dry_multiplier=4.0, dry_allowed_length=0),
    SamplingOptions(temperature=1.0, dry_multiplier=2.0, dry_allowed_length=1, dry_penalty_last_n=30),
    SamplingOptions(temperature=0.9, xtc_probability=0.5, xtc_threshold=0.03),
    SamplingOptions(temperature=1.2, top_k=30, dry_multiplier=1.0, dry_allowed_length=1, xtc_probability=0.6,
                    xtc_threshold=0.02, repetition_penalty=0.9),
]  # fmt: skip


@pytest.mark.parametrize("family", SOME)
def test_greedy_text_is_what_transformers_generates(family: str) -> None:
    for seed in choose((0,), (0, 1, 2)):
        target, draft = tiny_network(family, seed), noisy_copy(family, seed)
        prompt = random_prompt(PROMPT_TOKENS, seed)
        reference = target.model.generate(
            torch.tensor([prompt]),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            output_scores=True,
            return_dict_in_generate=True,
        )
        expected = reference.sequences[0, PROMPT_TOKENS:].tolist()
        top = torch.cat(reference.scores).topk(2).values
        # Rounding moves these logits by up to 3e-5; a text decided by less would prove nothing.
        assert float((top[:, 0] - top[:, 1]).min()) > 3e-4
        assert write(target, None, prompt, NEW_TOKENS, budget=0).tokens == expected
        for budget in choose((256,), (1, 8, 64, 256)):
            outcome = write(target, draft, prompt, NEW_TOKENS, budget)
            assert outcome.tokens == expected, f"{family}, seed {seed}, budget {budget}"
            if budget == 256:
                assert len(outcome.rounds) < NEW_TOKENS, "nothing was ever accepted, so nothing was tested"


@pytest.mark.parametrize(
    ("family", "sampling"),
    choose(
        list(zip(("llama", "gemma3", "mixtral"), SAMPLINGS, strict=False)),
        list(product(("llama", "gemma3", "mixtral", "qwen3_5"), SAMPLINGS)),
    ),
)
def test_the_same_seed_gives_the_same_text_with_and_without_a_tree(family: str, sampling: SamplingOptions) -> None:
    target, draft = tiny_network(family), noisy_copy(family)
    prompt = random_prompt(PROMPT_TOKENS, seed=7)
    plain = write(target, None, prompt, NEW_TOKENS, budget=0, sampling=sampling)
    speculative = write(target, draft, prompt, NEW_TOKENS, budget=64, sampling=sampling)
    assert speculative.tokens == plain.tokens
    assert len(speculative.rounds) < len(plain.rounds)


@pytest.mark.parametrize("sampling", AGAINST_REPETITION)
def test_dry_and_xtc_change_the_text_and_a_tree_does_not(sampling: SamplingOptions) -> None:
    target, draft = tiny_network("llama"), noisy_copy("llama")
    run = partial(write, target, prompt=REPEATING, max_new_tokens=NEW_TOKENS)
    for seed in range(choose(2, 8)):
        seeded = replace(sampling, seed=seed)
        plain = run(None, budget=0, sampling=seeded)
        speculative = run(draft, budget=64, sampling=seeded)
        assert speculative.tokens == plain.tokens
        assert len(speculative.rounds) < len(plain.rounds)
        without = replace(seeded, dry_multiplier=0.0, xtc_probability=0.0)
        assert run(None, budget=0, sampling=without).tokens != plain.tokens, "it did nothing, so nothing was tested"


def test_another_seed_gives_another_text() -> None:
    target, prompt = tiny_network("llama"), random_prompt(PROMPT_TOKENS, seed=7)
    texts = [write(target, None, prompt, 20, 0, SamplingOptions(temperature=1.0, seed=seed)).tokens for seed in (0, 1)]
    assert texts[0] != texts[1]


@for_the_proofs
def test_narrow_batches_and_widths_change_trees_but_not_text() -> None:
    target, draft, prompt = tiny_network("qwen3"), noisy_copy("qwen3"), random_prompt(PROMPT_TOKENS, seed=3)
    expected = write(target, None, prompt, NEW_TOKENS, budget=0).tokens
    for speculation in (SpeculationOptions(batch=1), SpeculationOptions(width=1), SpeculationOptions(depth=2, batch=5)):
        assert write(target, draft, prompt, NEW_TOKENS, 16, speculation=speculation).tokens == expected


def test_an_end_token_in_the_middle_of_a_tree_ends_the_answer() -> None:
    target, prompt = tiny_network("llama"), random_prompt(PROMPT_TOKENS, seed=3)
    full = write(target, None, prompt, NEW_TOKENS, budget=0).tokens
    end = next(token for place, token in enumerate(full) if place > 5 and token not in full[:place])
    expected = full[: full.index(end) + 1]
    # The target drafts for itself: the end token lies deep inside an accepted path.
    outcome = write(target, target, prompt, NEW_TOKENS, budget=64, end_tokens=frozenset({end}))
    assert outcome.tokens == expected
    assert len(outcome.rounds) < len(expected)
    assert outcome.rounds[-1].path.bonus == end


def test_a_length_limit_is_kept_to_the_token() -> None:
    target, prompt = tiny_network("llama"), random_prompt(PROMPT_TOKENS, seed=3)
    full = write(target, None, prompt, NEW_TOKENS, budget=0).tokens
    for limit in choose((1, 12), (1, 2, 3, 17)):
        outcome = write(target, target, prompt, limit, budget=64)
        assert outcome.tokens == full[:limit]
        assert all(max(result.tree.depths) < limit for result in outcome.rounds), "nodes that could never be used"


def test_bfloat16_text_is_the_target_s_choice_within_rounding() -> None:
    """In bfloat16 results depend on the number of rows in a product, so near ties may fall either way: every emitted
    token must be within twice the measured difference of the reference's best (teacher forcing)."""
    target = tiny_network("llama", dtype=torch.bfloat16)
    prompt = random_prompt(PROMPT_TOKENS, seed=3)
    tokens = write(target, noisy_copy("llama", dtype=torch.bfloat16), prompt, NEW_TOKENS, budget=64).tokens
    whole = torch.tensor([prompt + tokens])
    reference = target.model(whole).logits[0].float()
    one_by_one = torch.cat([target.model(whole[:, : end + 1]).logits[0, -1:].float() for end in range(whole.shape[1])])
    difference = float((reference - one_by_one).abs().max())
    predictions = reference[PROMPT_TOKENS - 1 : -1]
    shortfall = predictions.amax(-1) - predictions[torch.arange(NEW_TOKENS), torch.tensor(tokens)]
    assert float(shortfall.max()) <= 2 * difference
    assert difference < 0.1 * float(reference.abs().max()), "a bound this loose would accept anything"

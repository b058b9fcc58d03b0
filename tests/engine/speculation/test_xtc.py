"""XTC against a direct computation: what it leaves out, how often, and that it is a matter of seed and position."""

import math

import pytest
import torch

from engine.protocol.options import SamplingOptions
from engine.speculation.methods.verification import Exclusions, Sampler, Uniforms, distribution


def plainly(logits: list[float], options: SamplingOptions) -> list[float]:
    """Without filters: of the tokens that reach the threshold at temperature 1 only the least likely stays."""
    total = math.fsum(map(math.exp, logits))
    probable = {token: math.exp(logit) / total for token, logit in enumerate(logits)}
    top = sorted((token for token in probable if probable[token] >= options.xtc_threshold), key=lambda at: probable[at])
    left = [math.exp(logit / options.temperature) * (token not in top[1:]) for token, logit in enumerate(logits)]
    return [weight / math.fsum(left) for weight in left]


@pytest.mark.parametrize("threshold", [0.0, 0.02, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_the_likeliest_but_the_last_that_reaches_the_threshold_are_left_out(
    threshold: float, temperature: float
) -> None:
    options = SamplingOptions(temperature=temperature, xtc_probability=1.0, xtc_threshold=threshold)
    rows = 2 * torch.randn(20, 12, generator=torch.Generator().manual_seed(4))
    found = distribution(rows, options, excludes=True)
    for row, logits in zip(found, rows.tolist(), strict=True):
        assert row.tolist() == pytest.approx(plainly(logits, options), abs=1e-6)
    assert distribution(rows, options).equal(distribution(rows, SamplingOptions(temperature=temperature)))


def test_it_counts_what_the_filters_have_left() -> None:
    probabilities = torch.tensor([0.4, 0.3, 0.2, 0.1])
    options = SamplingOptions(temperature=1.0, top_k=3, xtc_probability=1.0, xtc_threshold=0.25)
    # Of the three that are left these have 0.44, 0.33 and 0.22: the second is the least likely that reaches 0.25.
    expected = torch.tensor([0.0, 0.6, 0.4, 0.0])
    torch.testing.assert_close(distribution(probabilities.log(), options, excludes=True), expected)
    forbidden = torch.tensor([0.4, 0.3, 0.0, 0.0]).log()
    alone = SamplingOptions(temperature=1.0, xtc_probability=1.0, xtc_threshold=0.0)
    assert distribution(forbidden, alone, excludes=True).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_equally_likely_ones_stay_together() -> None:
    options = SamplingOptions(temperature=1.0, xtc_probability=1.0, xtc_threshold=0.2)
    found = distribution(torch.tensor([0.4, 0.25, 0.25, 0.1]).log(), options, excludes=True)
    torch.testing.assert_close(found, torch.tensor([0.0, 25 / 60, 25 / 60, 10 / 60]))


def test_how_often_is_a_matter_of_seed_and_position() -> None:
    options = SamplingOptions(temperature=1.0, xtc_probability=0.3, seed=5)
    acts = [Exclusions(options)[position] for position in range(4000)]
    assert sum(acts) / 4000 == pytest.approx(0.3, abs=4 * math.sqrt(0.3 * 0.7 / 4000))
    assert Exclusions(options)[3999] == acts[3999]
    assert [Exclusions(SamplingOptions(1.0, xtc_probability=0.3, seed=6))[place] for place in range(64)] != acts[:64]
    uniforms = Uniforms(5)
    both = sum(acts[place] and uniforms[place] < 0.5 for place in range(4000)) / 4000
    assert both == pytest.approx(0.15, abs=0.025), "the number that draws the token must tell nothing of it"


def test_the_drawn_tokens_have_the_distribution() -> None:
    options, logits = SamplingOptions(temperature=0.8, xtc_probability=0.5, xtc_threshold=0.15), [2.0, 1.6, 1.0, 0.0]
    counts, samples = [0, 0, 0, 0], 4000
    sampler = Sampler(options, [1], Uniforms(options.seed))
    for position in range(samples):
        counts[sampler.draw(torch.tensor(logits), [0] * position)] += 1
    plain = distribution(torch.tensor(logits), options).tolist()
    expected = [(one + other) / 2 for one, other in zip(plain, plainly(logits, options), strict=True)]
    for count, probability in zip(counts, expected, strict=True):
        spread = math.sqrt(probability * (1 - probability) / samples)
        assert count / samples == pytest.approx(probability, abs=4 * spread)


def test_a_greedy_answer_has_none() -> None:
    options = SamplingOptions(xtc_probability=1.0, xtc_threshold=0.0)
    assert not any(Exclusions(options)[place] for place in range(50))
    assert Sampler(options, [1], Uniforms(0)).draw(torch.tensor([0.0, 2.0, 1.0]), []) == 1

"""The sampler against transformers' own processors, and its inverse cumulative distribution against the definition."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LogitsProcessorList
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.protocol.options import SamplingOptions
from engine.speculation.methods.verification import (
    Sampler,
    Uniforms,
    distribution,
    inverse_cdf,
)
from tests.engine.speculation.pairs import penalised


@pytest.mark.parametrize("seed", range(5))
def test_the_distribution_is_transformers_own(seed: int) -> None:
    logits = torch.randn(1, 200, generator=torch.Generator().manual_seed(seed)) * 3
    options = SamplingOptions(temperature=0.7, top_k=40, top_p=0.9, min_p=0.02, repetition_penalty=1.4)
    seen = [3, 7, 7, 150]
    reference = LogitsProcessorList(
        [
            RepetitionPenaltyLogitsProcessor(1.4),
            TemperatureLogitsWarper(0.7),
            TopKLogitsWarper(40),
            TopPLogitsWarper(0.9),
            MinPLogitsWarper(0.02),
        ]
    )
    expected = reference(torch.tensor([seen]), logits.clone()).softmax(-1)[0]
    found = distribution(penalised(logits[0], options, seen[:2], seen[2:]), options)
    torch.testing.assert_close(found, expected)
    assert 0 < int((found > 0).sum()) < 40


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    probabilities = torch.tensor([0.1, 0.5, 0.05, 0.3, 0.05])
    for top_p, kept in (
        (1e-300, {1}),
        (0.01, {1}),
        (0.5, {1}),
        (0.51, {1, 3}),
        (0.85, {0, 1, 3}),
        (1.0, {0, 1, 2, 3, 4}),
    ):
        found = distribution(probabilities.log(), SamplingOptions(temperature=1.0, top_p=top_p))
        assert set(found.nonzero()[:, 0].tolist()) == kept


def test_presence_penalty_counts_the_answer_only_and_once() -> None:
    options = SamplingOptions(presence_penalty=0.5)
    assert penalised(torch.zeros(4), options, [0], [1, 1, 2]).tolist() == [0.0, -0.5, -0.5, 0.0]


@pytest.mark.parametrize("seed", range(3))
def test_bias_and_penalties_are_those_of_the_formulas(seed: int) -> None:
    """OpenAI's, behind a bias and the repetition penalty, token by token."""
    options = SamplingOptions(
        frequency_penalty=0.7, presence_penalty=0.4, repetition_penalty=1.3, bias=((2, -100.0), (5, 3.5), (9, 1.0))
    )
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(12, generator=generator) * 3
    prompt, said = [1, 5, 5], torch.randint(0, 12, (9,), generator=generator).tolist()
    expected = []
    for token, logit in enumerate(logits.tolist()):
        value = logit + dict(options.bias).get(token, 0.0)
        if token in [*prompt, *said]:
            value = value * 1.3 if value < 0 else value / 1.3
        value -= 0.4 * (token in said) + 0.7 * said.count(token)
        expected.append(value)
    ahead = Sampler(options, prompt, Uniforms(0)).ahead(said[:5], 5, torch.device("cpu"))
    found = ahead.penalised(logits, [torch.tensor([token]) for token in said[5:]])
    torch.testing.assert_close(found, torch.tensor(expected))
    torch.testing.assert_close(penalised(logits, options, prompt, said), found)
    assert int(ahead.draw(logits, [torch.tensor([token]) for token in said[5:]])) == int(found.argmax())


@given(
    weights=st.lists(st.floats(0, 1, width=32), min_size=1, max_size=40).filter(lambda values: sum(values) > 1e-3),
    uniform=st.floats(0, 1, exclude_max=True),
)
def test_inverse_cdf_is_the_first_token_whose_cumulative_mass_exceeds_the_number(
    weights: list[float], uniform: float
) -> None:
    probabilities = torch.tensor(weights) / sum(weights)
    token = inverse_cdf(probabilities, uniform)
    assert probabilities[token] > 0
    cumulative = probabilities.double().cumsum(0)
    point = cumulative[-1] * uniform
    assert token == 0 or cumulative[token - 1] <= point + 1e-12
    assert cumulative[token] >= point - 1e-12


def test_uniforms_depend_on_seed_and_position_alone() -> None:
    forwards, backwards = Uniforms(3), Uniforms(3)
    last_first = backwards[700]
    assert [forwards[place] for place in range(701)][-1] == last_first
    assert forwards[5] == backwards[5] != Uniforms(4)[5]


def test_greedy_asks_for_no_number() -> None:
    class Forbidden:
        def __getitem__(self, position: int) -> float:
            raise AssertionError("greedy decoding must not draw")

    assert Sampler(SamplingOptions(), [1], Forbidden()).draw(torch.tensor([0.0, 2.0, 1.0]), []) == 1


@pytest.mark.parametrize("temperature", [1e-6, 1e-37, 1e-38, 1e-45, 1e-320])
def test_the_lowest_temperatures_are_greedy_and_never_no_number(temperature: float) -> None:
    logits = torch.tensor([3.0, 90.0, -torch.inf, 89.0])
    assert distribution(logits, SamplingOptions(temperature=temperature)).tolist() == [0.0, 1.0, 0.0, 0.0]
    filtered = SamplingOptions(temperature=temperature, top_p=0.9, min_p=0.1, top_k=2)
    assert distribution(logits, filtered).tolist() == [0.0, 1.0, 0.0, 0.0]

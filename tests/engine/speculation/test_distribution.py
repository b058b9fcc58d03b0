"""Sampling through trees has exactly the target's distribution: every outcome of a tiny vocabulary is enumerated."""

from itertools import product
from typing import Any

import pytest
import torch

from engine.model.network import Network
from engine.protocol.options import SamplingOptions
from engine.speculation.methods.verification import distribution
from tests.campaigns.extent import choose
from tests.engine.speculation.pairs import noisy_copy, random_prompt, write
from tests.engine.tiny_models import tiny_network

VOCABULARY, LENGTH = choose(4, 5), 3
SMALL: dict[str, Any] = {"vocab_size": VOCABULARY, "num_hidden_layers": 2}
INSIDE = 1e-2  # of an interval's width: how far inside its ends the uniform numbers are put


def gently(network: Network) -> Network:
    """Flatten the output, so that no outcome's box is so thin that rounding of the logits reaches across it."""
    network.model.lm_head.weight.mul_(0.2)
    return network


def intervals(target_logits: torch.Tensor, sampling: SamplingOptions, token: int) -> tuple[float, float]:
    probabilities = distribution(target_logits, sampling).double()
    end = float(probabilities[: token + 1].sum())
    return end - float(probabilities[token]), end


SETTINGS = [
    SamplingOptions(temperature=0.6),
    SamplingOptions(temperature=1.0),
    SamplingOptions(temperature=1.0, top_p=0.8),
    SamplingOptions(temperature=2.0, top_k=3),
]


@pytest.mark.parametrize("sampling", choose(SETTINGS[2:3], SETTINGS))
@pytest.mark.parametrize("budget", choose([4], [1, 4, 32]))
def test_every_outcome_has_the_target_s_probability(sampling: SamplingOptions, budget: int) -> None:
    """The answer is a function of one uniform number per position, so an outcome's probability is the volume of the
    box of numbers that lead to it. Under the target alone that box has the intervals of the cumulative distribution
    as sides. The boxes fill the unit cube; that the corners of each lead through the tree to its own outcome shows
    that the volumes, and so the probabilities, are the same.
    """
    target, draft = gently(tiny_network("llama", 1, **SMALL)), gently(noisy_copy("llama", 1, noise=1.0, **SMALL))
    prompt = random_prompt(4, seed=1, vocabulary=VOCABULARY)
    volume = 0.0
    for outcome in product(range(VOCABULARY), repeat=LENGTH):
        logits = target.model(torch.tensor([[*prompt, *outcome]])).logits[0, len(prompt) - 1 : -1].float()
        sides = [intervals(row, sampling, token) for row, token in zip(logits, outcome, strict=True)]
        size = torch.tensor([high - low for low, high in sides]).prod().item()
        if size == 0.0:
            continue  # top-p or top-k rules it out: there is no number that leads here
        volume += size
        for inner in (INSIDE, 1 - INSIDE):
            uniforms = [low + inner * (high - low) for low, high in sides]
            written = write(target, draft, prompt, LENGTH, budget, sampling, uniforms=uniforms)
            assert tuple(written.tokens) == outcome
    assert volume == pytest.approx(1.0, abs=1e-5), "the boxes must fill the cube"

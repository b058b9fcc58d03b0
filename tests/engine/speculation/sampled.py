"""The methods that sample their trees, over models of any kind, and answers written by them in real rounds."""

from collections.abc import Callable, Sequence
from functools import partial

import torch

from engine.protocol.options import SamplingOptions
from engine.speculation.answer import Answer
from engine.speculation.method import Method, Scorer
from engine.speculation.methods.chain import Chain
from engine.speculation.methods.chance import Chance
from engine.speculation.methods.drafting import Drafting
from engine.speculation.methods.sampling import Sampler, Uniforms
from engine.speculation.methods.sequoia import Sequoia
from engine.speculation.methods.specinfer import SpecInfer
from engine.speculation.rounds import Speculation, rounds
from engine.speculation.strategy import Fixed
from engine.stats import Stopwatch
from tests.engine.speculation.pairs import Outcome, Silent

Make = Callable[[Drafting], Method]

METHODS: dict[str, Make] = {
    "sequoia": partial(Sequoia, most_levels=32),
    "specinfer": partial(SpecInfer, most_levels=32),
    "specinfer 2,2,1": partial(SpecInfer, most_levels=32, expansions=(2, 2, 1)),
    "chain": partial(Chain, most_levels=32),
}


def write_sampled(
    make: Make,
    target: Scorer,
    draft: Scorer,
    prompt: Sequence[int],
    max_new_tokens: int,
    budget: int,
    vocabulary: int,
    sampling: SamplingOptions,
    chance: Chance | None = None,
    end_tokens: frozenset[int] = frozenset(),
) -> Outcome:
    """Answer a prompt by a method; `chance` None is that of the sampling's seed."""
    chance = chance or Chance(sampling.seed, torch.device("cpu"))
    sampler = Sampler(sampling, prompt, Uniforms(sampling.seed))
    method = make(Drafting(draft, sampler, sampling, prompt, vocabulary, chance))
    target.prefill(prompt[:-1])
    method.prefill(prompt[:-1])
    answer = Answer(Silent(), end_tokens, max_new_tokens)
    results = list(rounds(Speculation(target, Fixed(method, budget), answer, Stopwatch()), prompt))
    return Outcome(answer.tokens, results)

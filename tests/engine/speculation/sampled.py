"""The methods that sample their trees, over models of any kind, and answers written by them in real rounds."""

from collections.abc import Callable, Sequence
from functools import partial

import torch

from engine.protocol.options import SamplingOptions
from engine.speculation.interfaces import Fixed, Method, Scorer
from engine.speculation.methods.rng import Rng
from engine.speculation.methods.sampled_trees import Drafting
from engine.speculation.methods.sequoia import Sequoia
from engine.speculation.methods.specinfer import Chain, SpecInfer
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from tests.engine.speculation.pairs import Outcome, Silent

Make = Callable[[Drafting], Method]

METHODS: dict[str, Make] = {
    "sequoia": Sequoia,
    "specinfer": SpecInfer,
    "specinfer 2,2,1": partial(SpecInfer, expansions=(2, 2, 1)),
    "chain": Chain,
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
    rng: Rng | None = None,
    end_tokens: frozenset[int] = frozenset(),
) -> Outcome:
    """Answer a prompt by a method; `rng` None is that of the sampling's seed."""
    rng = rng or Rng(sampling.seed, torch.device("cpu"))
    sampler = Sampler(sampling, prompt, Uniforms(sampling.seed))
    method = make(Drafting(draft, sampler, sampling, prompt, vocabulary, rng, end_tokens=end_tokens))
    target.prefill(prompt[:-1])
    method.prefill(prompt[:-1])
    answer = Answer(Silent(), end_tokens, max_new_tokens)
    results = list(rounds(Speculation(target, Fixed(method, budget, 32), answer, Stopwatch()), prompt))
    return Outcome(answer.tokens, results)

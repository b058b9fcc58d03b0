"""Tiny target/draft pairs and a run of the rounds over them, without tokenizer or text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.model.context import Context
from engine.model.network import Network
from engine.protocol.options import SamplingOptions, SpeculationOptions
from engine.speculation.interfaces import Fixed, Method, RoundResult
from engine.speculation.methods.lookup import Autoregression
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms, UniformSource
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from tests.engine.tiny_models import tiny_network

GREEDY = SamplingOptions()
PUBLISHED = SpeculationOptions()


class Silent:
    """A text sink for answers nobody reads."""

    stopped = False
    stop = ""

    def push(self, token: int) -> str:
        return ""

    def flush(self) -> str:
        return ""


@dataclass(frozen=True)
class Outcome:
    tokens: list[int]
    rounds: list[RoundResult]


def random_prompt(length: int, seed: int, vocabulary: int = 131) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return [int(token) for token in torch.randint(3, vocabulary, (length,), generator=generator)]


def penalised(
    logits: torch.Tensor, options: SamplingOptions, prompt: Sequence[int], answer: Sequence[int]
) -> torch.Tensor:
    """Bias and penalties behind an answer."""
    return Sampler(options, prompt, Uniforms(0)).ahead(answer, 0, logits.device).penalised(logits, ())


def noisy_copy(family: str, seed: int = 0, noise: float = 0.1, **overrides: Any) -> Network:
    """A draft that often, but not always, agrees with `tiny_network(family, seed)`."""
    network = tiny_network(family, seed, **overrides)
    generator = torch.Generator().manual_seed(5)
    for parameter in network.model.parameters():
        if parameter.ndim >= 2:
            parameter.add_(torch.randn(parameter.shape, generator=generator) * noise * parameter.std())
    return network


def write(
    target: Network,
    draft: Network | None,
    prompt: Sequence[int],
    max_new_tokens: int,
    budget: int,
    sampling: SamplingOptions = GREEDY,
    speculation: SpeculationOptions = PUBLISHED,
    end_tokens: frozenset[int] = frozenset(),
    uniforms: UniformSource | None = None,
    context: Context | None = None,
) -> Outcome:
    """Answer a prompt; `draft` None is plain autoregression; `context` is a target's that has read something before."""
    context = context or Context(target, capacity=512)
    sampler = Sampler(sampling, prompt, uniforms or Uniforms(sampling.seed))
    method: Method = Autoregression(sampler)
    if draft:
        context_of_draft = Context(draft, capacity=512)
        method = SpecExec(context_of_draft, sampler, speculation, target.vocabulary, end_tokens=end_tokens)
    context.prefill(prompt[:-1])
    method.prefill(prompt[:-1])
    answer = Answer(Silent(), end_tokens, max_new_tokens)
    parts = Speculation(context, Fixed(method, budget), answer, Stopwatch(), reach=lambda: context.reach)
    results = list(rounds(parts, prompt))
    return Outcome(answer.tokens, results)

"""Who takes part in a benchmark: our methods at several budgets, and what a user would otherwise run."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from engine.cli.arguments import generate_options
from engine.cli.baselines import BASELINES
from engine.cli.session import Session
from engine.protocol.messages import Seconds
from engine.protocol.options import METHODS
from engine.text.prompt import Prompt

REFERENCE = "none"
"""The method that all others are measured against."""
AUTO = "auto"
EVERY = "all"
"""Stands for all methods."""


@dataclass(frozen=True, slots=True)
class Run:
    """One answer by one contender, of at most `limit` tokens. `passes` 0: the contender does not tell."""

    limit: int
    token_ids: tuple[int, ...]
    decode_seconds: float
    timed_tokens: int
    passes: int = 0
    seconds: Seconds = field(default_factory=Seconds)
    bytes_streamed: int = 0

    def agrees_with(self, other: "Run") -> bool:
        """Whether both wrote the same, as far as both were let."""
        limit = min(self.limit, other.limit)
        return self.token_ids[:limit] == other.token_ids[:limit]


@dataclass(frozen=True, slots=True)
class Contender:
    """`answer`: (prompt, max new tokens) -> one answer. `budget` 0: automatic, or it has none."""

    method: str
    budget: int
    temperature: float
    answer: Callable[[Prompt, int], Run]

    @property
    def name(self) -> str:
        """As the table calls it."""
        return f"{self.method} {self.budget}" if self.budget else self.method


def contenders(arguments: argparse.Namespace, session: Session) -> list[Contender]:
    """Every contender, per temperature; the reference is always there, ahead of the others."""
    found = []
    for temperature in arguments.temperatures or [arguments.temperature]:
        found.append(_ours(arguments, session, REFERENCE, 0, temperature))
        for method in _methods(arguments.methods):
            for budget in arguments.budgets or [arguments.budget]:
                if method != REFERENCE and not (method == AUTO and budget and EVERY in arguments.methods):
                    found.append(_ours(arguments, session, method, budget, temperature))
        found.extend(_baseline(arguments, session, name, temperature) for name in arguments.baselines)
    return found


def _methods(names: Sequence[str]) -> Sequence[str]:
    """With `all` put into words; `auto` has no size of its own then, as with one it is another of them."""
    return METHODS if EVERY in names else names


def _ours(arguments: argparse.Namespace, session: Session, method: str, budget: int, temperature: float) -> Contender:
    options = generate_options(arguments, method, budget, arguments.seed)
    options = replace(options, sampling=replace(options.sampling, temperature=temperature))
    options.check()

    def answer(prompt: Prompt, max_new_tokens: int) -> Run:
        written = session.collect(prompt, replace(options, max_new_tokens=max_new_tokens))
        seconds, tokens = written.statistics.seconds, tuple(written.token_ids)
        statistics = written.statistics
        passes, streamed = statistics.passes, statistics.bytes_streamed
        return Run(max_new_tokens, tokens, seconds.decode, len(tokens), passes, seconds, streamed)

    return Contender(method, budget, temperature, answer)


def _baseline(arguments: argparse.Namespace, session: Session, name: str, temperature: float) -> Contender:
    options = generate_options(arguments, REFERENCE, 0, arguments.seed)
    options = replace(options, sampling=replace(options.sampling, temperature=temperature))
    run = BASELINES[name](session.engine, options)
    return Contender(name, 0, temperature, lambda prompt, count: Run(count, *run(prompt.tokens, count)))

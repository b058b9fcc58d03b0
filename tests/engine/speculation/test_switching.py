"""Methods take over from one another in mid-answer, and neither the text nor a cache shows it."""

from collections.abc import Sequence
from itertools import product

import pytest
import torch

from engine.model.context import Context
from engine.protocol.options import SamplingOptions, SpeculationOptions
from engine.speculation.interfaces import Choice, Method, RoundResult, Strategy
from engine.speculation.methods.acceptance_rates import Calibration
from engine.speculation.methods.lookup import Autoregression, Lookup
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from engine.speculation.tuning.auto import Auto
from engine.speculation.tuning.throughput_model import ThroughputModel
from tests.campaigns.extent import choose
from tests.engine.speculation.pairs import GREEDY, Silent, noisy_copy, random_prompt, write
from tests.engine.tiny_models import tiny_network

NEW_TOKENS = choose(24, 48)
SAMPLED = SamplingOptions(temperature=0.8, top_p=0.95, seed=4)
SCRIPT = ((0, 12, 32), (2, 0, 0), (2, 0, 0), (0, 5, 2), (1, 9, 3), (0, 40, 32), (2, 0, 0), (1, 30, 8), (0, 1, 1))
"""(which method, budget, depth) of one round after the other, from the beginning again at the end."""


class Scripted:
    """Chooses by the script, and lets whoever takes over read first."""

    reason = ""

    def __init__(self, methods: Sequence[Method]) -> None:
        self._methods = methods
        self._reader: Method | None = None
        self._round = 0

    def prefill(self, tokens: Sequence[int]) -> None:
        self._methods[0].prefill(tokens)
        self._reader = self._methods[0]

    def choose(self, tokens: Sequence[int], room: int) -> Choice:
        which, budget, depth = SCRIPT[self._round % len(SCRIPT)]
        method = self._methods[which]
        if method is not self._reader:
            method.prefill(tokens[:-1])
            self._reader = method
        self._round += 1
        return Choice(method, budget, min(depth, room - 1))

    def keep_drafting(self) -> bool:
        return self._reader.keep_drafting() if self._reader else False

    def learn(self, result: RoundResult) -> None:
        pass


def answered(family: str, sampling: SamplingOptions, make: str) -> tuple[list[int], set[str], Context, Context]:
    target, draft = Context(tiny_network(family), 512), Context(noisy_copy(family), 512)
    prompt = random_prompt(19, seed=3)
    sampler = Sampler(sampling, prompt, Uniforms(sampling.seed))
    tree = SpecExec(draft, sampler, SpeculationOptions(), 131, Calibration())
    plain = Autoregression(sampler)
    methods: list[Method] = [Lookup(tree, tree.name), Lookup(plain, "lookup"), plain]
    strategy: Strategy = Scripted(methods)
    if make == "auto":
        strategy = Auto(methods[:2], plain, ThroughputModel(), 64, 32)
    target.prefill(prompt[:-1])
    strategy.prefill(prompt[:-1])
    answer = Answer(Silent(), frozenset(), NEW_TOKENS)
    names = {result.choice.method.name for result in rounds(Speculation(target, strategy, answer, Stopwatch()), prompt)}
    return answer.tokens, names, target, draft


@pytest.mark.parametrize(
    ("family", "sampling", "make"),
    choose(
        [("llama", GREEDY, "auto"), ("gemma3", SAMPLED, "scripted")],
        list(product(("llama", "mistral_sliding", "gemma3", "gpt_oss"), (GREEDY, SAMPLED), ("scripted", "auto"))),
    ),
)
def test_the_text_is_that_of_plain_decoding(family: str, sampling: SamplingOptions, make: str) -> None:
    plain = write(tiny_network(family), None, random_prompt(19, seed=3), NEW_TOKENS, 0, sampling)
    tokens, names, _, _ = answered(family, sampling, make)
    assert tokens == plain.tokens
    assert {"specexec", "none"} <= names, "nobody took over, so nothing was tested"


@torch.inference_mode()
def test_the_caches_hold_the_text_and_nothing_else() -> None:
    """What both models would say next is what a fresh context says that reads prompt and answer at once."""
    prompt = random_prompt(19, seed=3)
    tokens, _, target, draft = answered("gemma3", GREEDY, "scripted")
    text = [*prompt, *tokens]
    assert target.tokens == text[:-1]
    assert draft.tokens == text[: draft.length]
    for context, network in ((target, tiny_network("gemma3")), (draft, noisy_copy("gemma3"))):
        fresh = Context(network, 512)
        fresh.prefill(text[: context.length])
        context.rewind(context.length)
        found, expected = context.score([77], [-1]), fresh.score([77], [-1])
        assert float((found - expected).abs().max()) < 1e-4


def test_one_calibration_serves_several_answers() -> None:
    """What an earlier answer taught changes which nodes are tried, and never the text."""
    prompt, calibration = random_prompt(19, seed=3), Calibration()
    plain = write(tiny_network("llama"), None, prompt, NEW_TOKENS, 0)
    for _ in range(2):
        target, sampler = Context(tiny_network("llama"), 512), Sampler(GREEDY, prompt, Uniforms(0))
        method = SpecExec(Context(noisy_copy("llama"), 512), sampler, SpeculationOptions(), 131, calibration)
        target.prefill(prompt[:-1])
        strategy = Auto([method], None, ThroughputModel(), 32, 8)
        strategy.prefill(prompt[:-1])
        answer = Answer(Silent(), frozenset(), NEW_TOKENS)
        before = calibration.observations
        list(rounds(Speculation(target, strategy, answer, Stopwatch()), prompt))
        assert answer.tokens == plain.tokens
        assert calibration.observations > before

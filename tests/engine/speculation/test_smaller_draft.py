"""A draft whose embedding has fewer rows than its target's is never asked for a token that it lacks."""

from itertools import product
from typing import Any

import pytest
import torch

from engine.model.context import Context
from engine.model.network import Network
from engine.protocol.options import SamplingOptions
from engine.speculation.interfaces import Fixed
from engine.speculation.methods.lookup import Lookup
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms, distribution
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from tests.campaigns.extent import choose
from tests.engine.speculation.enumeration import ForkedRng, probabilities
from tests.engine.speculation.pairs import GREEDY, PUBLISHED, Silent, write
from tests.engine.speculation.sampled import METHODS, write_sampled
from tests.engine.speculation.test_sampled_distribution import assert_same
from tests.engine.tiny_models import VOCABULARY, tiny_network

KNOWN = 90  # ids of the draft; about a third of the target's own are beyond it
SIZES = (KNOWN, VOCABULARY + 40)
NEW = choose(18, 30)
PROMPT = [5, 120, 7, 130, 90, 89, 11, 5, 120, 7]
SAMPLINGS = [GREEDY, SamplingOptions(temperature=0.9, top_p=0.95, repetition_penalty=1.2, seed=3)]


def draft_of(target: Network, known: int, **overrides: Any) -> Network:
    """The target with the first rows of its embedding and of its head: what it knows, it guesses right."""
    draft = tiny_network("llama", vocab_size=known, **overrides)
    weights = target.model.state_dict()
    sizes = {name: tensor.shape for name, tensor in draft.model.state_dict().items()}
    draft.model.load_state_dict({name: tensor[: sizes[name][0]] for name, tensor in weights.items()})
    return draft


@pytest.fixture(scope="module")
def target() -> Network:
    return tiny_network("llama")


@pytest.mark.parametrize(
    ("known", "sampling"),
    choose(list(zip(SIZES, reversed(SAMPLINGS), strict=True)), list(product(SIZES, SAMPLINGS))),
)
def test_the_text_is_that_of_no_draft(known: int, sampling: SamplingOptions, target: Network) -> None:
    plain = write(target, None, PROMPT, NEW, 0, sampling).tokens
    assert max(plain) >= KNOWN, "the target never said what the draft does not know"
    draft = draft_of(target, known) if known < VOCABULARY else tiny_network("llama", vocab_size=known)
    for budget in choose((64,), (1, 8, 64)):
        assert write(target, draft, PROMPT, NEW, budget, sampling).tokens == plain
    sampler, context = Sampler(sampling, PROMPT, Uniforms(sampling.seed)), Context(target, 256)
    method = Lookup(SpecExec(Context(draft, 256), sampler, PUBLISHED, target.vocabulary), "specexec")
    context.prefill(PROMPT[:-1])
    method.prefill(PROMPT[:-1])
    answer = Answer(Silent(), frozenset(), NEW)
    list(rounds(Speculation(context, Fixed(method, 16), answer, Stopwatch()), PROMPT))
    assert answer.tokens == plain


@pytest.mark.parametrize("name", choose(["sequoia", "chain"], list(METHODS)))
def test_sampled_trees_write_the_greedy_text_too(name: str, target: Network) -> None:
    plain = write(target, None, PROMPT, NEW, 0).tokens
    contexts = Context(target, 256), Context(draft_of(target, KNOWN), 256)
    written = write_sampled(METHODS[name], *contexts, PROMPT, NEW, 16, VOCABULARY, GREEDY)
    assert written.tokens == plain
    assert len(written.rounds) < NEW, "the draft goes on behind what it does not know"


@pytest.mark.parametrize("name", METHODS)
def test_every_outcome_has_the_target_s_probability(name: str) -> None:
    """Enumerated, through real models: half of what the target says, and of the prompt, is unknown to the draft."""
    small: dict[str, Any] = {"num_hidden_layers": 2}
    target = tiny_network("llama", 1, vocab_size=4, pad_token_id=0, bos_token_id=0, eos_token_id=0, **small)
    draft = draft_of(target, 2, pad_token_id=0, bos_token_id=0, eos_token_id=0, **small)
    prompt, sampling, contexts = [1, 3, 2], SamplingOptions(temperature=1.2), (Context(target, 64), Context(draft, 64))

    def run(rng: ForkedRng) -> tuple[int, ...]:
        return tuple(write_sampled(METHODS[name], *contexts, prompt, 2, 2, 4, sampling, rng=rng).tokens)

    expected = {}
    for outcome in product(range(4), repeat=2):
        logits = target.model(torch.tensor([[*prompt, *outcome]])).logits[0, len(prompt) - 1 : -1].float()
        rows = [distribution(row, sampling) for row in logits]
        expected[outcome] = float(torch.stack([row[token] for row, token in zip(rows, outcome, strict=True)]).prod())
    assert_same(probabilities(run), expected, within=1e-4)


def test_what_stands_for_an_unknown_token_is_known(target: Network) -> None:
    draft = draft_of(target, KNOWN)
    assert draft.substitute == 0
    assert tiny_network("llama", pad_token_id=None, eos_token_id=[7, 8]).substitute == 7
    one, other = Context(draft, 64), Context(draft, 64)
    one.prefill([5, VOCABULARY - 1, 6])
    other.prefill([5, 0, 6])
    torch.testing.assert_close(one.score([7], [-1]), other.score([7], [-1]))
    assert one.tokens == [5, VOCABULARY - 1, 6], "the text is remembered as it is"

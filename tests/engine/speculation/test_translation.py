"""A draft with another vocabulary reads and proposes the target's tokens; the answer stays exactly the target's."""

import random
from collections.abc import Mapping, Sequence

import pytest
import torch

from engine.model.context import Context
from engine.model.network import Network
from engine.protocol.options import SamplingOptions
from engine.speculation.interfaces import Fixed, Scorer
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from engine.speculation.translation import TranslatedDraft, translation_of
from tests.campaigns.extent import choose
from tests.engine.speculation.enumeration import ForkedRng, TableModel, probabilities
from tests.engine.speculation.pairs import GREEDY, PUBLISHED, Outcome, Silent, noisy_copy
from tests.engine.speculation.pairs import write as write_plainly
from tests.engine.speculation.sampled import METHODS, write_sampled
from tests.engine.speculation.test_sampled_distribution import PROMPT, SETTINGS, assert_same, truth
from tests.engine.tiny_models import VOCABULARY, tiny_network

NEW = choose(12, 20)
KNOWN = 100  # of the target's tokens by the draft that lacks some
TEXT = [5, 120, 7, 130, 90, 89, 11]
SAMPLED = SamplingOptions(temperature=0.9, top_p=0.95, repetition_penalty=1.2, seed=3)
CPU = torch.device("cpu")


def translated(
    draft: Scorer, common: Mapping[int, int], others: Mapping[int, Sequence[int]], sizes: tuple[int, int]
) -> TranslatedDraft:
    """`others`: how tokens are spelled that are not common; `sizes`: of the vocabularies, the target's first."""
    spelled = {token: (own,) for token, own in common.items()} | {token: tuple(own) for token, own in others.items()}
    return TranslatedDraft(draft, translation_of(common, spelled.__getitem__, (), *sizes, CPU))


@pytest.mark.parametrize("sampling", choose(SETTINGS[3:], SETTINGS))
@pytest.mark.parametrize(
    ("name", "budget", "length"),
    [("sequoia", 2, 2), ("sequoia", 3, 2), ("specinfer", 2, 2), ("specinfer 2,2,1", 3, 2), ("chain", 2, 2)],
)
def test_every_outcome_has_exactly_the_target_s_probability(
    sampling: SamplingOptions, name: str, budget: int, length: int
) -> None:
    """Of four tokens two are common; one of the others is two tokens of the draft, one is three."""
    target, own = TableModel(4, seed=1), TableModel(5, seed=2)
    draft = translated(own, {0: 3, 2: 0}, {1: (0, 4), 3: (1, 1, 3)}, (4, 5))

    def run(rng: ForkedRng) -> tuple[int, ...]:
        written = write_sampled(METHODS[name], target, draft, PROMPT, length, budget, 4, sampling, rng=rng)
        assert all(token in (0, 2) for each in written.rounds for token in each.tree.tokens[1:])
        return tuple(written.tokens)

    assert_same(probabilities(run), truth(target, sampling, length), within=1e-9)


def cut(network: Network, rows: Sequence[int]) -> Network:
    """The same model with these rows of its vocabulary, in this order."""
    other = tiny_network("llama", vocab_size=len(rows))
    index = torch.tensor(rows)
    weights = network.model.state_dict()
    picked = {name: tensor[index] if len(tensor) == VOCABULARY else tensor for name, tensor in weights.items()}
    other.model.load_state_dict(picked)
    return other


def translated_cut(network: Network, rows: Sequence[int]) -> TranslatedDraft:
    """What has no row is spelled by two that are there."""
    common = {token: place for place, token in enumerate(rows)}
    others = {token: (token % 7, token % 11) for token in range(VOCABULARY) if token not in common}
    return translated(Context(cut(network, rows), 256), common, others, (VOCABULARY, len(rows)))


def write(target: Network, draft: Scorer, sampling: SamplingOptions, budget: int) -> Outcome:
    method = SpecExec(draft, Sampler(sampling, TEXT, Uniforms(sampling.seed)), PUBLISHED, target.vocabulary)
    context = Context(target, 256)
    context.prefill(TEXT[:-1])
    method.prefill(TEXT[:-1])
    answer = Answer(Silent(), frozenset(), NEW)
    results = list(rounds(Speculation(context, Fixed(method, budget), answer, Stopwatch()), TEXT))
    return Outcome(answer.tokens, results)


@pytest.fixture(scope="module")
def target() -> Network:
    return tiny_network("llama")


@pytest.fixture(scope="module")
def draft() -> Network:
    return noisy_copy("llama")


def shuffled(count: int) -> list[int]:
    return random.Random(1).sample(range(VOCABULARY), count)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
def test_the_same_draft_under_other_ids_grows_the_same_trees(
    target: Network, draft: Network, sampling: SamplingOptions
) -> None:
    plain = write(target, Context(draft, 256), sampling, 16)
    other = write(target, translated_cut(draft, shuffled(VOCABULARY)), sampling, 16)
    assert len(plain.rounds) < NEW, "the draft is some good"
    assert other.tokens == plain.tokens
    assert [each.tree.tokens for each in other.rounds] == [each.tree.tokens for each in plain.rounds]
    assert [each.tree.parents for each in other.rounds] == [each.tree.parents for each in plain.rounds]


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
def test_what_a_draft_lacks_it_never_proposes(target: Network, draft: Network, sampling: SamplingOptions) -> None:
    plain = write_plainly(target, None, TEXT, NEW, 0, sampling)
    rows = shuffled(KNOWN)
    written = write(target, translated_cut(draft, rows), sampling, 16)
    assert not set(plain.tokens) <= set(rows), "the target never said what the draft lacks"
    assert written.tokens == plain.tokens
    assert all(set(each.tree.tokens[1:]) <= set(rows) for each in written.rounds)


@pytest.mark.parametrize("name", choose(("sequoia",), METHODS))
def test_sampled_trees_write_the_greedy_text_too(name: str, target: Network, draft: Network) -> None:
    plain = write_plainly(target, None, TEXT, NEW, 0).tokens
    other = translated_cut(draft, shuffled(KNOWN))
    written = write_sampled(METHODS[name], Context(target, 256), other, TEXT, NEW, 16, VOCABULARY, GREEDY)
    assert written.tokens == plain
    assert len(written.rounds) < NEW


def test_what_is_kept_is_read_as_if_it_were_read_alone(draft: Network) -> None:
    """Paths and the rest below them, of nodes that are one token of the draft or several."""
    rows = shuffled(60)
    known, lacking = rows[0], next(token for token in range(VOCABULARY) if token not in rows)
    one, other = translated_cut(draft, rows), translated_cut(draft, rows)
    one.prefill([known, lacking])
    one.score([lacking, known], [-1, -1])
    one.score([lacking, rows[1], rows[2], lacking], [0, 0, 1, 3])
    one.keep([0, 3], rest=[5])
    assert one.length == 4
    following = one.score([rows[4], rows[5]], [0, -1])
    other.prefill([known, lacking, lacking, rows[1]])
    alone = other.score([rows[5], lacking, rows[4]], [-1, -1, 1])
    torch.testing.assert_close(following, alone[[2, 0]], rtol=1e-3, atol=1e-4)
    once, again = other.score([rows[5]], [2], last=1), other.score([rows[5]], [2])
    torch.testing.assert_close(once, again, rtol=1e-3, atol=1e-4)


def test_the_common_beginning_is_counted_in_the_target_s_tokens_and_the_opening_is_put_before_it(
    draft: Network,
) -> None:
    context = Context(draft, 256)
    spelled = {1: (11, 12), 2: (13,), 3: (7, 14)}
    translation = translation_of({2: 13}, spelled.__getitem__, (7,), 4, VOCABULARY, CPU)
    other = TranslatedDraft(context, translation)
    assert other.prefill([1, 2, 1]) == 0
    assert context.tokens == [7, 11, 12, 13, 11, 12]
    assert other.prefill([1, 2, 2]) == 2
    assert other.prefill([3]) == 0
    assert context.tokens == [7, 14], "the text has an opening of its own"
    assert other.prefill([]) == 0
    assert other.score([2], [-1]).isfinite().tolist() == [[False, False, True, False]]


def test_common_tokens_without_a_row_in_a_head_are_left_out() -> None:
    translation = translation_of({0: 1, 1: 2, 3: 0}, lambda token: (token,), (), 3, 2, CPU)
    assert translation.logits(torch.tensor([[1.0, 2.0]])).tolist() == [[2.0, -torch.inf, -torch.inf]]


def test_fewer_common_tokens_than_branches_are_no_trouble(target: Network, draft: Network) -> None:
    rows = shuffled(VOCABULARY)
    common = {token: token for token in rows[:5]}
    spelled = {token: (token,) for token in rows[5:]}
    other = translated(Context(draft, 256), common, spelled, (VOCABULARY, VOCABULARY))
    assert PUBLISHED.width > len(common)
    written = write(target, other, GREEDY, 64)
    assert written.tokens == write_plainly(target, None, TEXT, NEW, 0).tokens
    assert all(set(each.tree.tokens[1:]) <= set(common) for each in written.rounds)

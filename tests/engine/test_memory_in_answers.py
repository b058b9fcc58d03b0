"""Answers while memory runs out: the text stays what it is, the attempts are few, and the trees stay smaller."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
import torch

from engine.errors import OutOfMemory
from engine.loading.oom_retry import GuardedContext, guarded
from engine.model.context import Context
from engine.model.network import Network
from engine.protocol.options import SamplingOptions
from engine.speculation.interfaces import Choice, Fixed, RoundResult
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from engine.speculation.tuning import tree_limit
from engine.speculation.tuning.tree_limit import TreeLimit
from tests.campaigns.extent import choose
from tests.engine.speculation.pairs import GREEDY, PUBLISHED, Silent, noisy_copy, random_prompt, write
from tests.engine.tiny_models import tiny_network

NEW_TOKENS = choose(16, 40)
SAMPLED = SamplingOptions(temperature=0.9, top_p=0.95, seed=8)
PROMPT = random_prompt(19, seed=3)
Fails = Callable[[int, int], bool]
"""(number of the pass, its rows): whether memory runs out in it"""


class Scarce(Context):
    """A context in the middle of whose passes memory runs out, as the allocator has it."""

    def __init__(self, network: Network, fails: Fails = lambda _number, _rows: False) -> None:
        super().__init__(network, capacity=512)
        self.rows: list[int] = []
        self._fails = fails
        network.layers[2].register_forward_pre_hook(self._before_third_layer, with_kwargs=True)

    def _before_third_layer(self, _layer: Any, arguments: Any, _more: Any) -> None:
        self.rows.append(arguments[0].shape[1])
        if self._fails(len(self.rows), self.rows[-1]):
            torch.empty(1 << 60, dtype=torch.uint8)


class Story:
    """One answer under scarcity, as far as it goes."""

    def __init__(
        self,
        target_fails: Fails = lambda _number, _rows: False,
        draft_fails: Fails = lambda _number, _rows: False,
        sampling: SamplingOptions = GREEDY,
        budget: int = 64,
        limit: TreeLimit | None = None,
    ) -> None:
        network = tiny_network("llama")
        self.target = Scarce(network)
        self.draft = Scarce(noisy_copy("llama"))
        target, draft = GuardedContext(self.target, "the target"), GuardedContext(self.draft, "the draft")
        sampler = Sampler(sampling, PROMPT, Uniforms(sampling.seed))
        method = SpecExec(draft, sampler, PUBLISHED, network.vocabulary)
        target.prefill(PROMPT[:-1])
        method.prefill(PROMPT[:-1])
        for context, fails in ((self.target, target_fails), (self.draft, draft_fails)):
            context.rows.clear()
            context._fails = fails
        self.limit = limit or TreeLimit()
        self.answer = Answer(Silent(), frozenset(), NEW_TOKENS)
        self.results: list[RoundResult] = []
        parts = Speculation(target, Fixed(method, budget), self.answer, Stopwatch(), self.limit, guard=guarded)
        self._steps = rounds(parts, PROMPT)

    def tell(self) -> "Story":
        self.results.extend(self._steps)
        return self

    @property
    def sizes(self) -> list[int]:
        return [result.tree.drafted for result in self.results]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No larger trees are tried before these short answers end."""
    monkeypatch.setattr(tree_limit, "PATIENCE", 64)


@cache
def plain_text(sampling: SamplingOptions = GREEDY) -> list[int]:
    return write(tiny_network("llama"), None, PROMPT, NEW_TOKENS, 0, sampling).tokens


@pytest.mark.parametrize("sampling", choose([SAMPLED], [GREEDY, SAMPLED]))
def test_a_pass_that_is_too_big_is_run_again_with_half_the_tree(sampling: SamplingOptions) -> None:
    story = Story(lambda number, _rows: number == 3, sampling=sampling).tell()
    assert story.answer.tokens == plain_text(sampling)
    assert story.sizes[:2] == [64, 64]
    assert max(story.sizes[2:]) == 32, "a smaller tree once, and from then on"
    assert story.target.rows[:4] == [65, 65, 65, 33]
    assert len(story.target.rows) == len(story.results) + 1


@pytest.mark.parametrize("most_rows", choose([2, 20], [1, 2, 5, 20, 40]))
def test_trees_shrink_to_what_there_is_room_for(most_rows: int) -> None:
    story = Story(lambda _number, rows: rows > most_rows).tell()
    assert story.answer.tokens == plain_text()
    failed = [rows for rows in story.target.rows if rows > most_rows]
    assert failed == sorted(set(failed), reverse=True), "every size is tried once"
    assert len(failed) <= 7
    nodes = story.limit.nodes
    assert nodes is not None
    assert nodes < most_rows
    assert all(result.tree.drafted < most_rows for result in story.results)


def test_a_round_is_tried_three_times_and_no_more() -> None:
    story = Story(lambda _number, _rows: True)
    with pytest.raises(
        OutOfMemory, match=r"a pass of the target over 1 tokens: .* were asked for; .* of RAM were free"
    ):
        story.tell()
    assert story.target.rows == [65, 33, 1]
    assert not story.results
    assert story.target.tokens == PROMPT[:-1]


def test_what_was_written_before_the_end_of_memory_is_kept() -> None:
    story = Story(lambda number, _rows: number > 3)
    with pytest.raises(OutOfMemory):
        story.tell()
    assert len(story.results) == 3
    assert story.answer.tokens == plain_text()[: len(story.answer.tokens)]
    assert story.target.tokens == [*PROMPT, *story.answer.tokens][:-1]


@pytest.mark.parametrize("sampling", choose([SAMPLED], [GREEDY, SAMPLED]))
def test_a_draft_that_runs_out_of_memory_for_good_leaves_plain_decoding(sampling: SamplingOptions) -> None:
    story = Story(draft_fails=lambda number, _rows: number > 6, sampling=sampling).tell()
    assert story.answer.tokens == plain_text(sampling)
    assert story.limit.nodes == 0
    assert story.sizes[-1] == 0
    assert len(story.draft.rows) <= 6 + 4, "a draft without memory is asked again and again"
    assert "No trees are grown for now." in story.limit.words
    assert "a pass of the draft over" in story.limit.words


def test_the_draft_running_out_in_the_middle_of_a_tree_costs_half_of_it() -> None:
    story = Story(draft_fails=lambda number, _rows: number == 7).tell()
    assert story.answer.tokens == plain_text()
    assert story.limit.nodes == 32


def test_what_was_survived_is_told_and_held_to() -> None:
    story = Story(lambda number, _rows: number == 1).tell()
    assert story.limit.words.startswith("Memory ran out during a pass of the target over 65 tokens: ")
    assert "free. Trees have at most 32 nodes. Choose a smaller tree or a shorter context, or" in story.limit.words
    assert [result.choice.is_short for result in story.results[:3]] == [True] * 3
    again = Story(limit=TreeLimit(32, patience=64)).tell()
    assert max(again.sizes) == 32
    assert again.answer.tokens == plain_text()
    assert again.limit.words == "Memory ran out with bigger trees before. Trees have at most 32 nodes."
    assert Story().tell().limit.words == ""


def test_a_round_that_has_written_already_is_not_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()

    def keep(_nodes: Sequence[int], _rest: Sequence[int] = ()) -> None:
        raise OutOfMemory("Memory ran out.")

    monkeypatch.setattr(story.target, "keep", keep)
    with pytest.raises(OutOfMemory):
        story.tell()
    assert story.target.rows == [65]


@pytest.mark.parametrize("part", ["grow", "accept"])
def test_trees_shrink_where_memory_runs_out_beside_the_models(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the distributions of a tree that is drafted, or for its verification once the target has read it."""
    real = getattr(SpecExec, part)

    def scarce(self: SpecExec, about: Any, *more: Any) -> Any:
        nodes = more[0].budget if part == "grow" else len(about) - 1
        if nodes > 20:
            torch.empty(1 << 60, dtype=torch.uint8)
        return real(self, about, *more)

    monkeypatch.setattr(SpecExec, part, scarce)
    story = Story(limit=TreeLimit(40, patience=64)).tell()
    assert story.answer.tokens == plain_text()
    assert story.limit.nodes == 20
    assert story.sizes[0] == 20
    assert "Memory ran out during a round: " in story.limit.words
    assert story.target.tokens == [*PROMPT, *story.answer.tokens][:-1]


def test_a_choice_that_runs_out_of_memory_is_not_taken_for_the_tree_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    choose = Fixed.choose

    def choose_twice(self: Fixed, tokens: Sequence[int], room: int) -> Choice:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise OutOfMemory("Memory ran out.")
        return choose(self, tokens, room)

    monkeypatch.setattr(Fixed, "choose", choose_twice)
    story = Story()
    with pytest.raises(OutOfMemory):
        story.tell()
    assert (calls, len(story.results), story.limit.nodes) == (3, 2, None)


# ---- prompts --------------------------------------------------------------------------------------------------------


def test_a_prompt_is_read_in_smaller_pieces_once_memory_ran_out() -> None:
    prompt = random_prompt(200, seed=1)
    scarce = Scarce(tiny_network("llama"), lambda _number, rows: rows > 60)
    scarce.prefill(prompt[:40])
    assert GuardedContext(scarce, "the target").prefill(prompt) == 40, "what was read just now counts as cached"
    assert scarce.rows[1:] == [160, 40, 40, 40, 40]
    fresh = Context(tiny_network("llama"), capacity=512)
    fresh.prefill(prompt)
    torch.testing.assert_close(scarce.score([7], [-1]), fresh.score([7], [-1]), atol=1e-4, rtol=1e-4)


def test_a_prompt_that_never_fits_is_tried_twice_and_leaves_the_context_as_it_was() -> None:
    scarce = Scarce(tiny_network("llama"), lambda _number, rows: rows > 5)
    with pytest.raises(OutOfMemory, match="a pass of the target over 50 tokens"):
        GuardedContext(scarce, "the target").prefill(random_prompt(200, seed=1))
    assert scarce.rows == [200, 50]
    assert scarce.length == 0


@pytest.mark.gpu
def test_on_a_gpu_a_pass_that_is_too_big_is_run_again_with_half_the_tree() -> None:
    from engine.model.network import wrap

    def on_cuda(network: Network) -> Network:
        return wrap(network.model.to("cuda"), network.attention, "tiny")

    class ScarceGpu(Context):
        passes = 0

        def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> torch.Tensor:
            self.passes += 1
            if self.passes == 3:
                torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
            return super().score(tokens, parents, last)

    torch.backends.cuda.matmul.allow_tf32 = False
    network, draft = on_cuda(tiny_network("llama")), on_cuda(noisy_copy("llama"))
    expected = write(network, None, PROMPT, NEW_TOKENS, 0).tokens
    target = GuardedContext(ScarceGpu(network, 512), "the target")
    sampler = Sampler(GREEDY, PROMPT, Uniforms(0))
    method = SpecExec(GuardedContext(Context(draft, 512), "the draft"), sampler, PUBLISHED, network.vocabulary)
    target.prefill(PROMPT[:-1])
    method.prefill(PROMPT[:-1])
    answer, limit = Answer(Silent(), frozenset(), NEW_TOKENS), TreeLimit()
    list(rounds(Speculation(target, Fixed(method, 64), answer, Stopwatch(), limit), PROMPT))
    assert answer.tokens == expected
    assert limit.nodes == 32
    assert limit.shortage
    assert limit.shortage.of_gpu

"""Nothing is guessed behind a token that ends the answer: no such node could ever be accepted."""

import math
from functools import partial

import pytest

from engine.model.context import Context
from engine.protocol.options import SamplingOptions
from engine.speculation.methods.lookup import NgramIndex
from engine.speculation.trees.tree import Tree
from tests.engine.speculation.pairs import Outcome, noisy_copy, random_prompt, write
from tests.engine.speculation.sampled import METHODS, write_sampled
from tests.engine.tiny_models import tiny_network

NEW_TOKENS = 24


def below(tree: Tree, ends: frozenset[int]) -> list[int]:
    """Drafted nodes behind an end, which is not the root."""
    return [node for node, parent in enumerate(tree.parents) if parent > 0 and tree.tokens[parent] in ends]


@pytest.mark.parametrize("name", ["specexec", *METHODS])
def test_no_node_stands_behind_an_end_and_the_text_is_the_same(name: str) -> None:
    target, draft = tiny_network("llama"), noisy_copy("llama", noise=0.3)
    prompt = random_prompt(12, seed=3)
    plain = write(target, None, prompt, NEW_TOKENS, budget=0).tokens
    unsaid = frozenset(range(target.vocabulary)) - {*plain}  # so that the answer goes on, whatever is guessed
    written: Outcome
    if name == "specexec":
        written = write(target, draft, prompt, NEW_TOKENS, budget=24, end_tokens=unsaid)
    else:
        models = Context(target, 512), Context(draft, 512)
        asked = partial(write_sampled, METHODS[name], *models, prompt, NEW_TOKENS, 24, target.vocabulary)
        written = asked(SamplingOptions(), end_tokens=unsaid)
    assert written.tokens == plain
    trees = [result.tree for result in written.rounds]
    assert any(unsaid & {*tree.tokens[1:]} for tree in trees), "no end was guessed, so nothing was tested"
    assert [below(tree, unsaid) for tree in trees] == [[]] * len(trees)
    assert max(max(tree.depths) for tree in trees) > 1


def test_an_end_that_was_guessed_ends_the_answer() -> None:
    target = tiny_network("llama")
    prompt = random_prompt(12, seed=3)
    plain = write(target, None, prompt, NEW_TOKENS, budget=0).tokens
    end = next(token for place, token in enumerate(plain) if place > 3 and token not in plain[:place])
    written = write(target, target, prompt, NEW_TOKENS, budget=24, end_tokens=frozenset({end}))
    assert written.tokens == plain[: plain.index(end) + 1]
    last = written.rounds[-1]
    assert last.path.bonus == end
    assert last.tree.child(last.path.nodes[-1], end) is not None


def test_the_text_suggests_nothing_behind_an_end() -> None:
    turn = [7, 8, 9, 2, 5, 6]  # 2 ends an answer, and the next question follows
    index, known = NgramIndex(frozenset({2})), NgramIndex()
    for each in (index, known):
        each.read([*turn, *turn, 7])
    tree = index.branches(16, 8, math.log(0.001))
    assert tree.tokens == (7, 8, 9, 2)
    assert known.branches(16, 8, math.log(0.001)).tokens[:6] == (7, 8, 9, 2, 5, 6)


def test_what_ended_something_before_goes_on() -> None:
    """A prompt may end with the token that answers end with."""
    network = tiny_network("llama")
    prompt = [*random_prompt(6, seed=1), 5]
    written = write(network, network, prompt, 4, budget=8, end_tokens=frozenset({5}))
    assert written.rounds[0].tree.drafted == 8

"""What a text suggests: what it said before, nothing else; long agreements and frequent tokens first."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.speculation.methods.lookup import NgramIndex
from engine.speculation.trees.tree import Tree
from tests.campaigns.extent import choose

ANYTHING = -math.inf


def paths_of(tree: Tree) -> list[tuple[int, ...]]:
    """Every node's tokens behind the root."""
    paths: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree)):
        paths.append((*paths[tree.parents[node]], tree.tokens[node]))
    return paths


def after(text: list[int], budget: int = 8, depth: int = 8, least: float = ANYTHING) -> Tree:
    index = NgramIndex()
    index.read(text)
    return index.branches(budget, depth, least)


@settings(max_examples=choose(40, 200), deadline=None)
@given(
    text=st.lists(st.integers(0, 4), min_size=1, max_size=80),
    budget=st.integers(0, 40),
    depth=st.integers(0, 12),
    least=st.sampled_from([ANYTHING, -6.0, -1.0]),
)
def test_branches_are_continuations_that_the_text_had(text: list[int], budget: int, depth: int, least: float) -> None:
    tree = after(text, budget, depth, least)  # Tree itself refuses a child before its parent
    paths = paths_of(tree)
    assert tree.tokens[0] == text[-1]
    assert tree.drafted <= budget
    assert max(tree.depths) <= depth
    assert len(set(paths)) == len(paths), "siblings carry different tokens"
    for node, parent in enumerate(tree.parents[1:], start=1):
        assert max(least, ANYTHING) <= tree.log_probs[node] <= tree.log_probs[parent] <= 0.0
    for path in paths:
        said = [text[-1], *path]
        assert any(text[begin : begin + len(said)] == said for begin in range(len(text))), "it was never said"
    for node in range(len(tree)):
        shares = [
            math.exp(tree.log_probs[child] - tree.log_probs[node])
            for child in range(len(tree))
            if tree.parents[child] == node
        ]
        assert sum(shares) < 1.0, "children share their parent's probability"


def test_what_is_predicted_suggests_as_if_it_had_been_said_before() -> None:
    predicted, text = [1, 2, 3, 4, 5], [9, 8]
    index = NgramIndex(predicted=predicted)
    index.read(text)
    assert index.branches(8, 8, ANYTHING).drafted == 0, "nothing of it was written yet"
    index.read([*text, 2])
    assert index.branches(8, 8, ANYTHING).tokens == (2, 3, 4, 5, 9, 8, 2)
    index.read([*text, 2, 3, 7])
    known = after([*predicted, *text, 2, 3, 7])
    assert index.branches(8, 8, ANYTHING).tokens == known.tokens


def test_what_is_predicted_is_no_record_of_its_own() -> None:
    """It did not show yet how often agreements are right, as the prompt did not."""
    repeated = [1, 2, 3, 4] * 4
    index, fresh = NgramIndex(predicted=repeated), NgramIndex()
    index.read([7, 1, 2])
    fresh.read([*repeated, 7, 1, 2])
    assert index.branches(3, 3, ANYTHING).log_probs == fresh.branches(3, 3, ANYTHING).log_probs


@given(text=st.lists(st.integers(0, 3), min_size=2, max_size=60), cuts=st.lists(st.integers(1, 59), max_size=4))
def test_reading_on_is_reading_all_but_for_the_record(text: list[int], cuts: list[int]) -> None:
    index = NgramIndex()
    for cut in sorted(cuts):
        index.read(text[:cut])
    index.read(text)
    assert set(paths_of(index.branches(1000, 5, ANYTHING))) == set(paths_of(after(text, 1000, 5)))


def test_the_longer_agreement_comes_first() -> None:
    #       behind "7 8 9" came 1, behind other nines came 2, more often and more recently
    text = [7, 8, 9, 1, 0, 9, 2, 0, 0, 9, 2, 5, 7, 8, 9]
    tree = after(text)
    assert tree.tokens[1] == 1
    assert tree.child(0, 2) is not None


def test_the_more_frequent_and_then_the_more_recent_token_comes_first() -> None:
    assert after([5, 1, 5, 2, 5, 1, 5, 3, 5]).tokens[1] == 1
    assert after([5, 1, 0, 5, 2, 0, 5]).tokens[1] == 2


def test_several_continuations_make_several_branches() -> None:
    text = [1, 2, 3, 4, 5, 0, 1, 2, 3, 6, 7, 0, 1, 2, 3]
    paths = paths_of(after(text, budget=20, depth=3))
    assert {(4, 5, 0), (6, 7, 0)} <= set(paths)


def test_a_text_that_copies_is_trusted_more_and_one_that_does_not_is_trusted_less() -> None:
    lines = [list(range(10 * number, 10 * number + 10)) for number in range(6)]
    prompt = [token for line in lines for token in line]

    def confidence(answer: list[int]) -> float:
        index = NgramIndex()
        index.read(prompt)
        index.read([*prompt, *answer])
        tree = index.branches(1, 1, ANYTHING)
        return tree.log_probs[1]

    copying, departing = [*prompt[:35]], [token for line in lines[:5] for token in (*line[:6], 99)] + [51, 52, 53, 54]
    assert confidence(copying) > confidence(prompt[30:35]) > confidence([*departing[:-4], *prompt[30:35]])


def test_what_is_less_likely_than_asked_for_is_left_out() -> None:
    text = [1, 2, 3, 4] * 3
    everything = after(text, budget=50, depth=12)
    least = sorted(everything.log_probs)[len(everything) // 2]
    some = after(text, budget=50, depth=12, least=least)
    assert 1 < len(some) < len(everything)
    assert set(paths_of(some)) == {
        path for path, log_prob in zip(paths_of(everything), everything.log_probs, strict=True) if log_prob >= least
    }


def test_new_words_suggest_nothing() -> None:
    assert after([1, 2, 3, 4]).drafted == 0

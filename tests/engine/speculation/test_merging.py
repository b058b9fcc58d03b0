"""One tree of two: no prefix twice, the best nodes of both, and every node knows where it came from."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.speculation.trees.tree import Tree, enlarge, merge
from tests.campaigns.extent import choose
from tests.engine.speculation.test_ngram_index import paths_of


@st.composite
def trees(draw: st.DrawFn, most: int, scored: bool = False) -> Tree:
    """Trees with probabilities, also 1, that fall from parent to child."""
    tokens, parents, log_probs, scores = [9], [-1], [0.0], [0.0]
    for _ in range(draw(st.integers(0, most))):
        parent, token = draw(st.integers(0, len(tokens) - 1)), draw(st.integers(0, 3))
        if any((parent, token) == known for known in zip(parents, tokens, strict=True)):
            continue
        parents.append(parent)
        tokens.append(token)
        log_probs.append(log_probs[parent] - draw(st.sampled_from([0.0, 0.1, 0.5, 2.0])))
        scores.append(scores[parent] - draw(st.sampled_from([0.0, 0.2, 1.0])))
    return Tree(tuple(tokens), tuple(parents), tuple(log_probs), tuple(scores) if scored else ())


@settings(max_examples=choose(60, 300), deadline=None)
@given(data=st.data(), budget=st.integers(0, 20), scored=st.booleans())
def test_the_best_nodes_of_both_trees_hold_together(data: st.DataObject, budget: int, scored: bool) -> None:
    drafted, branches = data.draw(trees(budget, scored)), data.draw(trees(30))
    merged = merge(drafted, branches, budget)  # Tree itself refuses a child before its parent
    tree, paths = merged.tree, paths_of(merged.tree)
    assert tree.drafted <= budget
    assert len(set(paths)) == len(paths)
    score_of = dict.fromkeys([*paths_of(drafted), *paths_of(branches)], -99.0)
    for source in (drafted, branches):
        for path, score in zip(paths_of(source), source.scores or source.log_probs, strict=True):
            score_of[path] = max(score_of[path], score)
    assert tree.drafted == min(budget, len(score_of) - 1)
    found = tree.scores or tree.log_probs
    assert list(found) == pytest.approx([score_of[path] for path in paths])
    assert sorted(found, reverse=True) == pytest.approx(sorted(score_of.values(), reverse=True)[: len(tree)])
    assert all(tree.log_probs[node] <= tree.log_probs[parent] for node, parent in enumerate(tree.parents) if node)


@given(data=st.data())
def test_every_node_knows_what_it_was_in_the_first_tree(data: st.DataObject) -> None:
    drafted, branches = data.draw(trees(20)), data.draw(trees(20))
    merged = merge(drafted, branches, 20)
    drafted_paths = paths_of(drafted)
    for path, origin in zip(paths_of(merged.tree), merged.origins, strict=True):
        assert (origin is None) == (path not in drafted_paths)
        assert origin is None or drafted_paths[origin] == path


@given(data=st.data())
def test_without_branches_nothing_changes(data: st.DataObject) -> None:
    drafted = data.draw(trees(12))
    assert merge(drafted, Tree((9,), (-1,), (0.0,)), 12).tree == drafted


@given(data=st.data())
def test_an_enlarged_tree_keeps_its_numbers_and_lacks_nothing_of_the_other(data: st.DataObject) -> None:
    tree, further = data.draw(trees(20)), data.draw(trees(20))
    whole = enlarge(tree, further)  # `Tree` itself refuses a child before its parent
    assert paths_of(whole)[: len(tree)] == paths_of(tree)
    assert sorted(paths_of(whole)) == sorted({*paths_of(tree), *paths_of(further)})
    assert whole.log_probs[: len(tree)] == tree.log_probs

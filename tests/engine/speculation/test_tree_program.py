"""Sequoia's dynamic program against every tree there is, and against a search that is exact for sorted vectors."""

import heapq
from collections.abc import Iterator
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InputError
from engine.speculation.trees.tree_program import PRIOR, TreeProgram, TreeShape, best_shape, checked, program_for
from tests.campaigns.extent import choose

Ordered = tuple["Ordered", ...]
"""A tree as the tuple of its root's subtrees, by rank."""


@lru_cache
def trees(nodes: int) -> tuple[Ordered, ...]:
    """Every ordered tree of exactly so many nodes."""
    return tuple(forests(nodes - 1))


def forests(nodes: int) -> Iterator[tuple[Ordered, ...]]:
    if nodes == 0:
        yield ()
    for first in range(1, nodes + 1):
        for tree in trees(first):
            for rest in forests(nodes - first):
                yield (tree, *rest)


def levels_of(tree: Ordered) -> int:
    return 1 + max((levels_of(child) for child in tree), default=0)


def widest(tree: Ordered) -> int:
    return max([len(tree), *(widest(child) for child in tree)])


def expected(tree: Ordered, acceptance: tuple[float, ...]) -> float:
    return 1.0 + sum(p * expected(child, acceptance) for p, child in zip(acceptance, tree, strict=False))


def brute_force(acceptance: tuple[float, ...], nodes: int, levels: int) -> float:
    return max(
        expected(tree, acceptance)
        for size in range(1, nodes + 1)
        for tree in trees(size)
        if levels_of(tree) <= levels and widest(tree) <= len(acceptance)
    )


def as_vector(weights: list[float], total: float) -> tuple[float, ...]:
    return tuple(weight / max(1e-9, sum(weights)) * total for weight in weights)


def test_the_reference_knows_every_tree() -> None:
    assert [len(trees(size)) for size in range(1, 9)] == [1, 1, 2, 5, 14, 42, 132, 429]  # the Catalan numbers


@settings(max_examples=choose(12, 60), deadline=None)
@given(
    weights=st.lists(st.floats(0, 1), min_size=1, max_size=5),
    total=st.floats(0, 1),
    nodes=st.integers(1, 8),
    levels=st.integers(1, 9),
)
def test_the_programme_finds_the_best_of_all_trees(weights: list[float], total: float, nodes: int, levels: int) -> None:
    """Also where the vector is not sorted, is all zeros, or allows fewer nodes than are asked for."""
    acceptance = as_vector(weights, total)
    best = brute_force(acceptance, nodes, levels)
    program = TreeProgram(acceptance, 8, 9)
    assert program.gain(nodes, levels) == pytest.approx(best, abs=1e-12)
    shape = program.shape(nodes, levels)
    assert shape.expected_tokens(acceptance) == pytest.approx(best, abs=1e-12)
    assert len(shape) <= nodes
    assert shape.levels <= levels
    assert all(len(children) <= len(acceptance) for children in shape.children)


def likeliest_nodes(acceptance: tuple[float, ...], nodes: int, levels: int) -> float:
    """For a vector that never rises no node is worth more than its parent or the sibling before it, so that the most
    valuable nodes form a tree, and no tree is better."""
    total, heap = 0.0, [(-1.0, 0, 0, 1.0)]  # value, rank, depth, the parent's value
    for _ in range(nodes):
        if not heap:
            break
        value, rank, depth, parent = heapq.heappop(heap)
        total -= value
        if depth and rank + 1 < len(acceptance):
            heapq.heappush(heap, (-parent * acceptance[rank + 1], rank + 1, depth, parent))
        if depth + 1 < levels:
            heapq.heappush(heap, (value * acceptance[0], 0, depth + 1, -value))
    return total


@pytest.mark.parametrize("acceptance", [PRIOR, (0.9, *[0.1 / 31] * 31), (0.3, 0.2, 0.15, 0.1), (1.0,)])
@pytest.mark.parametrize(("nodes", "levels"), choose([(257, 16), (65, 7)], [(1024, 32), (1000, 4), (65, 7), (130, 3)]))
def test_large_trees_are_as_good_as_the_likeliest_nodes(acceptance: tuple[float, ...], nodes: int, levels: int) -> None:
    program = program_for(acceptance, nodes, levels)
    assert program.gain(nodes, levels) == pytest.approx(likeliest_nodes(acceptance, nodes, levels), rel=1e-12)
    shape = program.shape(nodes, levels)
    assert shape.expected_tokens(acceptance) == pytest.approx(program.gain(nodes, levels), rel=1e-12)
    assert len(shape) <= nodes
    assert shape.levels <= levels


def test_a_shape_is_numbered_level_by_level() -> None:
    shape = best_shape(PRIOR, 200, 12)
    assert shape.parents[0] == -1
    assert list(shape.parents) == sorted(shape.parents)
    assert [child for children in shape.children for child in children] == list(range(1, 200))


def test_known_trees() -> None:
    assert best_shape((0.5, 0.3), 1, 9) == TreeShape((-1,))
    assert best_shape((1.0,), 4, 9) == TreeShape((-1, 0, 1, 2))
    assert best_shape((0.6, 0.4), 9, 2) == TreeShape((-1, 0, 0))
    assert best_shape((0.0, 0.0), 5, 5) == TreeShape((-1,)), "nodes that are never accepted are not worth their pass"
    assert best_shape((0.0, 0.9), 3, 2) == TreeShape((-1, 0, 0)), "a second child needs a first"


@pytest.mark.parametrize(
    ("acceptance", "words"),
    [
        ([], "empty"),
        ([0.6, -0.1], "-0.1, which is no probability"),
        ([1.5], "1.5, which is no probability"),
        ([float("nan")], "nan, which is no probability"),
        ([float("inf")], "inf, which is no probability"),
        ([0.7, 0.4], "sums to 1.1"),
        ([0.001] * 65, "65 numbers"),
    ],
)
def test_what_is_no_acceptance_vector_is_refused(acceptance: list[float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        checked(acceptance)


def test_a_sum_that_is_one_but_for_rounding_is_one() -> None:
    assert checked([0.1] * 10) == (0.1,) * 10


@pytest.mark.parametrize(("nodes", "levels"), [(0, 5), (4097, 5), (5, 0), (5, 257)])
def test_sizes_out_of_range_are_refused(nodes: int, levels: int) -> None:
    with pytest.raises(InputError, match="out of range"):
        best_shape(PRIOR, nodes, levels)

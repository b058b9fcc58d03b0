"""Whatever the tree and the room: chips never overlap, nothing is lost, and what matters is shown."""

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tree.picture.chips.chips_layout import Extent, Layout, Place, arrange
from app.tree.rounds.snapshot import Snapshot, snapshot
from engine.protocol.messages import Round
from tests.app.tree.trees import random_round, round_of

GAP, LINK = 10.0, 4.0


@st.composite
def trees(draw: st.DrawFn) -> Snapshot:
    """Any tree, in any order that puts parents before children, and any accepted path, with its bonus token or not."""
    nodes = draw(st.integers(1, 60))
    parents, log_probs = [-1], [0.0]
    for node in range(1, nodes):
        parents.append(draw(st.integers(0, node - 1)))
        log_probs.append(log_probs[parents[-1]] - draw(st.sampled_from((0.0, 0.1, 0.7, 2.0, 9.0))))
    path, steps = [0], draw(st.integers(0, nodes))
    while len(path) <= steps and (children := [node for node in range(nodes) if parents[node] == path[-1]]):
        path.append(draw(st.sampled_from(children)))
    tree = snapshot(round_of(list(range(nodes)), parents, log_probs, tuple(path)))
    return tree if draw(st.booleans()) else replace(tree, has_bonus=False)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Snapshot, Layout, Extent]:
    """A tree laid out in any room."""
    tree = draw(trees())
    extent = Extent(draw(st.integers(1, 30)), draw(st.floats(0, 600)), GAP, LINK)
    widths = draw(st.lists(st.integers(5, 80), min_size=tree.drafted + 1, max_size=tree.drafted + 1))
    return tree, arrange(tree, widths, draw(st.integers(5, 80)), extent), extent


def every_place(layout: Layout) -> list[Place]:
    return [*layout.places.values(), *([layout.bonus] if layout.bonus else [])]


@settings(deadline=None)
@given(layouts())
def test_chips_of_a_row_never_touch(case: tuple[Snapshot, Layout, Extent]) -> None:
    _, layout, _ = case
    for one, other in combinations(every_place(layout), 2):
        assert one.row != other.row or one.right + LINK <= other.left or other.right + LINK <= one.left


@settings(deadline=None)
@given(layouts())
def test_children_stand_right_behind_their_parent_and_never_above_it(case: tuple[Snapshot, Layout, Extent]) -> None:
    tree, layout, _ = case
    for node, place in layout.places.items():
        if node:
            parent = layout.places[int(tree.parents[node])]
            forks = (tree.parents == tree.parents[node]).sum() > 1 or bool(
                layout.bonus and tree.parents[node] == tree.tip
            )
            assert place.left == pytest.approx(parent.right + (GAP if forks else LINK))
            assert place.row >= parent.row
    assert (layout.bonus is not None) == tree.has_bonus
    if layout.bonus:
        tip = layout.places[tree.tip]
        assert layout.bonus.row == tip.row
        assert layout.bonus.left == pytest.approx(tip.right + GAP)


@settings(deadline=None)
@given(layouts())
def test_accepted_path_is_always_shown(case: tuple[Snapshot, Layout, Extent]) -> None:
    tree, layout, _ = case
    assert set(tree.accepted) <= set(layout.places)


@settings(deadline=None)
@given(layouts())
def test_folded_counts_add_up_to_the_tree(case: tuple[Snapshot, Layout, Extent]) -> None:
    tree, layout, _ = case
    assert len(layout.places) + sum(layout.folded.values()) == tree.drafted + 1
    assert set(layout.folded) <= set(layout.places)
    assert all(layout.folded.values())


@settings(deadline=None)
@given(layouts())
def test_shown_children_are_the_likeliest_ones_and_the_best_stands_on_its_parents_row(
    case: tuple[Snapshot, Layout, Extent],
) -> None:
    tree, layout, _ = case
    for node, place in layout.places.items():
        children = [child for child in range(tree.drafted + 1) if tree.parents[child] == node]
        ranked = sorted(children, key=lambda child: (-tree.log_probs[child], child))
        shown = [child for child in ranked if child in layout.places]
        unforced = [child for child in shown if child not in tree.accepted]
        assert unforced == [child for child in ranked if child not in tree.accepted][: len(unforced)]
        rows = [layout.places[child].row for child in shown]
        assert rows == sorted(set(rows))
        if rows:
            assert rows[0] == place.row + (layout.bonus is not None and node == tree.tip)


@settings(deadline=None)
@given(layouts())
def test_picture_stays_within_its_room_unless_the_path_needs_more(case: tuple[Snapshot, Layout, Extent]) -> None:
    tree, layout, extent = case
    assert layout.rows == 1 + max(place.row for place in every_place(layout)) <= extent.rows
    assert {place.row for place in every_place(layout)} == set(range(layout.rows))
    path_end = layout.bonus.right if layout.bonus else layout.places[tree.tip].right
    assert layout.width == max(place.right for place in every_place(layout)) <= max(extent.width, path_end)


@settings(deadline=None)
@given(layouts())
def test_no_edge_runs_under_a_chip_or_a_count(case: tuple[Snapshot, Layout, Extent]) -> None:
    """An edge lies in the gap behind its parent; whatever stands in the rows that it passes begins behind that gap."""
    tree, layout, _ = case
    ends = [(layout.places[int(tree.parents[node])], place) for node, place in layout.places.items() if node]
    if layout.bonus:
        ends.append((layout.places[tree.tip], layout.bonus))
    for parent, child in ends:
        passed = [place for place in every_place(layout) if parent.row < place.row <= child.row]
        assert all(place.left >= child.left for place in passed)


@settings(deadline=None)
@given(trees(), st.integers(1, 8))
def test_rows_go_to_the_likeliest_nodes(tree: Snapshot, rows: int) -> None:
    layout = arrange(tree, [1] * (tree.drafted + 1), 1, Extent(rows, 1e9, GAP, LINK))
    parents, path = tree.parents.tolist(), set(tree.accepted)
    opened = [
        tree.log_probs[node]
        for node, place in layout.places.items()
        if node not in path and place.row != layout.places[parents[node]].row
    ]
    refused = [
        tree.log_probs[node]
        for node in range(tree.drafted + 1)
        if node not in layout.places and parents[node] in layout.places
    ]
    assert not opened or not refused or min(opened) >= max(refused)


def test_same_tree_same_layout() -> None:
    first, second = (_arranged(random_round(300, seed=5), Extent(20, 700.0, GAP, LINK)) for _ in range(2))
    assert first == second


def test_bonus_token_moves_nothing_but_what_stands_behind_it() -> None:
    tree, extent = snapshot(random_round(120, seed=4)), Extent(10_000, 1e9, GAP, LINK)
    widths = [30] * 121
    before, after = (arrange(each, widths, 30, extent) for each in (replace(tree, has_bonus=False), tree))
    behind = {node for node in range(121) if tree.tip in ancestors(tree, node)}
    assert before.bonus is None
    last = max(after.places[node].row for node in behind | {tree.tip})
    for node in set(before.places) - behind:
        old, new = before.places[node], after.places[node]
        assert (new.left, new.row) == (old.left, old.row + (new.row > last))


def ancestors(tree: Snapshot, node: int) -> set[int]:
    found = set()
    while node > 0:
        node = int(tree.parents[node])
        found.add(node)
    return found


def test_everything_is_shown_where_there_is_room() -> None:
    layout = _arranged(random_round(200, seed=1), Extent(10_000, 1e9, GAP, LINK))
    assert len(layout.places) == 201
    assert not layout.folded


def test_more_room_never_moves_a_node_sideways() -> None:
    small, large = (_arranged(random_round(400, seed=2), Extent(rows, 900.0, GAP, LINK)) for rows in (15, 40))
    assert len(small.places) < len(large.places)
    shared = set(small.places) & set(large.places)
    assert all(small.places[node].left == large.places[node].left for node in shared)


def test_nodes_keep_their_order_from_top_to_bottom_when_more_are_shown() -> None:
    small, large = (_arranged(random_round(400, seed=3), Extent(rows, 1e9, GAP, LINK)) for rows in (15, 40))
    order = sorted(small.places, key=lambda node: (small.places[node].row, small.places[node].left))
    for one, other in pairwise(order):
        assert large.places[one][:2] < large.places[other][:2]


def test_root_alone_stands_before_the_bonus_token() -> None:
    layout = arrange(snapshot(round_of([7], [-1], [0.0], (0,))), [30], 40, Extent(10, 300.0, GAP, LINK))
    assert layout.places == {0: Place(0, 0.0, 30)}
    assert layout.bonus == Place(0, 40.0, 40)
    assert (layout.rows, layout.folded) == (1, {})


def test_path_longer_than_the_room_is_shown_in_full() -> None:
    chain = snapshot(round_of(list(range(9)), list(range(-1, 8)), [0.0] * 9, tuple(range(9))))
    layout = arrange(chain, [50] * 9, 50, Extent(3, 120.0, GAP, LINK))
    assert list(layout.places) == list(range(9))
    assert layout.width == 8 * (50 + LINK) + 50 + GAP + 50


def _arranged(round: Round, extent: Extent) -> Layout:
    tree = snapshot(round)
    return arrange(tree, [20 + 7 * (node % 5) for node in range(tree.drafted + 1)], 30, extent)

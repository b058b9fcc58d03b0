"""Trees in lines: chips never overlap, edges run where no chip is, nothing is lost, and the path is whole."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tree.picture.chips.chips_layout import Extent, Layout, Place
from app.tree.picture.chips.lines_layout import Lines
from app.tree.picture.picture import BONUS_NODE
from app.tree.rounds.snapshot import Snapshot, snapshot
from tests.app.tree.recorded import NAMES, recorded_trees
from tests.app.tree.test_chips_layout import GAP, LINK, trees
from tests.app.tree.trees import round_of
from tests.campaigns.extent import choose

INDENT, BONUS_WIDTH = 16.0, 40


@st.composite
def settings_of_lines(draw: st.DrawFn) -> tuple[Snapshot, Layout, Extent]:
    """A tree laid out in any room."""
    tree = draw(trees())
    widths = draw(st.lists(st.integers(5, 80), min_size=tree.drafted + 1, max_size=tree.drafted + 1))
    extent = Extent(draw(st.integers(1, 30)), draw(st.floats(80, 600)), GAP, LINK, INDENT)
    return tree, Lines(tree, widths, BONUS_WIDTH).fill(extent), extent


def places_of(layout: Layout) -> dict[int, Place]:
    return {**layout.places, **({BONUS_NODE: layout.bonus} if layout.bonus else {})}


def parent_of(tree: Snapshot, node: int) -> int:
    return tree.tip if node == BONUS_NODE else int(tree.parents[node])


def check_that_chips_never_touch(_tree: Snapshot, layout: Layout, extent: Extent) -> None:
    lines: dict[int, list[Place]] = {}
    for place in places_of(layout).values():
        lines.setdefault(place.row, []).append(place)
        assert place.right <= extent.width
    assert set(lines) == set(range(layout.rows))
    for line in lines.values():
        line.sort(key=lambda place: place.left)
        assert all(one.right + LINK <= other.left for one, other in pairwise(line))


def check_that_nothing_is_lost(tree: Snapshot, layout: Layout, extent: Extent) -> None:
    assert set(tree.accepted) <= set(layout.places)
    assert (layout.bonus is not None) == tree.has_bonus
    assert all(parent_of(tree, node) in layout.places for node in layout.places if node)
    assert len(layout.places) + sum(layout.folded.values()) == tree.drafted + 1
    beside_the_path = len(layout.places) > len(tree.accepted)
    assert layout.rows <= extent.rows or not beside_the_path


def check_that_gutters_belong_to_one_token(tree: Snapshot, layout: Layout, _extent: Extent) -> None:
    places, above = places_of(layout), dict[int, int]()
    for node, place in places.items():
        if node:
            parent = parent_of(tree, node)
            assert places[parent].row <= place.row
            if places[parent].row < place.row:
                assert above.setdefault(place.row, parent) == parent


def check_that_no_edge_runs_over_a_chip(tree: Snapshot, layout: Layout, _extent: Extent) -> None:
    places = places_of(layout)
    for node, place in places.items():
        if not node:
            continue
        parent = parent_of(tree, node)
        below = [other for other in places if other and parent_of(tree, other) == parent]
        column = (
            min(places[other].left for other in below if places[other].row > places[parent].row)
            if (place.row > places[parent].row)
            else 0.0
        )
        passed = [other for other in places.values() if places[parent].row < other.row < place.row]
        assert all(other.left >= column + INDENT for other in passed)


@settings(deadline=None, max_examples=choose(50, 400))
@given(settings_of_lines())
def test_lines_are_sound(case: tuple[Snapshot, Layout, Extent]) -> None:
    check_that_chips_never_touch(*case)
    check_that_nothing_is_lost(*case)
    check_that_gutters_belong_to_one_token(*case)
    check_that_no_edge_runs_over_a_chip(*case)


@settings(deadline=None, max_examples=choose(30, 300))
@given(trees(), st.integers(1, 25), st.floats(100, 500))
def test_the_path_is_read_from_top_to_bottom_at_the_left(tree: Snapshot, rows: int, width: float) -> None:
    layout = Lines(tree, [30] * (tree.drafted + 1), 30).fill(Extent(rows, width, GAP, LINK, INDENT))
    path = [layout.places[node] for node in tree.accepted] + ([layout.bonus] if layout.bonus else [])
    for one, other in pairwise(path):
        assert (one.row, one.left) < (other.row, other.left)
        assert other.left == 0 or other.row == one.row


def test_a_chain_is_wrapped_like_text() -> None:
    chain = snapshot(round_of(list(range(9)), list(range(-1, 8)), [0.0] * 9, tuple(range(9))))
    layout = Lines(chain, [50] * 9, 50).fill(Extent(5, 170.0, GAP, LINK, INDENT))
    assert [place.row for place in layout.places.values()] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert layout.bonus == Place(3, 0.0, 50)


@pytest.mark.parametrize("name", NAMES)
def test_more_lines_show_no_fewer_nodes(name: str) -> None:
    tree = recorded_trees()[name]
    lines = Lines(tree, [40] * (tree.drafted + 1), 40)
    seen = [len(lines.fill(Extent(rows, 400.0, GAP, LINK, INDENT)).places) for rows in (20, 30, 45)]
    assert seen == sorted(seen)


def test_whole_shows_all_in_as_many_lines_as_that_takes() -> None:
    lines = Lines(recorded_trees()["easy 64"], [40] * 65, 40)
    for rows in (8, 60):
        layout = lines.whole(Extent(rows, 300.0, GAP, LINK, INDENT))
        assert len(layout.places) == 65
        assert not layout.folded
        assert 8 < layout.rows <= 60

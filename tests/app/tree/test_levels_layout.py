"""Trees that grow downwards: chips never overlap, nothing is lost, the path is whole, the direction suits the tree."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tree.picture.chips.chips_fitting import compose_chips
from app.tree.picture.chips.chips_layout import Extent, Place
from app.tree.picture.chips.chips_picture import ChipsPicture
from app.tree.picture.chips.levels_layout import arrange_in_levels
from app.tree.picture.picture import BONUS_NODE, Size, Type
from app.tree.rounds.snapshot import Snapshot, snapshot
from tests.app.tree.test_chips_layout import GAP, LINK, trees
from tests.app.tree.trees import random_round, round_of

TEXT = Type(line=17.0, gap=27.0, link=10.0, lead=80.0)
DOCK, WIDE = Size(420, 700), Size(1600, 900)


def composed(tree: Snapshot, view: Size, before: ChipsPicture | None = None, zoom: float = 1.0) -> ChipsPicture:
    widths = [30 + 10 * (node % 4) for node in range(tree.drafted + 1)]
    return compose_chips(tree, widths, 40, view=view, zoom=zoom, text=TEXT, before=before)


def chain(nodes: int, accepted: int) -> Snapshot:
    return snapshot(round_of(list(range(nodes)), list(range(-1, nodes - 1)), [0.0] * nodes, tuple(range(accepted))))


def bush(nodes: int) -> Snapshot:
    return snapshot(round_of(list(range(nodes)), [-1] + [0] * (nodes - 1), [0.0] + [-1.0] * (nodes - 1), (0,)))


def comb(teeth: int, length: int) -> Snapshot:
    """Chains that all begin at the root."""
    parents = [-1, *(node - 1 if (node - 1) % length else 0 for node in range(1, teeth * length + 1))]
    log_probs = [0.0, *(-1.0 - (node - 1) // length for node in range(1, teeth * length + 1))]
    return snapshot(round_of(list(range(len(parents))), parents, log_probs, (0, 1)))


@settings(deadline=None)
@given(trees(), st.integers(1, 30), st.floats(0, 600), st.lists(st.integers(5, 80), min_size=60, max_size=60))
def test_chips_of_a_level_never_touch_and_nothing_is_lost(
    tree: Snapshot, rows: int, width: float, widths: list[int]
) -> None:
    layout = arrange_in_levels(tree, widths[: tree.drafted + 1], 40, Extent(rows, width, GAP, LINK))
    every = [*layout.places.items(), *([(BONUS_NODE, layout.bonus)] if layout.bonus else [])]
    levels: dict[int, list[Place]] = {}
    for node, place in every:
        levels.setdefault(place.row, []).append(place)
        assert node == BONUS_NODE or place.row == tree.depths[node]
        assert place.left == 0 or place.right <= width
    for level in levels.values():
        assert all(one.right + GAP <= other.left for one, other in pairwise(sorted(level, key=lambda each: each.left)))
    assert set(tree.accepted) <= set(layout.places)
    assert all(not layout.places[node].left for node in tree.accepted)
    assert all(int(tree.parents[node]) in layout.places for node in layout.places if node)
    assert len(layout.places) + sum(layout.folded.values()) == tree.drafted + 1


@pytest.mark.parametrize("accepted", [2, 14, 33])
def test_a_long_path_stands_whole_in_a_narrow_dock(accepted: int) -> None:
    picture = composed(chain(accepted + 1, accepted), DOCK)
    assert picture.layout.is_downward == (accepted > 2)
    home = picture.home()
    for node in picture.path:
        box = picture.chip(node)
        assert home.x <= box.x < box.x + box.width <= home.x + DOCK.width
        assert home.y <= box.y < box.y + box.height <= home.y + DOCK.height


def test_a_tree_grows_to_the_right_where_that_shows_all_of_it_in_large_letters() -> None:
    assert not composed(comb(6, 4), WIDE).layout.is_downward
    assert composed(chain(30, 9), WIDE).layout.is_downward, "one row in an empty panel"
    assert composed(bush(30), DOCK).layout.is_downward, "small letters in a column"


def test_all_of_64_nodes_are_seen_in_a_dock_and_in_a_window() -> None:
    """These trees are bushier than a model's."""
    for seed in range(8):
        tree = snapshot(random_round(64, seed))
        assert composed(tree, DOCK).shown >= 40
        assert composed(tree, WIDE).shown == 64


def test_what_grows_turns_downwards_where_it_would_be_folded_and_never_back() -> None:
    growing = replace(bush(5), has_bonus=False, is_verified=False, number=2)
    begun = composed(growing, DOCK)
    assert not begun.layout.is_downward
    deep = composed(replace(chain(30, 1), has_bonus=False, is_verified=False, number=2), DOCK, begun)
    assert deep.layout.is_downward
    assert composed(growing, DOCK, deep).layout.is_downward


def test_zooming_never_turns_a_tree_over() -> None:
    for tree in (chain(15, 4), bush(25), *(snapshot(random_round(nodes, nodes)) for nodes in (16, 32, 64))):
        before = composed(tree, DOCK)
        for step in (1.25, 1.6, 2.0, 2.4, 3.0, 2.0, 1.0):
            zoomed = composed(tree, DOCK, before, step)
            assert zoomed.layout.is_downward == before.layout.is_downward
            before = zoomed


def test_the_middle_of_every_chip_leads_back_to_its_node() -> None:
    picture = composed(chain(40, 20), DOCK)
    assert picture.layout.is_downward
    for node in (*picture.layout.places, BONUS_NODE):
        box = picture.chip(node)
        middle = type(picture.home())(box.x + box.width / 2, box.y + box.height / 2)
        assert picture.node_at(middle) == node

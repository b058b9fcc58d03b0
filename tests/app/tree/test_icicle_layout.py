"""Whatever the tree: bands nest, never overlap, follow the probabilities, and what was chosen is readable."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tree.picture.icicle_layout import THINNEST, Bands, IciclePicture, compose_icicle, stack
from app.tree.picture.picture import BONUS_NODE, Point, Size, Type, Way
from app.tree.rounds.snapshot import Snapshot, partial, snapshot
from tests.app.tree.test_chips_layout import trees
from tests.app.tree.trees import random_round, round_of
from tests.campaigns.extent import choose

LEAST = 20.0
TEXT = Type(line=15.0, gap=20.0, link=9.0, lead=80.0)


@st.composite
def stacks(draw: st.DrawFn) -> tuple[Snapshot, Bands, float]:
    tree = draw(trees())
    height = draw(st.floats(1, 3000))
    return tree, stack(tree, height, LEAST), height


def children_of(tree: Snapshot, node: int) -> list[int]:
    return [child for child in range(1, len(tree.pieces)) if tree.parents[child] == node]


@settings(deadline=None)
@given(stacks())
def test_bands_nest_and_siblings_stand_one_below_the_other(case: tuple[Snapshot, Bands, float]) -> None:
    tree, bands, height = case
    assert (bands.tops[0], bands.heights[0]) == (0, height)
    for node in range(len(tree.pieces)):
        children = sorted(children_of(tree, node), key=lambda child: (-tree.log_probs[child], child))
        edges = [(float(bands.tops[child]), float(bands.tops[child] + bands.heights[child])) for child in children]
        if bands.bonus and node == tree.tip:
            edges.insert(0, (bands.bonus[0], bands.bonus[0] + bands.bonus[1]))
        end = float(bands.tops[node])
        for top, bottom in edges:
            assert top >= end - 1e-6
            end = bottom
        assert end <= bands.tops[node] + bands.heights[node] + 1e-6


@settings(deadline=None)
@given(stacks())
def test_accepted_path_is_shown_and_readable(case: tuple[Snapshot, Bands, float]) -> None:
    tree, bands, height = case
    assert bands.shown[list(tree.accepted)].all()
    assert (bands.heights[list(tree.accepted)] >= min(height, 2 * LEAST) - 1e-6).all()
    assert (bands.bonus is not None) == tree.has_bonus
    if bands.bonus:
        assert bands.bonus[1] >= min(height, LEAST) - 1e-6


@settings(deadline=None)
@given(stacks())
def test_folded_counts_add_up_and_whatever_is_shown_hangs_on_something_shown(
    case: tuple[Snapshot, Bands, float],
) -> None:
    tree, bands, _ = case
    assert bands.shown.sum() + sum(bands.folded.values()) == len(tree.pieces)
    assert all(bands.shown[node] for node in bands.folded)
    assert bands.shown[tree.parents[1:]][bands.shown[1:]].all()
    assert bands.shown[bands.nearest].all()
    thin = bands.heights < THINNEST
    thin[list(tree.accepted)] = False
    assert not bands.shown[thin].any()


def test_heights_follow_the_root_of_the_path_probability() -> None:
    tree = snapshot(round_of([0, 1, 2, 3], [-1, 0, 0, 1], list(np.log([1, 0.25, 0.04, 0.01])), (0,)))
    bands = stack(replace(tree, has_bonus=False), 1000.0, LEAST)
    assert bands.heights.tolist() == pytest.approx([1000, 500, 200, 100])


@settings(deadline=None)
@given(trees(), st.integers(2, 60))
def test_siblings_keep_their_order_while_the_tree_grows(tree: Snapshot, nodes: int) -> None:
    small = stack(partial(tree, min(nodes, len(tree.pieces)), 0), 2000.0, LEAST)
    large = stack(replace(partial(tree, len(tree.pieces), 0)), 2000.0, LEAST)
    for parent in range(len(small.tops)):
        siblings = [child for child in children_of(tree, parent) if child < len(small.tops)]
        before, after = (sorted(siblings, key=lambda child: (bands.tops[child], -bands.heights[child], child))
                         for bands in (small, large))  # fmt: skip
        positive = [child for child in siblings if small.heights[child] > 0 and large.heights[child] > 0]
        assert [child for child in before if child in positive] == [child for child in after if child in positive]


def picture_of(nodes: int, view: Size, zoom: float = 1.0) -> IciclePicture:
    tree = snapshot(random_round(nodes, seed=3))
    return compose_icicle(tree, [40.0] * (len(tree.accepted) + 1), view=view, zoom=zoom, text=TEXT)


@pytest.mark.parametrize("nodes", [0, 1, 16, 256, *choose([], [4096])])
@pytest.mark.parametrize("view", [Size(1100, 760), Size(380, 620)])
def test_middle_of_every_band_leads_back_to_its_node(nodes: int, view: Size) -> None:
    picture = picture_of(nodes, view)
    for node in (*picture.nodes(), BONUS_NODE):
        box = picture.chip(node)
        assert picture.node_at(Point(box.x + box.width / 2, box.y + box.height / 2)) == node
    assert picture.node_at(Point(-1, 50)) is None
    assert picture.node_at(Point(picture.size.width + 1, 50)) is None


@pytest.mark.parametrize("view", [Size(720, 600), Size(1100, 760)])
def test_parents_stand_left_of_their_children_and_columns_of_the_path_are_readable(view: Size) -> None:
    picture = picture_of(1024, view)
    for node in picture.nodes():
        if node:
            parent, box = picture.chip(int(picture.tree.parents[node])), picture.chip(node)
            assert parent.x + parent.width == box.x
    assert all(picture.chip(node).width >= 33 for node in picture.path)


@pytest.mark.parametrize("nodes", [16, 256, 1024])
def test_in_a_tall_view_parents_stand_above_their_children_and_the_path_is_readable(nodes: int) -> None:
    picture = picture_of(nodes, Size(380, 620))
    assert picture.is_downward
    for node in picture.nodes():
        if node:
            parent, box = picture.chip(int(picture.tree.parents[node])), picture.chip(node)
            assert parent.y + parent.height == box.y
            assert parent.x - 0.01 <= box.x <= box.x + box.width <= parent.x + parent.width + 0.01
    for node in picture.path:
        box = picture.chip(node)
        assert box.height >= TEXT.line
        assert box.y + box.height <= 620
    assert all(picture.chip(node).width >= 4 * TEXT.line for node in picture.tree.accepted)


def test_a_long_path_stays_in_view_in_narrower_columns() -> None:
    path = tuple(range(24))
    tree = snapshot(round_of(list(path), [-1, *path[:-1]], [0.0] * 24, path))
    picture = compose_icicle(tree, [90.0] * 25, view=Size(720, 700), zoom=1, text=TEXT)
    assert picture.chip(BONUS_NODE).x + picture.chip(BONUS_NODE).width <= 720


def test_zoom_shows_more_and_ends_where_all_is_readable() -> None:
    shown = [picture_of(1024, Size(1100, 760), zoom).shown for zoom in (1, 4, 16, 64)]
    assert shown[0] < shown[1] < shown[2] == shown[3] == 1024
    few = picture_of(3, Size(1100, 760), zoom=8)
    assert few.is_exhausted
    assert not picture_of(4096, Size(1100, 760)).is_exhausted


def test_keys_lead_along_the_tree() -> None:
    tree = snapshot(round_of([0, 1, 2, 3], [-1, 0, 0, 1], [0, -0.5, -1, -0.6], (0, 1)))
    picture = compose_icicle(tree, [40.0] * 3, view=Size(800, 600), zoom=1, text=TEXT)
    assert picture.neighbour(0, Way.PARENT) == 0
    assert picture.neighbour(0, Way.CHILD) == 1
    assert picture.neighbour(1, Way.CHILD) == BONUS_NODE
    assert picture.neighbour(BONUS_NODE, Way.PARENT) == 1
    assert picture.neighbour(BONUS_NODE, Way.DOWN) == 3
    assert picture.neighbour(1, Way.DOWN) == 2
    assert picture.neighbour(2, Way.UP) == 1
    assert picture.neighbour(2, Way.DOWN) == 2
    tall = compose_icicle(tree, [40.0] * 3, view=Size(380, 600), zoom=1, text=TEXT)
    assert tall.neighbour(0, Way.DOWN) == 1
    assert tall.neighbour(1, Way.CHILD) == 2
    assert tall.neighbour(2, Way.PARENT) == 1
    assert tall.neighbour(1, Way.PARENT) == 0


@pytest.mark.parametrize("nodes", [16, 64, 1024])
def test_texts_are_counted_where_deep_levels_are_folded_away(nodes: int) -> None:
    for height in (8.0, 20.0, 60.0):
        picture = picture_of(nodes, Size(300, height))
        assert 0 <= picture.readable(np.zeros(nodes + 1), 0.0) <= picture.shown + 2, "root and bonus token count, too"

"""Pictures are legible at every size of the panel, and points lead back to nodes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tree.picture.chips.chips_fitting import compose_chips as compose
from app.tree.picture.chips.chips_picture import ChipsPicture as Picture
from app.tree.picture.picture import BONUS_NODE, Point, Size, Type, confine, reveal
from app.tree.rounds.snapshot import snapshot
from tests.app.tree.trees import random_round, round_of

TEXT = Type(line=15.0, gap=20.0, link=9.0, lead=80.0)
SMALLEST, LARGE = Size(350, 215), Size(1100, 760)
LOW = Size(350, 45)
"""Too low for a path to be wrapped."""


def picture_of(nodes: int, view: Size, zoom: float = 1.0, seed: int = 3) -> Picture:
    tree = snapshot(random_round(nodes, seed))
    widths = [30 + 10 * (node % 6) for node in range(nodes + 1)]
    return compose(tree, widths, 40, view=view, zoom=zoom, text=TEXT)


def chain_of(widths: list[int], view: Size, zoom: float = 1.0) -> Picture:
    """A path of chips of these widths, the bonus token's last."""
    nodes = len(widths) - 1
    tree = snapshot(round_of(list(range(nodes)), list(range(-1, nodes - 1)), [0.0] * nodes, tuple(range(nodes))))
    return compose(tree, widths[:-1], widths[-1], view=view, zoom=zoom, text=TEXT)


@pytest.mark.parametrize("nodes", [0, 1, 16, 64, 256, 1024, 2048])
@pytest.mark.parametrize("view", [SMALLEST, Size(500, 400), LARGE])
def test_fitted_picture_is_legible_and_whole(nodes: int, view: Size) -> None:
    picture = picture_of(nodes, view)
    grid, is_folded = picture.grid, bool(picture.layout.folded)
    assert TEXT.least_row <= grid.row <= TEXT.largest_row
    assert TEXT.least_size <= grid.scale <= (1.0 if is_folded else 2.6 if view == LARGE else 2.2)
    assert TEXT.line <= grid.chip_height < grid.row
    assert picture.size.height <= view.height
    assert picture.layout.bonus
    assert picture.size.width <= view.width


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(60, 1500), st.integers(60, 1500), st.floats(1, 64))
def test_end_of_the_path_is_in_view(nodes: int, width: int, height: int, zoom: float) -> None:
    picture = picture_of(nodes, Size(width, height), zoom)
    home, end = picture.home(), picture.chip(BONUS_NODE)
    if picture.grid.scale == 1.0 and zoom == 1.0:
        assert home.x <= end.x
        assert end.x + end.width <= home.x + width


def test_long_path_moves_the_view_to_a_whole_chip() -> None:
    picture = chain_of([50] * 12, LOW)
    home = picture.home()
    assert home.x > 0
    assert picture.node_at(Point(home.x + 7, picture.chip(5).y + 2)) is not None
    assert picture.chip(BONUS_NODE).x + 50 <= home.x + LOW.width


@settings(deadline=None)
@given(
    st.lists(st.integers(20, 160), min_size=2, max_size=20),
    st.integers(150, 900),
    st.floats(1, 8),
    st.integers(0, 3000),
)
def test_following_cuts_no_token_of_the_path_and_counts_those_before(
    widths: list[int], width: int, zoom: float, x: int
) -> None:
    picture = chain_of(widths, Size(width, 45 / zoom), zoom)
    origin = picture.followed(confine(Point(x, 0), picture.view, picture.size))
    end, hidden = picture.chip(BONUS_NODE), picture.hidden(origin)
    assert origin.x <= end.x
    assert end.x + end.width <= origin.x + width or end.x - origin.x <= picture.lead + 1
    assert not picture.goes_right or (hidden == 0) == (origin.x <= picture.chip(0).x)
    if hidden:
        first = picture.chip(picture.path[hidden])
        assert 0 <= first.x - origin.x - picture.lead < 1


@settings(deadline=None)
@given(st.lists(st.integers(20, 160), min_size=2, max_size=20), st.floats(0, 3000), st.floats(0, 200))
def test_hidden_tokens_are_the_first_of_the_path_and_never_fewer_farther_right(
    widths: list[int], x: float, step: float
) -> None:
    picture = chain_of(widths, LOW)
    near, far = picture.hidden(Point(x, 0)), picture.hidden(Point(x + step, 0))
    assert 0 <= near <= far <= len(widths)
    if near:
        lefts = [picture.chip(node).x - x - picture.lead for node in picture.path]
        assert all(left < 0 for left in lefts[:near])
        assert all(left >= 0 for left in lefts[near:])


@pytest.mark.parametrize("zoom", [1.0, 3.0, 40.0])
def test_middle_of_every_chip_leads_back_to_its_node(zoom: float) -> None:
    picture = picture_of(120, SMALLEST, zoom)
    for node in (*picture.layout.places, BONUS_NODE):
        box = picture.chip(node)
        middle = Point(box.x + box.width / 2, box.y + box.height / 2)
        assert picture.node_at(middle) == node
        assert picture.node_at(Point(box.x - 1, middle.y)) is None
        assert node == BONUS_NODE or picture.nearest(middle) == node


def test_outside_is_nothing() -> None:
    picture = picture_of(20, LARGE)
    assert picture.node_at(Point(-5, -5)) is None
    assert picture.node_at(Point(5000, 5000)) is None


def test_folded_node_stands_with_its_nearest_shown_ancestor() -> None:
    picture = picture_of(1024, SMALLEST)
    hidden = next(node for node in range(1025) if node not in picture.layout.places)
    ancestor = int(picture.tree.parents[hidden])
    while ancestor not in picture.layout.places:
        ancestor = int(picture.tree.parents[ancestor])
    assert picture.chip(hidden) == picture.chip(ancestor)


def test_zoom_unfolds_before_it_magnifies() -> None:
    shown = [len(picture_of(1024, LARGE, zoom).layout.places) for zoom in (1, 2, 4, 64)]
    assert shown == sorted(set(shown))
    assert shown[-1] == 1025
    assert picture_of(1024, LARGE, 4).grid.scale == 1.0
    assert picture_of(1024, LARGE, 64).grid.scale > 1.0
    assert picture_of(6, LARGE, 2).grid.scale > picture_of(6, LARGE).grid.scale


def test_large_letters_get_high_rows() -> None:
    assert Type(line=40.0, gap=50.0, link=20.0, lead=100.0).least_row > 40


@settings(deadline=None)
@given(st.integers(-500, 3000), st.integers(-500, 3000))
def test_view_never_leaves_the_picture(x: int, y: int) -> None:
    origin = confine(Point(x, y), Size(400, 300), Size(1000, 200))
    assert 0 <= origin.x <= 600
    assert origin.y == 0


def test_reveal_moves_no_further_than_needed() -> None:
    picture = picture_of(400, SMALLEST, 6.0)
    box = picture.chip(BONUS_NODE)
    inside = Point(max(0.0, box.x - 100), max(0.0, box.y - 100))
    inside = confine(inside, picture.view, picture.size)
    assert reveal(inside, box, picture.view, picture.size) == inside


@pytest.mark.parametrize("count", [3, 8, 20])
def test_a_count_beside_the_end_of_the_path_is_in_view_too(count: int) -> None:
    picture = chain_of([50] * count, Size(300, 200))
    end, home = picture.chip(BONUS_NODE), picture.home()
    assert end.x + end.width + TEXT.gap <= home.x + picture.view.width

"""While a tree grows, is pruned and is verified, its nodes keep their order, their rows and their columns."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from app.tree.picture.chips.chips_fitting import compose_chips
from app.tree.picture.chips.chips_layout import Extent, Layout, arrange
from app.tree.picture.chips.chips_picture import ChipsPicture
from app.tree.picture.icicle_layout import stack
from app.tree.picture.picture import Size, Type
from app.tree.rounds.snapshot import Snapshot, snapshot
from tests.app.tree.trees import round_of
from tests.campaigns.extent import choose

GAP, LINK = 10.0, 4.0
TEXT = Type(line=15.0, gap=20.0, link=9.0, lead=80.0)

Path = tuple[int, ...]
"""The tokens from the root on: what a node is, whatever its number."""


@st.composite
def growths(draw: st.DrawFn) -> list[Snapshot]:
    """A tree after every batch of the draft: several nodes get children at a time, and only the best stay.

    The last two are whole: not verified, and verified along some path.
    """
    budget, number = draw(st.integers(1, 40)), draw(st.integers(0, 3))
    tokens, parents, log_probs, open_nodes = [0], [-1], [0.0], [0]
    found = []
    for _ in range(draw(st.integers(1, 5))):
        batch = [node for node in open_nodes if draw(st.booleans())] or open_nodes[:1]
        for node in batch:
            open_nodes.remove(node)
            for _ in range(draw(st.integers(1, 4))):
                open_nodes.append(len(tokens))
                tokens.append(len(tokens))
                parents.append(node)
                log_probs.append(log_probs[node] - draw(st.sampled_from((0.0, 0.1, 0.7, 2.0, 9.0))))
        ranked = sorted(range(1, len(tokens)), key=lambda node: (-log_probs[node], node))
        kept = [0, *sorted(ranked[:budget])]  # a parent is never behind its child, so its ancestors are there
        open_nodes = [node for node in open_nodes if node in kept]
        found.append(replace(_tree(tokens, parents, log_probs, kept, (0,), number), has_bonus=False, is_verified=False))
        if not open_nodes:
            break
    last = found[-1]
    path, steps = [0], draw(st.integers(0, 5))
    while len(path) <= steps and (
        below := [node for node in range(1, len(last.parents)) if last.parents[node] == path[-1]]
    ):
        path.append(draw(st.sampled_from(below)))
    return [*found, last, _tree(tokens, parents, log_probs, kept, tuple(path), number)]


def _tree(
    tokens: list[int],
    parents: list[int],
    log_probs: list[float],
    kept: list[int],
    path: tuple[int, ...],
    number: int,
) -> Snapshot:
    place = {node: new for new, node in enumerate(kept)}
    return snapshot(
        round_of(
            [tokens[node] for node in kept],
            [-1, *(place[parents[node]] for node in kept[1:])],
            [log_probs[node] for node in kept],
            path,
            index=number,
        )
    )


def width(token: int) -> int:
    return 20 + 7 * (token % 5)


def arranged(tree: Snapshot, extent: Extent) -> Layout:
    return arrange(tree, [width(token) for token in tree.tokens.tolist()], 30, extent)


def order(layout: Layout, tree: Snapshot) -> list[int]:
    """Tokens, which are different here, from top to bottom and from left to right."""
    ranked = sorted(layout.places, key=lambda node: layout.places[node][:2])
    return [int(tree.tokens[node]) for node in ranked]


def forks(tree: Snapshot) -> dict[int, bool]:
    """Per token, whether several edges leave it."""
    parents, tokens = tree.parents.tolist(), tree.tokens.tolist()
    return {
        token: parents.count(node) > 1 or (tree.has_bonus and node == tree.tip) for node, token in enumerate(tokens)
    }


def before(tree: Snapshot, node: int) -> list[int]:
    """The tokens above a node."""
    found = []
    while node > 0:
        node = int(tree.parents[node])
        found.append(int(tree.tokens[node]))
    return found


@settings(deadline=None, max_examples=choose(30, 150))
@given(growths(), st.integers(1, 30), st.floats(100, 600))
def test_nodes_that_stay_keep_their_order(growth: list[Snapshot], rows: int, room_width: float) -> None:
    extent = Extent(rows, room_width, GAP, LINK)
    for old, new in pairwise(growth):
        one, other = order(arranged(old, extent), old), order(arranged(new, extent), new)
        assert [token for token in one if token in other] == [token for token in other if token in one]


@settings(deadline=None, max_examples=choose(30, 150))
@given(growths())
def test_nodes_that_stay_keep_their_column_unless_a_fork_before_them_comes_or_goes(growth: list[Snapshot]) -> None:
    extent = Extent(1000, 1e9, GAP, LINK)
    for old, new in pairwise(growth):
        one, other = arranged(old, extent), arranged(new, extent)
        old_forks, new_forks = forks(old), forks(new)
        lefts = {int(new.tokens[node]): place.left for node, place in other.places.items()}
        for node, place in one.places.items():
            token = int(old.tokens[node])
            same = all(old_forks[above] == new_forks.get(above) for above in before(old, node))
            assert token not in lefts or not same or lefts[token] == place.left


@settings(deadline=None, max_examples=choose(30, 150))
@given(growths())
def test_rows_come_and_go_only_where_nodes_do(growth: list[Snapshot]) -> None:
    """A node moves down by the rows that opened above it, and up by those that closed, and by no more."""
    extent = Extent(1000, 1e9, GAP, LINK)
    for old, new in pairwise(growth):
        added = len(new.pieces) - len(set(new.tokens.tolist()) & set(old.tokens.tolist())) + new.has_bonus
        lost = len(old.pieces) - len(set(new.tokens.tolist()) & set(old.tokens.tolist()))
        one, other = arranged(old, extent), arranged(new, extent)
        rows = {int(new.tokens[node]): place.row for node, place in other.places.items()}
        for node, place in one.places.items():
            token = int(old.tokens[node])
            assert token not in rows or -lost <= rows[token] - place.row <= added


@settings(deadline=None, max_examples=choose(12, 60))
@given(growths(), st.integers(120, 900))
def test_rows_never_move_apart_while_a_tree_grows(growth: list[Snapshot], height: int) -> None:
    view, picture = Size(700, height), None
    for tree in growth[:-1]:
        widths = [width(token) for token in tree.tokens.tolist()]
        newest = compose_chips(tree, widths, 30, view=view, zoom=1.0, text=TEXT, before=picture)
        assert picture is None or newest.grid.scale <= picture.grid.scale
        if picture and picture.layout.shape is newest.layout.shape:
            assert distance(newest) <= distance(picture) + 1
        assert newest.size.height <= max(height, 2 * TEXT.least_row)
        picture = newest
    assert picture is not None
    assert picture.grid.row >= TEXT.least_row


def distance(picture: ChipsPicture) -> float:
    return picture.grid.row * picture.grid.scale


def test_next_round_begins_with_the_size_of_the_one_before_and_may_grow_once_it_is_verified() -> None:
    crowded = snapshot(round_of(list(range(120)), [-1] + [0] * 119, [0.0] + [-1.0] * 119, (0,)))
    few = snapshot(round_of([0, 1], [-1, 0], [0.0, -1.0], (0,), index=1))

    def composed(tree: Snapshot, picture: ChipsPicture | None) -> ChipsPicture:
        widths = [30] * len(tree.pieces)
        return compose_chips(tree, widths, 30, view=Size(700, 700), zoom=1.0, text=TEXT, before=picture)

    first = composed(crowded, None)
    growing = composed(replace(few, has_bonus=False, is_verified=False), first)
    assert growing.grid.scale <= first.grid.scale < growing.natural.scale
    verified = composed(few, growing)
    assert verified.grid.scale == growing.natural.scale, "letters have room"
    again = composed(replace(few, number=3, has_bonus=False, is_verified=False), verified)
    assert again.grid.scale == verified.grid.scale
    assert composed(replace(few, number=3), again).grid.row == again.grid.row, "rows jump as the tree is verified"
    alone = composed(replace(few, number=5), verified)
    assert alone.grid == alone.natural


@settings(deadline=None, max_examples=choose(20, 100))
@given(growths(), st.floats(60, 900))
def test_bands_that_stay_keep_their_order(growth: list[Snapshot], height: float) -> None:
    for old, new in pairwise(growth):
        tops = []
        for tree in (old, new):
            bands = stack(tree, height, 20.0)
            shown = [node for node in range(len(tree.pieces)) if bands.shown[node]]
            ranked = sorted(shown, key=lambda node: (int(tree.depths[node]), bands.tops[node]))
            tops.append([int(tree.tokens[node]) for node in ranked])
        one, other = tops
        assert [token for token in one if token in other] == [token for token in other if token in one]

"""Ten recorded rounds can be read at three sizes, in both views: whole path, no overlap, large letters, a full room."""

import pytest
from PySide6.QtGui import QFont, QFontInfo
from pytestqt.qtbot import QtBot

from app.tree.picture.canvas import CHIPS, ICICLE, WAYS, TreeCanvas
from app.tree.picture.chips.chips_picture import ChipsPicture
from app.tree.picture.icicle_layout import IciclePicture
from app.tree.picture.lettering import LEAST_PIXELS, Lettering
from app.tree.rounds.snapshot import Snapshot
from app.ui.colors import DARK
from tests.app.tree.readability import Readability, readability
from tests.app.tree.recorded import DOCK, HALF, NAMES, WINDOW, recorded_trees

ROOMS = (DOCK, HALF, WINDOW)
_FULL = 0.6  # of the room, of trees of 64 nodes and more


def measured(view: TreeCanvas, tree: Snapshot, room: tuple[int, int], way: str) -> Readability:
    view.resize(*room)
    view.set_way(way)
    view.show_tree(None)
    view.show_tree(tree)
    assert view.picture
    return readability(view.picture, Lettering(view.font()))


@pytest.fixture
def view(qtbot: QtBot) -> TreeCanvas:
    view = TreeCanvas(DARK.tree)
    qtbot.addWidget(view)
    return view


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("way", WAYS)
def test_recorded_rounds_can_be_read(view: TreeCanvas, room: tuple[int, int], way: str) -> None:
    for name in NAMES:
        tree = recorded_trees()[name]
        found = measured(view, tree, room, way)
        assert found.is_path_whole, name
        assert not found.overlaps, name
        assert found.pixels >= LEAST_PIXELS, name
        assert tree.drafted < 64 or min(found.box, found.sections) >= _FULL, name
        assert tree.drafted > 64 or found.seen == 1.0, name


def test_most_of_64_nodes_are_seen_in_a_dock_of_420_by_700(view: TreeCanvas) -> None:
    for name in NAMES:
        tree = recorded_trees()[name]
        if tree.drafted == 64:
            assert measured(view, tree, (420, 700), CHIPS).seen * 64 >= 40


@pytest.mark.parametrize("pixels", [11, 13, 20, 30])
def test_fonts_of_any_size_stay_readable_and_keep_their_order(view: TreeCanvas, pixels: int) -> None:
    font = QFont(view.font())
    font.setPixelSize(pixels)
    view.setFont(font)
    for name in ("hard 16", "easy 64"):
        found = measured(view, recorded_trees()[name], HALF, CHIPS)
        assert found.pixels >= min(LEAST_PIXELS, round(0.85 * pixels))
        assert found.is_path_whole
        assert not found.overlaps


@pytest.mark.parametrize("room", ROOMS)
def test_letters_that_a_person_has_set_large_are_large_in_the_tree_too(view: TreeCanvas, room: tuple[int, int]) -> None:
    before = {name: measured(view, recorded_trees()[name], room, CHIPS).pixels for name in NAMES}
    font = QFont(view.font())
    font.setPixelSize(round(1.75 * QFontInfo(font).pixelSize()))
    view.setFont(font)
    small = QFontInfo(Lettering(font).small).pixelSize()
    for name in NAMES:
        tree = recorded_trees()[name]
        found = measured(view, tree, room, CHIPS)
        assert found.is_path_whole, name
        assert found.pixels >= 0.9 * before[name], name
        assert found.pixels >= 0.7 * small, name


def test_few_nodes_are_set_in_large_letters(view: TreeCanvas) -> None:
    assert measured(view, recorded_trees()["easy 16"], WINDOW, CHIPS).pixels >= 20
    picture = view.picture
    assert isinstance(picture, ChipsPicture)
    assert picture.grid.scale > 2


def test_letters_of_bands_are_larger_where_there_is_room(view: TreeCanvas) -> None:
    for name, room, larger in (("easy 16", WINDOW, True), ("easy 64", DOCK, False), ("hard 1024", WINDOW, False)):
        found = measured(view, recorded_trees()[name], room, ICICLE)
        assert name == "hard 1024" or found.seen == 1.0
        picture = view.picture
        assert isinstance(picture, IciclePicture)
        assert (picture.line > 1.3 * Lettering(view.font()).type.line) == larger, name

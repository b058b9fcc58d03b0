"""A round before it is over: the tree grows, is checked, is verified; and the target's layers pass by."""

from dataclasses import replace
from itertools import pairwise
from unittest.mock import Mock

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLayout, QToolButton
from pytestqt.qtbot import QtBot

from app.tree.bars import Timeline
from app.tree.explainer import ExplainerBar
from app.tree.header import Header
from app.tree.panel import TreePanel
from app.tree.picture.moving.growth import Growth
from app.tree.picture.moving.layer_strip import LayerStrip, cell_edges
from app.tree.picture.picture import BONUS_NODE, Way
from app.tree.picture.styles import AHEAD, ROOT, STEPS, node_styles
from app.tree.ribbon.ribbon import Ribbon
from app.tree.rounds.snapshot import MalformedTreeError, Snapshot, partial, same_node, snapshot, unverified
from app.ui.colors import DARK, LIGHT
from engine.protocol.messages import Failed, Finished, Loaded, Round, Seconds
from engine.protocol.residence import Residence
from engine.protocol.watching import Drafted, Passing
from tests.app.fake_engine import model
from tests.app.tree.panels import canvas, caption, colours, show, shown
from tests.app.tree.trees import random_round

pytestmark = pytest.mark.qt_log_ignore(r"This plugin does not support (propagateSizeHints|raise)")  # of every window

PAIR = Loaded(
    1,
    target=model("t", "t"),
    draft=None,
    context_tokens=100,
    seconds=1.0,
    tiers=("device", "ram", "ssd", "ssd"),
    residence=Residence(shared=False),
)


@pytest.fixture
def watched(panel: TreePanel) -> TreePanel:
    panel.follow(1)
    panel.set_motion(True)
    return panel


def slow(round: Round) -> Round:
    return replace(round, seconds=Seconds(decode=0.4, target=0.4))


def drafted(whole: Round, nodes: int, checking: int = 0) -> Drafted:
    """The tree of a round with its first `nodes` nodes."""
    tree = whole.tree
    part = replace(
        tree,
        tokens=tree.tokens[: 4 * nodes],
        parents=tree.parents[: 4 * nodes],
        log_probs=tree.log_probs[: 4 * nodes],
        pieces=tree.pieces[:nodes],
    )
    return Drafted(1, whole.index, part, checking)


@pytest.mark.parametrize("ending", [Finished(1, "cancelled"), Failed(1, "The engine was killed.")])
def test_a_tree_that_nobody_will_check_makes_way_for_the_last_round(
    qtbot: QtBot, watched: TreePanel, ending: Finished | Failed
) -> None:
    last = random_round(20, seed=3)
    watched.on_events([last])
    qtbot.waitUntil(lambda: canvas(watched).tree is not None and shown(watched).tree.has_bonus)
    watched.on_events([drafted(replace(random_round(200, seed=2), index=1), 150, checking=150)])
    qtbot.waitUntil(lambda: caption(watched).text().endswith("being checked"))
    watched.on_events([ending])
    qtbot.waitUntil(lambda: shown(watched).tree.has_bonus)
    assert shown(watched).tree.drafted == 20
    assert "accepted" in caption(watched).text()


def test_a_tree_is_seen_growing_checked_and_verified(qtbot: QtBot, watched: TreePanel) -> None:
    whole = slow(random_round(200, seed=2))
    seen: list[Snapshot] = []
    canvas(watched).composed.connect(lambda: seen.append(shown(watched).tree))
    for nodes in (20, 80, 150, 201):
        watched.on_events([drafted(whole, nodes)])
    qtbot.waitUntil(lambda: bool(seen) and seen[-1].drafted == 200)
    assert caption(watched).text().endswith("not checked yet")
    watched.on_events([drafted(whole, 201, checking=201)])
    qtbot.waitUntil(lambda: seen[-1].checking == 201)
    assert caption(watched).text().endswith("being checked")
    sizes = [tree.drafted for tree in seen]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 3
    assert not any(tree.has_bonus for tree in seen)
    watched.on_events([whole])
    qtbot.waitUntil(lambda: seen[-1].has_bonus)


def test_what_is_guessed_ahead_is_told_apart(qtbot: QtBot, watched: TreePanel) -> None:
    whole = slow(random_round(60, seed=2))
    watched.on_events([drafted(whole, 61, checking=31)])
    qtbot.waitUntil(lambda: canvas(watched).picture is not None and shown(watched).tree.drafted == 60)
    assert caption(watched).text().endswith("being checked · 30 guessed ahead")
    styles = node_styles(shown(watched).tree)
    assert set(styles[31:]) == {AHEAD}
    assert AHEAD not in styles[:31]
    assert not set(styles[:31]) - {ROOT, *range(len(STEPS))}


def test_the_outcome_of_a_slow_round_stays_a_while_before_the_next_tree_grows(qtbot: QtBot, watched: TreePanel) -> None:
    first, second = slow(random_round(60, seed=1)), slow(random_round(60, seed=2, index=1))
    qtbot.waitUntil(lambda: not watched._throttle._timer.isActive())  # else the outcome may come too late to be seen
    seen: list[tuple[int, bool]] = []
    canvas(watched).composed.connect(lambda: seen.append((shown(watched).tree.number, shown(watched).tree.has_bonus)))
    watched.on_events([first, drafted(second, 30), drafted(second, 61, checking=61)])
    qtbot.waitUntil(lambda: seen[-1:] == [(2, False)])
    assert seen[0] == (1, True)
    watched.on_events([second])
    qtbot.waitUntil(lambda: seen[-1:] == [(2, True)])


def test_a_tree_that_grows_is_not_shown_to_who_looks_at_an_earlier_round(qtbot: QtBot, watched: TreePanel) -> None:
    rounds = [random_round(20, seed=seed, index=seed) for seed in range(3)]
    watched.on_events([*rounds])
    watched.player.step(-1)
    qtbot.waitUntil(lambda: caption(watched).text().startswith("Round 2 "))
    with qtbot.assertNotEmitted(canvas(watched).composed, wait=100):
        watched.on_events([drafted(slow(random_round(20, seed=5, index=3)), 21)])


def test_who_looks_at_an_earlier_round_sees_no_more_of_the_tree_that_grows(qtbot: QtBot, watched: TreePanel) -> None:
    watched.on_events([random_round(20, seed=0)])
    watched.on_events([drafted(slow(random_round(200, seed=5, index=1)), 201)])
    qtbot.waitUntil(lambda: canvas(watched).picture is not None and shown(watched).tree.number == 2)
    watched.player.seek(0)
    qtbot.waitUntil(lambda: shown(watched).tree.number == 1)
    with qtbot.assertNotEmitted(canvas(watched).composed, wait=150):
        assert caption(watched).text().startswith("Round 1 ")


def test_growth_goes_on_where_it_was_and_begins_anew_with_the_next_round(qtbot: QtBot) -> None:
    growth, seen = Growth(), list[int]()
    growth.grown.connect(lambda tree: seen.append(tree.drafted))
    whole = random_round(40, seed=4)
    growth.begin(unverified(drafted(whole, 25)))
    qtbot.waitUntil(lambda: seen[-1:] == [24])
    steps = len(seen)
    growth.begin(unverified(drafted(whole, 26)))
    qtbot.waitUntil(lambda: seen[-1:] == [25])
    assert len(seen) == steps + 1, "what was shown is shown from its root again"
    growth.begin(unverified(drafted(random_round(40, seed=4, index=1), 26)))
    qtbot.waitUntil(lambda: seen[-1] < 25)
    growth.end()


def test_who_looks_at_a_node_by_keys_keeps_it_while_the_tree_grows_and_is_verified(
    qtbot: QtBot, watched: TreePanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = slow(random_round(60, seed=2))
    view = canvas(watched)
    watched.on_events([drafted(whole, 30)])
    qtbot.waitUntil(lambda: view.picture is not None and shown(watched).tree.drafted == 29)
    view.pick(Way.CHILD)
    view.pick(Way.CHILD)
    view.pick(Way.CHILD)
    node = view.picked[0]
    assert node
    assert view.picture
    resting = view.viewport().mapToGlobal(view._place(view.picture.chip(0)).center())
    monkeypatch.setattr("app.tree.picture.canvas.QCursor", Mock(pos=lambda: resting))
    for events in ([drafted(whole, 61)], [drafted(whole, 61, checking=61)], [whole]):
        watched.on_events([*events])
        qtbot.waitUntil(lambda: shown(watched).tree.drafted == 60)
    qtbot.waitUntil(lambda: shown(watched).tree.has_bonus)
    view.pick(Way.PARENT)
    assert view.picked[0] == shown(watched).tree.parents[node]


def test_the_same_node_is_found_by_its_tokens_and_in_its_round_only() -> None:
    whole = snapshot(random_round(40, seed=4))
    part, other = partial(whole, 20), replace(whole, number=9)
    assert [same_node(part, node, whole) for node in range(20)] == list(range(20))
    assert [same_node(whole, node, part) for node in range(41)] == [*range(20), *[None] * 21]
    assert same_node(whole, BONUS_NODE, whole) == BONUS_NODE
    assert same_node(whole, BONUS_NODE, part) is None
    assert same_node(whole, 3, other) is None
    assert same_node(None, 3, whole) is None


def test_impossible_count_of_checked_nodes_is_refused() -> None:
    with pytest.raises(MalformedTreeError, match="are being verified"):
        unverified(drafted(random_round(5), 6, checking=7))


def strip(panel: TreePanel) -> LayerStrip:
    return panel.findChildren(LayerStrip)[0]


def test_layers_pass_by_in_words_and_cells(qtbot: QtBot, watched: TreePanel) -> None:
    layers = strip(watched)
    watched.on_events([PAIR, Passing(2, 0, True, (0,))])
    assert not layers.isVisible(), "another conversation's"
    watched.on_events([Passing(1, 2, True, (2, 3))])
    assert layers.isVisible()
    assert layers.words == "Waiting for layer 3 of 4, from SSD"
    watched.on_events([Passing(1, 2, False, (3,))])
    assert layers.words == "Computing layer 3 of 4 · loading 4 from SSD"
    watched.on_events([Passing(1, 3, False, (0, 1))])
    assert layers.words == "Computing layer 4 of 4 · loading 1 from GPU memory"
    watched.on_events([Passing(1, 0, False, (1,))])
    assert layers.words == "Computing layer 1 of 4 · loading 2 from RAM"
    watched.on_events([Passing(1, 3, False, ())])
    assert layers.words == "Computing layer 4 of 4"
    qtbot.waitUntil(lambda: layers.height() >= layers.sizeHint().height())
    pixels: QImage = layers.grab().toImage()
    palette = (DARK if pixels.pixelColor(1, 1).lightness() < 128 else LIGHT).tree
    assert set(palette.tiers.values()) <= colours(pixels), "a tier without its colour"


def test_a_screen_reader_is_told_of_layers_now_and_then(qtbot: QtBot) -> None:
    now = [0.0]
    layers = LayerStrip(LIGHT.tree, clock=lambda: now[0])
    qtbot.addWidget(layers)
    layers.set_layers(PAIR)
    told = []
    for tick in range(200):
        now[0] = tick / 20
        layers.follow(Passing(1, tick % 4, False, ()))
        told.append(layers.accessibleDescription())
    assert told[0] == "Computing layer 1 of 4"
    assert 1 + sum(old != new for old, new in pairwise(told)) <= 2
    layers.rest()
    layers.follow(Passing(1, 3, False, ()))
    assert layers.accessibleDescription() == "Computing layer 4 of 4"


def test_where_layers_are_kept_is_counted(qtbot: QtBot) -> None:
    layers = LayerStrip(LIGHT.tree)
    qtbot.addWidget(layers)
    layers.set_layers(PAIR)
    assert layers.places() == [("device", "GPU memory", 1), ("ram", "RAM", 1), ("ssd", "SSD", 2)]
    layers.resize(900, 60)
    layers.follow(Passing(1, 3, False, ()))
    wide = layers.grab().toImage()
    layers.resize(200, 60)
    narrow = layers.grab().toImage()
    assert colours(wide.copy(450, 0, 450, 20)) > {LIGHT.tree.tiers["ram"]}
    assert LIGHT.tree.tiers["ram"] not in colours(narrow.copy(0, 0, 200, 18)), "the sentence needs the room"


def test_a_tree_grows_at_once_where_nothing_is_to_move(watched: TreePanel) -> None:
    watched.set_motion(False)
    whole = slow(random_round(200, seed=2))
    sizes: set[int] = set()
    canvas(watched).composed.connect(lambda: sizes.add(shown(watched).tree.drafted))
    watched.on_events([drafted(whole, 80), drafted(whole, 201)])
    assert sizes == {79}
    watched._live._growth._on_timeout()
    assert sizes == {79, 200}


@pytest.mark.parametrize("ending", [Finished(1, "stop"), slow(replace(random_round(3), seconds=Seconds(target=0.1)))])
def test_the_strip_goes_with_slow_passes(watched: TreePanel, ending: Finished | Round) -> None:
    if isinstance(ending, Round):
        ending = replace(ending, seconds=Seconds(target=0.1))
    watched.on_events([PAIR, Passing(1, 2, True, (2, 3))])
    watched.on_events([slow(random_round(3))])
    assert strip(watched).isVisible()
    watched.on_events([ending])
    assert not strip(watched).isVisible()


def test_a_layer_says_where_it_is_kept(qtbot: QtBot, watched: TreePanel) -> None:
    watched.on_events([PAIR, Passing(1, 2, True, ())])
    layers = strip(watched)
    layers.resize(400, 40)
    for x, words in ((20, "Layer 1, kept in GPU memory."), (390, "Layer 4, kept in SSD.")):
        QTest.mouseMove(layers, QPoint(x, 20))
        qtbot.waitUntil(lambda words=words: words in layers.toolTip())  # type: ignore[misc]


def test_another_target_ends_what_was_shown_of_the_one_before(watched: TreePanel) -> None:
    watched.on_events([PAIR, Passing(1, 3, True, ())])
    watched.on_events([replace(PAIR, tiers=("device",)), Passing(1, 3, True, ())])
    assert not strip(watched).isVisible()


@pytest.mark.parametrize("width", [0, 3, 300, 1000])
@pytest.mark.parametrize("count", [1, 4, 80, 999])
def test_cells_cover_the_width_without_a_gap(count: int, width: int) -> None:
    edges = cell_edges(count, width)
    assert (edges[0], edges[-1], len(edges)) == (0, width, count + 1)
    sizes = [high - low for low, high in pairwise(edges)]
    assert max(sizes) - min(sizes) <= 1


def test_escape_ends_the_explanation_of_a_round(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, random_round(20, seed=3))
    panel.explain()
    bar = panel.findChild(ExplainerBar)
    assert bar is not None
    assert bar.isVisible()
    QTest.keyClick(bar.next, Qt.Key.Key_Space)
    QTest.keyClick(bar.next, Qt.Key.Key_Escape)
    assert not bar.isVisible()
    qtbot.waitUntil(lambda: shown(panel).tree.has_bonus)
    panel.explain()
    QTest.keyClick(canvas(panel), Qt.Key.Key_Escape)
    assert not bar.isVisible()


def test_in_a_low_panel_the_timeline_makes_room_for_the_tree_and_its_layers(qtbot: QtBot, watched: TreePanel) -> None:
    """It does not come and go with each pass either."""
    watched.on_events([PAIR, random_round(60, seed=1), replace(random_round(60, seed=2), index=1)])
    (ribbon,), (strip,) = watched.findChildren(Ribbon), watched.findChildren(LayerStrip)
    (timeline,) = watched.findChildren(Timeline)
    qtbot.waitUntil(ribbon.isVisible)
    layout = watched.layout()
    assert layout is not None
    layout.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)  # as in a dock; a window is held to its layout's
    watched.setMinimumSize(0, 0)
    watched.resize(700, watched.minimumSizeHint().height())
    qtbot.waitUntil(lambda: not (ribbon.isVisible() or timeline.play.isVisible()))
    qtbot.waitUntil(lambda: watched.minimumSizeHint().height() == watched.height())
    watched.resize(700, watched.height() + 2 * timeline.play.height())
    qtbot.waitUntil(timeline.play.isVisible)
    assert not ribbon.isVisible()
    watched.resize(700, watched.height() + ribbon.sizeHint().height() + 10)
    qtbot.waitUntil(ribbon.isVisible)
    for _ in range(2):
        watched.on_events([Passing(1, 2, waits=False, arriving=(3,))])
        qtbot.waitUntil(lambda: strip.isVisible() and not ribbon.isVisible())
        assert canvas(watched).height() >= canvas(watched).minimumHeight()
        strip.rest()
        qtbot.wait(1)  # what is hidden asks for a new layout, which the event loop brings
        assert not ribbon.isVisible()
    watched.resize(700, 500)
    qtbot.waitUntil(ribbon.isVisible)


def test_a_narrow_panel_has_room_for_all_lines_of_its_buttons(qtbot: QtBot, watched: TreePanel) -> None:
    """A dock gives it no more height than it asks for."""
    watched.on_events([PAIR, random_round(60, seed=1), replace(random_round(60, seed=2), index=1)])
    layout = watched.layout()
    assert layout is not None
    layout.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
    watched.setMinimumSize(0, 0)
    least = watched.minimumSizeHint().height()
    watched.resize(160, 500)
    assert watched.minimumSizeHint().height() > least
    watched.resize(160, watched.minimumSizeHint().height())
    qtbot.wait(1)
    for button in watched.findChildren(QToolButton):
        line = button.parentWidget()
        assert line is not None
        assert not button.isVisible() or line.rect().contains(button.geometry()), button.text()


def test_a_right_click_offers_what_the_button_above_the_tree_does(qtbot: QtBot, panel: TreePanel) -> None:
    panel.on_events([random_round(60, seed=1)])
    viewport = canvas(panel).viewport()
    middle = viewport.rect().center()
    asked = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, middle, viewport.mapToGlobal(middle))
    QApplication.sendEvent(viewport, asked)
    menu = panel.findChildren(Header)[0].menu
    assert menu.isVisible()
    menu.close()

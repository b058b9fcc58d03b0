"""Downloads beside the dialog: the sign in the status bar, what is offered again, what a closed dialog tells of."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QTabBar,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.downloads.progress import Progress, Request, State
from app.engine.state import EngineState, Phase
from app.library.controller import LoadPace
from app.library.download_link import in_short
from app.library.feature import DOWNLOAD_NOTICE, PAUSED_NOTICE, READY_NOTICE
from app.library.picker.page import Page
from engine.protocol.options import LoadOptions
from tests.app.hub.repositories import tiny
from tests.app.library.local.folders import cached
from tests.app.library.picker.conftest import Desk
from tests.hub import Hub, stall, status

ONE = Progress(1, Request("org/a"), State.DOWNLOADING, bytes_done=40, bytes_total=100)


@pytest.mark.parametrize(
    ("downloads", "words"),
    [
        ((), ""),
        ((ONE,), "1 download, 40 %"),
        ((ONE, replace(ONE, id=2, bytes_done=60)), "2 downloads, 50 %"),
        ((ONE, replace(ONE, id=2, state=State.DONE)), "1 download, 40 %"),
        ((replace(ONE, state=State.STALLED),), "1 download, 40 %, stalled"),
        ((replace(ONE, state=State.PAUSED),), "1 download paused"),
        ((replace(ONE, state=State.FAILED), replace(ONE, id=2, state=State.PAUSED)), "1 download failed"),
        ((replace(ONE, state=State.DONE),), ""),
    ],
)
def test_downloads_in_short(downloads: tuple[Progress, ...], words: str) -> None:
    assert in_short(downloads) == words


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    """Whose status bar the sign could be in."""
    made = QWidget()
    qtbot.addWidget(made)
    return made


def test_downloads_go_on_when_the_dialog_is_closed(desk: Desk, hub: Hub, pair: None) -> None:
    desk.open()
    desk.dialog.download_requested.emit(("org/large",), LoadOptions("org/large", "none"))
    desk.dialog.close()
    desk.wait_for("org/large", State.DONE)
    desk.wait(lambda: bool(desk.notices))
    assert desk.asked == [], "nobody is interrupted"
    assert [each.key for each in desk.notices] == [READY_NOTICE]
    assert desk.notices[0].on_action is not None
    desk.notices[0].on_action()
    assert desk.asked == [LoadOptions("org/large", "none")]


def test_the_sign_opens_the_page(desk: Desk, hub: Hub, pair: None, window: QWidget) -> None:
    hub.fail("model.safetensors", stall(2_000))
    indicator = desk.room.make_indicator(window)
    desk.downloads.add(Request("org/large"))
    desk.wait_for("org/large", State.DOWNLOADING)
    assert "1 download" in indicator.text()
    indicator.click()
    assert desk.dialog.isVisible()
    assert desk.dialog.tabs.currentIndex() == Page.DOWNLOADS
    assert not desk.dialog.details.isVisible()


def test_what_was_not_finished_is_offered_at_the_next_start(
    make_desk: Callable[[], Desk], hub: Hub, pair: None, window: QWidget
) -> None:
    hub.fail("model.safetensors", stall(6_000))
    first = make_desk()
    first.downloads.add(Request("org/large"))
    first.wait(lambda: bool(first.downloads.downloads) and first.download("org/large").bytes_done > 5_000)
    first.room.close()
    hub.heal()
    second = make_desk()
    second.room.start()
    second.wait(lambda: bool(second.notices))
    assert [each.key for each in second.notices] == [PAUSED_NOTICE]
    assert "org/large" in second.notices[0].message
    assert second.room.make_indicator(window).text() == "1 download paused"
    assert second.download("org/large").bytes_done > 5_000
    assert second.notices[0].on_action is not None
    second.notices[0].on_action()
    second.wait_for("org/large", State.DONE)


def test_a_failure_behind_a_closed_dialog_is_told(desk: Desk, hub: Hub, pair: None) -> None:
    hub.fail("*org/large*", status(404), times=99)
    desk.downloads.add(Request("org/large"))
    desk.wait(lambda: bool(desk.notices))
    assert desk.notices[0].key == DOWNLOAD_NOTICE
    assert "org/large" in desk.notices[0].message


def test_the_dialog_comes_back_as_it_was_left(make_desk: Callable[[], Desk], pair: None) -> None:
    first = make_desk()
    first.open().resize(770, 600)
    first.dialog.close()
    assert make_desk().open().size() == first.dialog.size()


def is_inside(widget: QObject) -> bool:
    """Whether Qt made it, as a part of a control that has a name."""
    parent = widget.parent()
    kinds = (QComboBox, QAbstractSpinBox, QTabBar, QLineEdit)
    return parent is not None and (isinstance(parent, kinds) or is_inside(parent))


def test_every_control_has_a_name_and_every_figure_an_explanation(desk: Desk, pair: None) -> None:
    dialog = desk.open(Page.MODELS)
    desk.choose("embedded")
    unnamed = [
        (each.objectName(), type(each).__name__)
        for kind in (QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QAbstractItemView)
        for each in dialog.findChildren(kind)
        if not (each.accessibleName() or getattr(each, "text", str)() or each.objectName().startswith("qt_"))
        and not is_inside(each)
    ]
    assert unnamed == []
    details = dialog.details
    desk.wait(lambda: "GPU" in details.estimate.text())
    explained = (details.figures, details.tiers, details.estimate, details.terms.context, details.terms.vram)
    assert all(each.toolTip() for each in explained)


def test_the_time_a_load_takes_is_told_once_it_can_be() -> None:
    clock = iter((0.0, 0.0, 1.0, 10.0, 50.0, 50.0, 60.0))
    pace = LoadPace(lambda: next(clock))
    assert pace.seconds_left("Loading large", 0, 10) is None
    assert pace.seconds_left("Loading large", 1, 10) is None
    assert pace.seconds_left("Loading large", 2, 10) == 40.0
    assert pace.seconds_left("Loading small", 0, 4) is None
    assert pace.seconds_left("Loading small", 1, 4) == 30.0


def test_a_dialog_opens_on_the_page_that_was_left(make_desk: Callable[..., Desk]) -> None:
    first = make_desk()
    first.room.open()
    first.wait(lambda: first.library.local_models.is_known)
    assert Page(first.dialog.tabs.currentIndex()) is Page.DISCOVER, "there is no model"
    first.dialog.go_to(Page.ENGINES)
    first.dialog.reject()
    second = make_desk()
    second.room.open()
    assert Page(second.dialog.tabs.currentIndex()) is Page.ENGINES


def test_a_dialog_that_was_never_left_opens_on_the_own_models_where_there_are_some(
    make_desk: Callable[..., Desk], cache: Path
) -> None:
    first = make_desk()
    first.room.open()
    first.wait(lambda: first.library.local_models.is_known)
    first.dialog.reject()
    cached(cache, "org/mine", tiny())
    second = make_desk()
    second.room.open()
    second.wait(lambda: Page(second.dialog.tabs.currentIndex()) is Page.MODELS)
    second.dialog.go_to(Page.DISCOVER)
    second.library.look()
    second.wait(lambda: second.library._room.is_running is False)
    assert Page(second.dialog.tabs.currentIndex()) is Page.DISCOVER, "a person has chosen it"


def test_what_is_loaded_is_not_offered_to_be_loaded_but_in_another_way(desk: Desk) -> None:
    options = LoadOptions("embedded", "auto")
    desk.room.on_pair_loaded(options)
    desk.open(Page.MODELS)
    desk.choose("embedded")
    assert desk.button == "Loaded"
    assert not desk.dialog.details.primary.isEnabled()
    choice = desk.library.pair_choice
    choice.choose_terms(replace(choice.terms, context_tokens=512))
    desk.wait(lambda: desk.button == "Load")
    choice.choose_terms(replace(choice.terms, context_tokens=0))
    desk.wait(lambda: desk.button == "Loaded")
    desk.room.show_engine_state(EngineState(Phase.STOPPED))
    assert desk.button == "Load"

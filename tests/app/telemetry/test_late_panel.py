"""The charts are made when they are first seen, and are never windows of their own."""

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget
from pytestqt.qtbot import QtBot

from app.engine.state import EngineState, Phase
from app.telemetry.dock import TelemetryDock
from app.ui.theme import LIGHT
from tests.app.fake_link import FakeLink
from tests.app.telemetry.rounds import loaded


class Windows(QObject):
    """Notes every widget that is shown as a window."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[QWidget] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Look at every event, take none."""
        if event.type() == QEvent.Type.Show and isinstance(watched, QWidget) and watched.isWindow():
            self.shown.append(watched)
        return False


def test_the_charts_are_made_with_the_first_look_and_know_the_pair(qtbot: QtBot) -> None:
    room = TelemetryDock(FakeLink(), LIGHT)
    qtbot.addWidget(room.dock)
    room.on_engine_state(EngineState(Phase.READY, pair=loaded()))
    place = room.dock.widget()
    room.dock.show()
    qtbot.waitUntil(lambda: room.dock.widget() is not place)
    assert room.panel is room.dock.widget()


def test_the_first_look_has_room_for_a_row_of_charts(qtbot: QtBot) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    window.resize(1300, 900)
    window.setCentralWidget(QWidget())
    room = TelemetryDock(FakeLink(), LIGHT, window)
    window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, room.dock)
    window.show()
    room.dock.show()
    card = room.panel.cards[0]
    qtbot.waitUntil(lambda: card.height() > 0 and card.visibleRegion().boundingRect().height() == card.height())


def test_no_chart_opens_as_a_window(qtbot: QtBot) -> None:
    room = TelemetryDock(FakeLink(), LIGHT)
    qtbot.addWidget(room.dock)
    application = QApplication.instance()
    assert application is not None
    windows = Windows()
    application.installEventFilter(windows)
    assert room.panel.cards
    application.removeEventFilter(windows)
    assert windows.shown == []

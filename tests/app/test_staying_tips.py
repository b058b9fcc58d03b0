"""A tooltip that a graphics view shows by itself stays while the pointer rests."""

from PySide6.QtCore import QEvent, QObject, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QGraphicsView
from pytestqt.qtbot import QtBot

from app.telemetry.charts.acceptance_charts import DepthChart
from app.tree.picture.canvas import TreeCanvas
from app.ui.colors import DARK


class Asked(QObject):
    """Notes whether a scene is asked for its tooltip: it has none, and Qt would hide the one that is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Look at every event, take none."""
        self.count += event.type() == QEvent.Type.GraphicsSceneHelp
        return super().eventFilter(watched, event)


def rest(view: QGraphicsView) -> int:
    """The pointer rests in the view; how often its scene was asked."""
    asked = Asked()
    view.scene().installEventFilter(asked)
    place = QPoint(20, 20)
    event = QHelpEvent(QEvent.Type.ToolTip, place, view.viewport().mapToGlobal(place))
    QApplication.sendEvent(view.viewport(), event)
    view.scene().removeEventFilter(asked)
    return asked.count


def test_the_scene_is_not_asked_for_tooltips_that_the_view_shows_itself(qtbot: QtBot) -> None:
    plain, tree, chart = QGraphicsView(), TreeCanvas(DARK.tree), DepthChart()
    for each in (plain, tree, chart):
        qtbot.addWidget(each)
    plain.setScene(tree.scene())
    assert rest(plain) == 1, "as Qt does it"
    assert rest(tree) == rest(chart) == 0

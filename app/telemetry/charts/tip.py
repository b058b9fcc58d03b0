"""Tells what stands where the mouse points, in charts whose bars have counts."""

from collections.abc import Callable

from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QToolTip

from app.system.plain_text import tip
from app.telemetry.charts.chart import Chart


def tell(chart: Chart, event: QMouseEvent, words_at: Callable[[float], str]) -> None:
    """Show `words_at` of the horizontal value under the mouse; nothing where they are empty."""
    place = chart.getViewBox().mapSceneToView(chart.mapToScene(event.position().toPoint()))
    QToolTip.showText(event.globalPosition().toPoint(), tip(words_at(float(place.x()))), chart)

"""What a test looks at in a tree panel, and does to it."""

import numpy as np
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QWheelEvent
from PySide6.QtWidgets import QApplication, QLabel, QToolButton
from pytestqt.qtbot import QtBot

from app.tree.header import Caption
from app.tree.panel import TreePanel
from app.tree.picture.canvas import TreeCanvas
from app.tree.picture.chips.chips_picture import ChipsPicture as Picture
from app.tree.widgets import News
from engine.protocol.messages import Round


def canvas(panel: TreePanel) -> TreeCanvas:
    return panel.findChildren(TreeCanvas)[0]


def shown(panel: TreePanel) -> Picture:
    picture = canvas(panel).picture
    assert isinstance(picture, Picture)
    return picture


def caption(panel: TreePanel) -> Caption:
    return panel.findChildren(Caption)[0]


def news(panel: TreePanel) -> News:
    return panel.findChildren(News)[0]


def message(panel: TreePanel) -> str:
    labels = [label for label in panel.findChildren(QLabel) if label.wordWrap() and label.isVisible()]
    return labels[0].text() if labels else ""


def show(qtbot: QtBot, panel: TreePanel, newest: Round) -> None:
    """Show a round and wait until it is the one in the picture."""
    panel.show_round(newest)
    qtbot.waitUntil(lambda: canvas(panel).picture is not None and shown(panel).tree.number == newest.index + 1)


def button(panel: TreePanel, text: str) -> QToolButton:
    return next(button for button in panel.findChildren(QToolButton) if button.text() == text)


def image(panel: TreePanel) -> QImage:
    picture: QImage = canvas(panel).grab().toImage()
    return picture


def colours(picture: QImage) -> set[str]:
    """All colours of a picture, as "#rrggbb"."""
    converted = picture.convertToFormat(QImage.Format.Format_RGB32)  # lives as long as its pixels are read
    pixels = np.frombuffer(converted.constBits(), np.uint32)
    return {f"#{pixel & 0xFFFFFF:06x}" for pixel in np.unique(pixels).tolist()}


def wheel(target: TreeCanvas, at: QPointF, notches: int) -> None:
    viewport = target.viewport()
    event = QWheelEvent(
        at,
        viewport.mapToGlobal(at),
        QPoint(),
        QPoint(0, 120 * notches),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(viewport, event)

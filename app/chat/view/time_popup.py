"""Where the time of an answer went: a bar of parts with their numbers."""

from dataclasses import dataclass

from PySide6.QtCore import QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QVBoxLayout, QWidget

from app.i18n.known_sentences import translated
from app.i18n.number_text import Number, share_text
from app.i18n.translation import tr
from app.ui.theme import Colors
from app.ui.widgets import label
from engine.protocol.messages import Seconds, Statistics

_BAR = QSize(260, 10)
_SWATCH = 10


@dataclass(frozen=True, slots=True)
class Part:
    """A share of the time: its name, and its colour."""

    name: str
    seconds: float
    color: str


def parts_of(seconds: Seconds, colors: Colors) -> tuple[Part, ...]:
    """The parts that add up to all the time, in the order in which they come; those that took none are left out.

    Drafting that was hidden behind the target's layers is a part of its own, and is not counted as the target's.
    """
    parts = (
        Part(tr("Loading"), seconds.load, colors.border),
        Part(tr("Reading the question"), seconds.prefill, colors.muted),
        Part(tr("Draft"), seconds.draft, colors.accent),
        Part(tr("Draft, while layers came"), min(seconds.hidden_draft, seconds.target), colors.accent_hover),
        Part(tr("Target"), max(0.0, seconds.target - seconds.hidden_draft), colors.link),
        Part(tr("Other"), seconds.other, colors.error),
    )
    return tuple(part for part in parts if part.seconds > 0)


class TimeBar(QWidget):
    """Parts side by side, each as wide as its share."""

    def __init__(self, parts: tuple[Part, ...], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.parts = parts
        self.setFixedHeight(_BAR.height())
        self.setMinimumWidth(_BAR.width())

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw the parts."""
        painter = QPainter(self)
        whole = sum(part.seconds for part in self.parts)
        left = 0.0
        for part in self.parts:
            width = self.width() * part.seconds / whole
            painter.fillRect(QRectF(left, 0, width, self.height()), QColor(part.color))
            left += width


class TimePopup(QFrame):
    """Stands beside the figures while the mouse is over them, or after a key was pressed on them."""

    def __init__(self, statistics: Statistics, colors: Colors, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.ToolTip)
        self.setObjectName("popover")
        self.parts = parts_of(statistics.seconds, colors)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 10)
        column.setSpacing(8)
        column.addWidget(label("popover-title", tr("Where the time went"), self))
        column.addWidget(TimeBar(self.parts, self))
        column.addLayout(self._rows())
        for words in _told(statistics):
            column.addWidget(label("quiet-text", words, self))
        self.setAccessibleName(self.text)

    @property
    def text(self) -> str:
        """Everything it says, for tests and screen readers."""
        return " · ".join(each.text() for each in self.findChildren(QLabel) if each.text())

    def show_above(self, place: QPoint) -> None:
        """Show it with its lower left corner there, in global coordinates."""
        self.adjustSize()
        self.move(place.x(), max(0, place.y() - self.height()))
        self.show()

    def _rows(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        grid.setColumnStretch(1, 1)
        whole = sum(part.seconds for part in self.parts)
        for row, part in enumerate(self.parts):
            swatch = QFrame(self)
            swatch.setFixedSize(_SWATCH, _SWATCH)
            swatch.setStyleSheet(f"background: {part.color}; border-radius: 2px")
            grid.addWidget(swatch, row, 0)
            grid.addWidget(QLabel(part.name, self), row, 1)
            took = QLabel(f"{Number(part.seconds):.2f} s", self)
            share = QLabel(share_text(part.seconds / whole), self)
            for column, number in ((2, took), (3, share)):
                number.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
                grid.addWidget(number, row, column)
        return grid


def _told(statistics: Statistics) -> list[str]:
    """How it was speculated, and what the engine says about that."""
    method = tr("No speculation")
    if statistics.method != "none":
        words = tr("Speculation: {method}, {budget} nodes a pass") if statistics.budget else tr("Speculation: {method}")
        method = words.format(method=statistics.method, budget=statistics.budget)
    return [method, *([translated(statistics.note)] if statistics.note else [])]

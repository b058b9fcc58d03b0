"""What the marks of a chart stand for, each with its value now: legend and reading in one."""

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

_MARK = 14
_GAP = 5
_BETWEEN = 14


@dataclass(frozen=True, slots=True)
class Mark:
    """How something is drawn: a line of some width and style, or an area if there is a `brush`."""

    name: str
    color: str
    width: float = 2.0
    line: Qt.PenStyle = Qt.PenStyle.SolidLine
    brush: Qt.BrushStyle | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A mark and its value in words; `widest` is the longest value it may have, so that nothing moves about."""

    mark: Mark
    value: str
    widest: str


class Legend(QWidget):
    """Entries side by side, in as many lines as the width asks for."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._entries: tuple[Entry, ...] = ()
        self._places: list[QPointF] = []
        self._muted = self._text = QColor()
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    @property
    def text(self) -> str:
        """All of it in words."""
        return ", ".join(f"{each.mark.name} {each.value}".strip() for each in self._entries)

    def show_entries(self, entries: tuple[Entry, ...], text: str, muted: str) -> None:
        """Replace them; the colours are those of values and names."""
        renamed = [each.mark.name for each in entries] != [each.mark.name for each in self._entries]
        self._entries, self._text, self._muted = entries, QColor(text), QColor(muted)
        if renamed or len(self._places) != len(entries):
            self._flow()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """As high as its lines."""
        lines = len({place.y() for place in self._places}) or 1
        return QSize(100, lines * self.fontMetrics().lineSpacing())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Break the lines anew."""
        super().resizeEvent(event)
        self._flow()

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Marks, names and values."""
        painter = QPainter(self)
        metrics = self.fontMetrics()
        for entry, place in zip(self._entries, self._places, strict=True):
            self._paint_mark(painter, entry.mark, QRectF(place.x(), place.y(), _MARK, metrics.height()))
            start = QPointF(place.x() + _MARK + _GAP, place.y() + metrics.ascent())
            painter.setPen(self._muted)
            painter.drawText(start, entry.mark.name)
            painter.setPen(self._text)
            painter.drawText(start + QPointF(metrics.horizontalAdvance(f"{entry.mark.name} "), 0), entry.value)

    def _paint_mark(self, painter: QPainter, mark: Mark, room: QRectF) -> None:
        middle = room.center().y()
        if mark.brush is None:
            painter.setPen(QPen(QColor(mark.color), max(mark.width, 1.5), mark.line))
            painter.drawLine(QPointF(room.left(), middle), QPointF(room.right(), middle))
        else:
            patch = QRectF(room.left() + 2, middle - 5, 10, 10)
            painter.setPen(QPen(QColor(mark.color), 1))
            painter.setBrush(QBrush(QColor(mark.color), mark.brush))
            painter.drawRect(patch)

    def _flow(self) -> None:
        metrics = self.fontMetrics()
        self._places = []
        x, line = 0.0, 0
        for entry in self._entries:
            width = _MARK + _GAP + metrics.horizontalAdvance(f"{entry.mark.name} {entry.widest}")
            if x and x + width > self.width():
                x, line = 0.0, line + 1
            self._places.append(QPointF(x, line * metrics.lineSpacing()))
            x += width + _BETWEEN
        self.setFixedHeight(self.sizeHint().height())

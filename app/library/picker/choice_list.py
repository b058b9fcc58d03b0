"""How lines of the lists in the dialog are painted, and lists in which one line is chosen, as drafts and variants."""

from collections.abc import Callable

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.ui.theme import Colors

SIDE, MARK = 10, 14  # pixels: before the mark and behind the words; the mark
Index = QModelIndex | QPersistentModelIndex
ROOT = QModelIndex()


def bold(font: QFont) -> QFont:
    """The same, heavier."""
    found = QFont(font)
    found.setWeight(QFont.Weight.DemiBold)
    return found


class LineDelegate(QStyledItemDelegate):
    """Paints what all lines have, in the theme's colours."""

    edges, radius = (4, 2, -4, -2), 8
    rows, room = 1, 0  # of words, and pixels above, below and between them

    def __init__(self, colors: Colors, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.colors = colors

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        """The same for all."""
        del index
        return QSize(0, self.rows * QFontMetrics(option.font).lineSpacing() + self.room)

    def begin(self, painter: QPainter, option: QStyleOptionViewItem, usable: bool = True) -> bool:
        """The ground of a line that is chosen or pointed at; returns whether it is chosen."""
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if chosen or (usable and option.state & QStyle.StateFlag.State_MouseOver):
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.colors.bubble if chosen else self.colors.hover))
            rect: QRect = option.rect
            painter.drawRoundedRect(rect.adjusted(*self.edges), self.radius, self.radius)
        return chosen

    def write(self, painter: QPainter, line: QRect, words: str, color: str) -> None:
        """As much of the words as has room."""
        painter.setPen(QColor(color))
        shown = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, line.width())
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)


class ChoiceDelegate(LineDelegate):
    """Paints what lines have of which one is chosen."""

    edges, radius = (2, 1, -2, -1), 6

    def paint_mark(self, painter: QPainter, left: int, middle: int, chosen: bool, usable: bool = True) -> None:
        """A circle, with a dot in it where the line is chosen."""
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QColor(self.colors.accent if chosen else self.colors.muted if usable else self.colors.border))
        painter.drawEllipse(left, middle - MARK // 2, MARK, MARK)
        if chosen:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.colors.accent))
            painter.drawEllipse(left + 4, middle - MARK // 2 + 4, MARK - 8, MARK - 8)


class ChoiceList(QListView):
    """`picked` carries the source of what a person has chosen."""

    picked = Signal(str)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        """`name`: for who does not see it."""
        super().__init__(parent)
        self._source: Callable[[int], str] = str
        self._is_filled = True
        self.setObjectName("drafts")
        self.setAccessibleName(name)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)

    def set_lines(self, lines: QAbstractItemModel, painted_by: ChoiceDelegate, source: Callable[[int], str]) -> None:
        """What is listed, by what it is painted, and what the engine calls the choice in a line."""
        self.setModel(lines)
        self.setItemDelegate(painted_by)
        self._source = source

    def currentChanged(self, current: Index, previous: Index) -> None:  # noqa: N802
        """A person chose another, unless the list is being filled."""
        super().currentChanged(current, previous)
        if self._is_filled and current.isValid():
            self.picked.emit(self._source(current.row()))

"""The list of the palette: its model, and how a row is painted."""

from collections.abc import Sequence

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QFont, QPainter, QPalette, QTextLayout
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from app.shell.command_palette.entries import Hit
from app.ui.theme import Colors

_Index = QModelIndex | QPersistentModelIndex
_PADDING, _GAP = 12, 14


class HitModel(QAbstractListModel):
    """The hits, for a view; what a screen reader says is name, place and shortcut."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.hits: Sequence[Hit] = ()

    def show_hits(self, hits: Sequence[Hit]) -> None:
        """Others now."""
        self.beginResetModel()
        self.hits = hits
        self.endResetModel()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: N802, B008
        """A flat list."""
        return 0 if parent.isValid() else len(self.hits)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The name, and everything there is for who cannot see it."""
        entry = self.hits[index.row()].entry
        if role == Qt.ItemDataRole.DisplayRole:
            return entry.name
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return ", ".join(filter(None, (entry.name, entry.where, entry.keys)))
        return None

    def flags(self, index: _Index) -> Qt.ItemFlag:
        """What cannot be done now is greyed, but still tells its shortcut."""
        if index.isValid() and self.hits[index.row()].entry.is_enabled:
            return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return Qt.ItemFlag.NoItemFlags


class HitDelegate(QStyledItemDelegate):
    """Name at the beginning, with the letters that fit in bold; where it is found after it, the shortcut at the end."""

    def __init__(self, colors: Colors, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.colors = colors

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:  # noqa: N802, ARG002
        """As tall as a line with air around it."""
        return QSize(0, option.fontMetrics.height() + 16)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        """One row, from the reading direction's beginning to its end."""
        model = index.model()
        assert isinstance(model, HitModel)
        hit = model.hits[index.row()]
        painter.save()
        rect: QRect = option.rect
        if option.state & QStyle.StateFlag.State_Selected:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setBrush(option.palette.color(QPalette.ColorRole.Highlight))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.drawRoundedRect(rect.adjusted(0, 1, 0, -1), 7, 7)
        inner, direction = rect.adjusted(_PADDING, 0, -_PADDING, 0), option.direction
        end = _aligned(Qt.AlignmentFlag.AlignRight, direction)
        muted, keys = self.colors.muted, hit.entry.keys
        painter.setPen(muted)
        painter.drawText(inner, end, keys)
        metrics = painter.fontMetrics()
        taken = metrics.horizontalAdvance(keys) + _GAP if keys else 0
        name_room = inner.width() - taken
        name_width = min(self._paint_name(painter, inner, hit, name_room, direction), name_room)
        beside = name_room - name_width - _GAP
        if hit.entry.where and beside > metrics.averageCharWidth() * 6:
            where = metrics.elidedText(hit.entry.where, Qt.TextElideMode.ElideRight, beside)
            left = (
                inner.left() + taken
                if direction == Qt.LayoutDirection.RightToLeft
                else inner.left() + name_width + _GAP
            )
            place = QRect(left, inner.top(), beside, inner.height())
            painter.setPen(muted)
            painter.drawText(place, _aligned(Qt.AlignmentFlag.AlignLeft, direction), where)
        painter.restore()

    def _paint_name(self, painter: QPainter, inner: QRect, hit: Hit, room: int, direction: Qt.LayoutDirection) -> int:
        """Returns its width."""
        name = painter.fontMetrics().elidedText(hit.entry.name, Qt.TextElideMode.ElideRight, room)
        layout = QTextLayout(name, painter.font())
        layout.setFormats([_bold(place) for place in hit.places if place < len(name)])
        layout.beginLayout()
        line = layout.createLine()
        layout.endLayout()
        width = int(line.naturalTextWidth()) + 1
        left = inner.right() - width if direction == Qt.LayoutDirection.RightToLeft else inner.left()
        painter.setPen(self.colors.text if hit.entry.is_enabled else self.colors.muted)
        layout.draw(painter, QRect(left, inner.top() + int(inner.height() - line.height()) // 2, 0, 0).topLeft())
        return width


def _aligned(side: Qt.AlignmentFlag, direction: Qt.LayoutDirection) -> int:
    """Left is where a line begins: `drawText` must be told, since it does not mirror by itself."""
    if direction == Qt.LayoutDirection.RightToLeft:
        mirrored = {Qt.AlignmentFlag.AlignLeft: Qt.AlignmentFlag.AlignRight}
        side = mirrored.get(side, Qt.AlignmentFlag.AlignLeft)
    return int(side | Qt.AlignmentFlag.AlignAbsolute | Qt.AlignmentFlag.AlignVCenter)


def _bold(place: int) -> QTextLayout.FormatRange:
    letter = QTextLayout.FormatRange()
    letter.start, letter.length = place, 1
    format_ = letter.format
    format_.setFontWeight(QFont.Weight.Bold)
    letter.format = format_
    return letter

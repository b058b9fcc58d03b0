"""Paints the rows of the list: a header, a title, and under it the words that a search found."""

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QPointF, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPolygonF
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.chat.history.records import HIT_BEGIN, HIT_END
from app.chat.sidebar.model import ROW
from app.chat.sidebar.rows import ChatRow, HeaderRow
from app.i18n.translation import tr
from app.system.plain_text import runs_leftwards, unsteered
from app.ui.theme import Colors

_SIDE, _GAP, _RADIUS = 10, 7, 7
_HEADER_ABOVE = 12
_FOLDER_SHARE = 0.4  # of a line, at most
_ARROW = 4.0  # half of the side of a folder's arrow

Index = QModelIndex | QPersistentModelIndex


class ConversationDelegate(QStyledItemDelegate):
    """Draws with the theme's colours; a title is edited in its place."""

    def __init__(self, colors: Colors, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.colors = colors

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        """One line, or two with an excerpt.

        A header is as high as a conversation without an excerpt: then all rows have one height, and Qt asks for one.
        """
        row = index.data(ROW)
        lines = 2 if isinstance(row, ChatRow) and row.excerpt else 1
        return QSize(0, QFontMetrics(option.font).lineSpacing() * lines + 2 * _GAP)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """One row."""
        row = index.data(ROW)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if isinstance(row, HeaderRow):
            self._paint_header(painter, option, row)
        elif isinstance(row, ChatRow):
            self._paint_chat(painter, option, row)
        painter.restore()

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        """The whole row is there to write in."""
        del index
        editor.setGeometry(option.rect)

    def _paint_header(self, painter: QPainter, option: QStyleOptionViewItem, row: HeaderRow) -> None:
        font = QFont(option.font)
        font.setWeight(QFont.Weight.DemiBold)
        font.setPointSizeF(font.pointSizeF() * 0.88)
        painter.setFont(font)
        painter.setPen(QColor(self.colors.muted))
        place = option.rect.adjusted(_SIDE, _HEADER_ABOVE, -_SIDE, 0)
        count = f"  {row.count}" if row.folder else ""
        room = place.width() - painter.fontMetrics().horizontalAdvance(count)
        if row.folder:
            room -= _SIDE + round(2 * _ARROW)
            self._paint_arrow(painter, option, row.is_closed)
        name = " ".join(row.text.split()) if row.folder else tr(row.text)
        words = painter.fontMetrics().elidedText(name, Qt.TextElideMode.ElideRight, room) + count
        painter.drawText(place, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, words)

    def _paint_arrow(self, painter: QPainter, option: QStyleOptionViewItem, is_closed: bool) -> None:
        """At the far end: a click closes the folder, and opens it; with the keyboard there, it stands out."""
        leftwards = option.direction == Qt.LayoutDirection.RightToLeft
        place = option.rect.adjusted(_SIDE, _HEADER_ABOVE, -_SIDE, 0)
        middle = QPointF(place.left() + _ARROW if leftwards else place.right() - _ARROW, place.center().y() + 0.5)
        side = -_ARROW if leftwards else _ARROW
        corners = (
            [(-side / 2, -_ARROW), (-side / 2, _ARROW), (side / 2, 0.0)]
            if is_closed
            else [(-_ARROW, -_ARROW / 2), (_ARROW, -_ARROW / 2), (0.0, _ARROW / 2)]
        )
        painter.save()
        stands_out = option.state & (QStyle.StateFlag.State_HasFocus | QStyle.StateFlag.State_MouseOver)
        painter.setBrush(QColor(self.colors.text if stands_out else self.colors.muted))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.drawPolygon(QPolygonF([middle + QPointF(*corner) for corner in corners]))
        if option.state & QStyle.StateFlag.State_HasFocus:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QColor(self.colors.accent))
            painter.drawRoundedRect(option.rect.adjusted(2, _HEADER_ABOVE // 2, -2, -1), _RADIUS, _RADIUS)
        painter.restore()

    def _paint_chat(self, painter: QPainter, option: QStyleOptionViewItem, row: ChatRow) -> None:
        rect: QRect = option.rect
        state = option.state
        chosen = bool(state & QStyle.StateFlag.State_Selected)
        if chosen or state & QStyle.StateFlag.State_MouseOver:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.colors.selection if chosen else self.colors.hover))
            painter.drawRoundedRect(rect.adjusted(2, 1, -2, -1), _RADIUS, _RADIUS)
        metrics = QFontMetrics(option.font)
        painter.setFont(option.font)
        line = QRect(rect.left() + _SIDE, rect.top() + _GAP, rect.width() - 2 * _SIDE, metrics.lineSpacing())
        room = self._paint_folder(painter, line, row.folder_elsewhere)
        painter.setPen(QColor(self.colors.text))
        _draw(painter, room, metrics.elidedText(row.record.shown_title, Qt.TextElideMode.ElideRight, room.width()))
        if row.excerpt:
            self._paint_excerpt(painter, line.translated(0, metrics.lineSpacing()), row.excerpt)

    def _paint_folder(self, painter: QPainter, line: QRect, folder: str) -> QRect:
        """A folder at the far end of the line; returns what is left of it for the title."""
        if not folder:
            return line
        metrics = painter.fontMetrics()
        shown = metrics.elidedText(folder, Qt.TextElideMode.ElideRight, round(line.width() * _FOLDER_SHARE))
        width = metrics.horizontalAdvance(shown)
        leftwards = painter.layoutDirection() == Qt.LayoutDirection.RightToLeft
        left = line.left() if leftwards else line.right() - width + 1
        painter.setPen(QColor(self.colors.muted))
        painter.drawText(QRect(left, line.top(), width, line.height()), Qt.AlignmentFlag.AlignVCenter, shown)
        taken = width + _SIDE
        return line.adjusted(taken if leftwards else 0, 0, 0 if leftwards else -taken, 0)

    def _paint_excerpt(self, painter: QPainter, line: QRect, excerpt: str) -> None:
        """The words that were found stand out, and are moved into sight if they come late."""
        if painter.layoutDirection() == Qt.LayoutDirection.RightToLeft:
            words = " ".join(unsteered(excerpt).replace(HIT_BEGIN, "").replace(HIT_END, "").split())
            words = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, line.width())
            painter.setPen(QColor(self.colors.muted))
            _draw(painter, line, words)
            return
        plain, strong = QFont(painter.font()), QFont(painter.font())
        strong.setWeight(QFont.Weight.DemiBold)
        excerpt = unsteered(excerpt)
        first = excerpt.find(HIT_BEGIN)
        words = " ".join((excerpt if first < 24 else "…" + excerpt[first - 16 :]).split())
        at = line.left()
        for number, part in enumerate(words.replace(HIT_END, HIT_BEGIN).split(HIT_BEGIN)):
            painter.setFont(strong if number % 2 else plain)
            painter.setPen(QColor(self.colors.text if number % 2 else self.colors.muted))
            metrics = painter.fontMetrics()
            shown = metrics.elidedText(part, Qt.TextElideMode.ElideRight, line.right() - at)
            painter.drawText(at, line.top() + metrics.ascent(), shown)
            at += metrics.horizontalAdvance(part)
            if at >= line.right():
                return


def _draw(painter: QPainter, line: QRect, text: str) -> None:
    """A text where our lines begin, in its own direction."""
    ours = painter.layoutDirection()
    side = Qt.AlignmentFlag.AlignRight if ours == Qt.LayoutDirection.RightToLeft else Qt.AlignmentFlag.AlignLeft
    leftwards = runs_leftwards(text)
    painter.setLayoutDirection(Qt.LayoutDirection.RightToLeft if leftwards else Qt.LayoutDirection.LeftToRight)
    painter.drawText(line, side | Qt.AlignmentFlag.AlignAbsolute | Qt.AlignmentFlag.AlignVCenter, text)
    painter.setLayoutDirection(ours)

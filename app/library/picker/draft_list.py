"""The drafts of a target: the good ones first, none, and those that cannot be used, greyed out with the reason."""

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.i18n.number_text import size_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.pairing.drafts import DraftChoice, Origin
from app.system.plain_text import tip
from app.ui.theme import Colors
from engine.protocol.options import NO_DRAFT

NONE_REASON = mark("Answers without a draft; what repeats in the text is still guessed ahead.")
_SIDE, _GAP, _MARK = 10, 6, 14

Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()
_CHOICE = Qt.ItemDataRole.UserRole


class DraftModel(QAbstractListModel):
    """The choices, with `None` for no draft behind those that can be used."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lines: list[DraftChoice | None] = [None]

    def rowCount(self, parent: Index = _ROOT) -> int:  # noqa: N802
        """All choices and none."""
        return 0 if parent.isValid() else len(self._lines)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """A choice, or its words."""
        if not index.isValid():
            return None
        choice = self._lines[index.row()]
        name, reason = name_of(choice), reason_of(choice)
        words = {
            Qt.ItemDataRole.DisplayRole: name,
            Qt.ItemDataRole.AccessibleTextRole: f"{name}. {reason}",
            Qt.ItemDataRole.ToolTipRole: tip("\n".join(filter(None, (name, reason, choice.hint if choice else "")))),
        }
        return choice if role == _CHOICE else words.get(Qt.ItemDataRole(role))

    def flags(self, index: Index) -> Qt.ItemFlag:
        """What cannot be used cannot be chosen."""
        choice = self._lines[index.row()]
        usable = choice is None or choice.usable
        chosen = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return chosen if usable else Qt.ItemFlag.ItemNeverHasChildren

    def replace(self, choices: tuple[DraftChoice, ...]) -> None:
        """Show others."""
        self.beginResetModel()
        usable = [each for each in choices if each.usable]
        self._lines = [*usable, None, *(each for each in choices if not each.usable)]
        self.endResetModel()

    def row_of(self, source: str) -> int:
        """The line of a draft; that of none for what is not there."""
        sources = [NO_DRAFT if each is None else each.candidate.source for each in self._lines]
        return sources.index(source if source in sources else NO_DRAFT)

    def source(self, row: int) -> str:
        """What the engine calls the draft in a line."""
        choice = self._lines[row]
        return NO_DRAFT if choice is None else choice.candidate.source


class DraftDelegate(QStyledItemDelegate):
    """A mark for the one that is chosen, the name, and the reason under it."""

    def __init__(self, colors: Colors, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.colors = colors

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        """Two lines."""
        del index
        return QSize(0, 2 * QFontMetrics(option.font).lineSpacing() + 2 * _GAP)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """One draft."""
        found = index.data(_CHOICE)
        choice = found if isinstance(found, DraftChoice) else None
        usable = choice is None or choice.usable
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect: QRect = option.rect
        if chosen or (usable and option.state & QStyle.StateFlag.State_MouseOver):
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.colors.bubble if chosen else self.colors.hover))
            painter.drawRoundedRect(rect.adjusted(2, 1, -2, -1), 6, 6)
        metrics = QFontMetrics(option.font)
        line = rect.adjusted(_SIDE + _MARK + 8, _GAP, -_SIDE, 0)
        line.setHeight(metrics.lineSpacing())
        self._paint_mark(painter, rect.left() + _SIDE, line.center().y(), chosen, usable)
        bold = QFont(option.font)
        bold.setWeight(QFont.Weight.DemiBold if usable else QFont.Weight.Normal)
        painter.setFont(bold)
        self._write(painter, line, name_of(choice), self.colors.text if usable else self.colors.muted)
        painter.setFont(option.font)
        self._write(painter, line.translated(0, line.height()), reason_of(choice), self.colors.muted)
        painter.restore()

    def _paint_mark(self, painter: QPainter, left: int, middle: int, chosen: bool, usable: bool) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QColor(self.colors.accent if chosen else self.colors.muted if usable else self.colors.border))
        painter.drawEllipse(left, middle - _MARK // 2, _MARK, _MARK)
        if chosen:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.colors.accent))
            painter.drawEllipse(left + 4, middle - _MARK // 2 + 4, _MARK - 8, _MARK - 8)

    def _write(self, painter: QPainter, line: QRect, words: str, color: str) -> None:
        painter.setPen(QColor(color))
        shown = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, line.width())
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)


class DraftList(QListView):
    """`picked` carries the source of a draft that a person has chosen."""

    picked = Signal(str)

    def __init__(self, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.drafts = DraftModel(self)
        self.painter_ = DraftDelegate(colors, self)
        self._filling = False
        self.setObjectName("drafts")
        self.setAccessibleName(tr("Draft model"))
        self.setModel(self.drafts)
        self.setItemDelegate(self.painter_)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)

    def show_choices(self, choices: tuple[DraftChoice, ...], draft: str) -> None:
        """Show the drafts, and which one is chosen."""
        self._filling = True
        self.drafts.replace(choices)
        self.setCurrentIndex(self.drafts.index(self.drafts.row_of(draft)))
        self._filling = False

    def currentChanged(self, current: Index, previous: Index) -> None:  # noqa: N802
        """A person chose another."""
        super().currentChanged(current, previous)
        if not self._filling and current.isValid():
            self.picked.emit(self.drafts.source(current.row()))


def name_of(choice: DraftChoice | None) -> str:
    """The draft and where it is."""
    if choice is None:
        return tr("No draft")
    candidate = choice.candidate
    is_missing = candidate.bytes and candidate.origin is not Origin.LOCAL
    size = tr("{size} to download").format(size=size_text(candidate.bytes)) if is_missing else ""
    advice = f"  ({tr('recommended')})" if choice.recommended else ""
    return "  ·  ".join(filter(None, (candidate.name, size))) + advice


def reason_of(choice: DraftChoice | None) -> str:
    """What is to be known of it."""
    return tr(NONE_REASON) if choice is None else choice.reason

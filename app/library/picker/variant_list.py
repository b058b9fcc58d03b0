"""The variants of a repository: the number format, the size, and how it would run here, a line each."""

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.i18n.number_text import size_text
from app.i18n.translation import tr
from app.library.picker.entry import UNKNOWN, Tone, Verdict
from app.library.picker.entry_list import tone_color
from app.library.variants import VariantChoice
from app.system.plain_text import tip
from app.ui.theme import Colors

_SIDE, _GAP, _MARK, _BETWEEN = 10, 4, 14, 12
_MOST_LINES = 5
_SAFETENSORS, _STAR, _HERE_MARK = "safetensors", "★", "✓"

Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()
_CHOICE = Qt.ItemDataRole.UserRole
_VERDICT = Qt.ItemDataRole.UserRole + 1
_HERE = Qt.ItemDataRole.UserRole + 2


class VariantModel(QAbstractListModel):
    """The choices with what is said of each, and which of them are on this computer."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._choices: tuple[VariantChoice, ...] = ()
        self._verdicts: dict[str, Verdict] = {}
        self._here: frozenset[str] = frozenset()

    def rowCount(self, parent: Index = _ROOT) -> int:  # noqa: N802
        """All choices."""
        return 0 if parent.isValid() else len(self._choices)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """A choice, or its words."""
        if not index.isValid():
            return None
        choice = self._choices[index.row()]
        verdict, is_here = self._verdicts.get(choice.source, UNKNOWN), choice.source in self._here
        facts = (name_of(choice), size_of(choice, is_here), verdict.words)
        words = {
            Qt.ItemDataRole.DisplayRole: name_of(choice),
            Qt.ItemDataRole.AccessibleTextRole: ", ".join(filter(None, facts)),
            Qt.ItemDataRole.ToolTipRole: tip(_describe(choice, verdict, is_here)),
        }
        return {_CHOICE: choice, _VERDICT: verdict, _HERE: is_here}.get(role, words.get(Qt.ItemDataRole(role)))

    def replace(self, choices: tuple[VariantChoice, ...], here: frozenset[str]) -> None:
        """Show others; what was said of those that stay is still true."""
        if (choices, here) == (self._choices, self._here):
            return
        self.beginResetModel()
        self._choices, self._here = choices, here
        self.endResetModel()

    def set_verdict(self, source: str, verdict: Verdict) -> None:
        """Say how a variant would run; what is no variant of this repository is not remembered."""
        row = self.row_of(source)
        if row >= 0 and self._verdicts.get(source) != verdict:
            self._verdicts[source] = verdict
            self.dataChanged.emit(self.index(row), self.index(row))

    def row_of(self, source: str) -> int:
        """The line of a variant; -1 where there is none."""
        return next((row for row, each in enumerate(self._choices) if each.source == source), -1)

    def choice(self, row: int) -> VariantChoice:
        """The variant in a line."""
        return self._choices[row]


class VariantDelegate(QStyledItemDelegate):
    """A mark for the one that is chosen, the number format, the size, and the estimate in its colour."""

    def __init__(self, colors: Colors, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.colors = colors
        self.widths = (0, 0)  # of the names and of the sizes

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802
        """One line."""
        del index
        return QSize(0, QFontMetrics(option.font).lineSpacing() + 2 * _GAP)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """One variant."""
        choice, verdict, is_here = index.data(_CHOICE), index.data(_VERDICT), index.data(_HERE)
        if not isinstance(choice, VariantChoice) or not isinstance(verdict, Verdict):
            return
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect: QRect = option.rect
        if chosen or option.state & QStyle.StateFlag.State_MouseOver:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.colors.bubble if chosen else self.colors.hover))
            painter.drawRoundedRect(rect.adjusted(2, 1, -2, -1), 6, 6)
        self._paint_mark(painter, rect.left() + _SIDE, rect.center().y(), chosen)
        line = rect.adjusted(_SIDE + _MARK + 8, 0, -_SIDE, 0)
        painter.setFont(_bold(option.font))
        name, size = _shown_name(choice), _shown_size(choice, bool(is_here))
        line = self._write(painter, line, name, self.colors.text, self.widths[0])
        painter.setFont(option.font)
        line = self._write(painter, line, size, self.colors.muted, self.widths[1])
        tone = verdict.tone if verdict.words else Tone.QUIET
        self._write(painter, line, verdict.words, tone_color(self.colors, tone), 0)
        painter.restore()

    def measure(self, font: QFont, choices: tuple[VariantChoice, ...], here: frozenset[str]) -> None:
        """Make the columns of names and sizes as wide as the widest in them."""
        names = [_shown_name(each) for each in choices]
        sizes = [_shown_size(each, each.source in here) for each in choices]
        bold, plain = QFontMetrics(_bold(font)), QFontMetrics(font)
        self.widths = (
            max(map(bold.horizontalAdvance, names), default=0),
            max(map(plain.horizontalAdvance, sizes), default=0),
        )

    def _paint_mark(self, painter: QPainter, left: int, middle: int, chosen: bool) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QColor(self.colors.accent if chosen else self.colors.muted))
        painter.drawEllipse(left, middle - _MARK // 2, _MARK, _MARK)
        if chosen:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.colors.accent))
            painter.drawEllipse(left + 4, middle - _MARK // 2 + 4, _MARK - 8, _MARK - 8)

    def _write(self, painter: QPainter, line: QRect, words: str, color: str, column: int) -> QRect:
        """Write at the left end of the line, into a column so wide; returns what is left of the line."""
        painter.setPen(QColor(color))
        shown = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, line.width())
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)
        return line.adjusted(column + _BETWEEN if column else 0, 0, 0, 0)


class VariantList(QListView):
    """`picked` carries the source of a variant that a person has chosen."""

    picked = Signal(str)

    def __init__(self, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.variants = VariantModel(self)
        self.painter_ = VariantDelegate(colors, self)
        self._filling = False
        self.setObjectName("drafts")
        self.setAccessibleName(tr("Variant"))
        self.setModel(self.variants)
        self.setItemDelegate(self.painter_)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)

    def show_choices(self, choices: tuple[VariantChoice, ...], here: frozenset[str], source: str) -> None:
        """Show the variants, and which one is chosen."""
        self._filling = True
        self.variants.replace(choices, here)
        self.painter_.measure(self.font(), choices, here)
        row = self.variants.row_of(source)
        if row != self.currentIndex().row():
            self.setCurrentIndex(self.variants.index(row) if row >= 0 else QModelIndex())
        self._filling = False
        lines = min(_MOST_LINES, len(choices))
        self.setFixedHeight(lines * max(1, self.sizeHintForRow(0)) + 2 * self.frameWidth() + 8 if lines else 0)

    def currentChanged(self, current: Index, previous: Index) -> None:  # noqa: N802
        """A person chose another."""
        super().currentChanged(current, previous)
        if not self._filling and current.isValid():
            self.picked.emit(self.variants.choice(current.row()).source)


def name_of(choice: VariantChoice) -> str:
    """The number format, and whether it suggests itself."""
    name = choice.name or _SAFETENSORS
    return tr("{name} (recommended)").format(name=name) if choice.recommended else name


def _shown_name(choice: VariantChoice) -> str:
    """The same where there is little room; the tooltip says what the star means."""
    name = choice.name or _SAFETENSORS
    return f"{name} {_STAR}" if choice.recommended else name


def _shown_size(choice: VariantChoice, is_here: bool) -> str:
    """The same, with a mark for what is here."""
    return " ".join(filter(None, (size_of(choice, False), _HERE_MARK if is_here else "")))


def _bold(font: QFont) -> QFont:
    bold = QFont(font)
    bold.setWeight(QFont.Weight.DemiBold)
    return bold


def size_of(choice: VariantChoice, is_here: bool) -> str:
    """What it takes, and whether it is here."""
    return "  ·  ".join(filter(None, (size_text(choice.bytes) if choice.bytes else "", tr("here") if is_here else "")))


def _describe(choice: VariantChoice, verdict: Verdict, is_here: bool) -> str:
    """Everything that is known of it, a line each."""
    size = tr("Download: {size}").format(size=size_text(choice.bytes)) if choice.bytes else ""
    lines = (
        choice.source,
        tr("On this computer") if is_here else size,
        tr("In %n files", n=choice.file_count) if choice.file_count > 1 else "",
        tr("Recommended: four bits lose little and stream fast.") if choice.recommended else "",
        verdict.words,
        verdict.details if verdict.details not in verdict.words else "",
    )
    return "\n".join(filter(None, lines))

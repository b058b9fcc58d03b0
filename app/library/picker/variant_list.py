"""The variants of a repository: the number format, the size, and how it would run here, a line each."""

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QRect, Qt
from PySide6.QtGui import QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyleOptionViewItem, QWidget

from app.i18n.number_text import size_text
from app.i18n.translation import tr
from app.library.picker.choice_list import MARK, ROOT, SIDE, ChoiceDelegate, ChoiceList, Index, bold
from app.library.picker.entry import UNKNOWN, Tone, Verdict
from app.library.picker.entry_list import tone_color
from app.library.variants import VariantChoice
from app.system.plain_text import tip
from app.ui.theme import Colors

_GAP, _BETWEEN = 4, 12
_MOST_LINES = 5
_SAFETENSORS, _STAR, _HERE_MARK = "safetensors", "★", "✓"

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

    def rowCount(self, parent: Index = ROOT) -> int:  # noqa: N802
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


class VariantDelegate(ChoiceDelegate):
    """A mark for the one that is chosen, the number format, the size, and the estimate in its colour."""

    room = 2 * _GAP

    def __init__(self, colors: Colors, parent: QObject | None = None) -> None:
        super().__init__(colors, parent)
        self.widths = (0, 0)  # of the names and of the sizes

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """One variant."""
        choice, verdict, is_here = index.data(_CHOICE), index.data(_VERDICT), index.data(_HERE)
        if not isinstance(choice, VariantChoice) or not isinstance(verdict, Verdict):
            return
        painter.save()
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        chosen = self.begin(painter, option)
        rect: QRect = option.rect
        self.paint_mark(painter, rect.left() + SIDE, rect.center().y(), chosen)
        line = rect.adjusted(SIDE + MARK + 8, 0, -SIDE, 0)
        painter.setFont(bold(option.font))
        name, size = _shown_name(choice), _shown_size(choice, bool(is_here))
        line = self._write_column(painter, line, name, self.colors.text, self.widths[0])
        painter.setFont(option.font)
        line = self._write_column(painter, line, size, self.colors.muted, self.widths[1])
        tone = verdict.tone if verdict.words else Tone.QUIET
        self.write(painter, line, verdict.words, tone_color(self.colors, tone))
        painter.restore()

    def measure(self, font: QFont, choices: tuple[VariantChoice, ...], here: frozenset[str]) -> None:
        """Make the columns of names and sizes as wide as the widest in them."""
        names = [_shown_name(each) for each in choices]
        sizes = [_shown_size(each, each.source in here) for each in choices]
        heavy, plain = QFontMetrics(bold(font)), QFontMetrics(font)
        self.widths = (
            max(map(heavy.horizontalAdvance, names), default=0),
            max(map(plain.horizontalAdvance, sizes), default=0),
        )

    def _write_column(self, painter: QPainter, line: QRect, words: str, color: str, width: int) -> QRect:
        """Write at the left end of the line; returns what is left of the line behind a column so wide."""
        self.write(painter, line, words, color)
        return line.adjusted(width + _BETWEEN if width else 0, 0, 0, 0)


class VariantList(ChoiceList):
    """`picked` carries the source of a variant."""

    def __init__(self, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(tr("Variant"), parent)
        self.variants = VariantModel(self)
        self.painter_ = VariantDelegate(colors, self)
        self.set_lines(self.variants, self.painter_, lambda row: self.variants.choice(row).source)

    def show_choices(self, choices: tuple[VariantChoice, ...], here: frozenset[str], source: str) -> None:
        """Show the variants, and which one is chosen."""
        self._is_filled = False
        self.variants.replace(choices, here)
        self.painter_.measure(self.font(), choices, here)
        row = self.variants.row_of(source)
        if row != self.currentIndex().row():
            self.setCurrentIndex(self.variants.index(row) if row >= 0 else QModelIndex())
        self._is_filled = True
        lines = min(_MOST_LINES, len(choices))
        self.setFixedHeight(lines * max(1, self.sizeHintForRow(0)) + 2 * self.frameWidth() + 8 if lines else 0)


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

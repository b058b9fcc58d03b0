"""The drafts of a target: the good ones first, none, and those that cannot be used, greyed out with the reason."""

from PySide6.QtCore import QAbstractListModel, QObject, QRect, Qt
from PySide6.QtGui import QFontMetrics, QPainter
from PySide6.QtWidgets import QStyleOptionViewItem, QWidget

from app.i18n.number_text import size_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.pairing.drafts import DraftChoice, Origin
from app.library.picker.choice_list import MARK, ROOT, SIDE, ChoiceDelegate, ChoiceList, Index, bold
from app.system.plain_text import tip
from app.ui.theme import Colors
from engine.protocol.options import NO_DRAFT

NONE_REASON = mark("Answers without a draft; what repeats in the text is still guessed ahead.")
_GAP = 6
_CHOICE = Qt.ItemDataRole.UserRole


class DraftModel(QAbstractListModel):
    """The choices, with `None` for no draft behind those that can be used."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lines: list[DraftChoice | None] = [None]

    def rowCount(self, parent: Index = ROOT) -> int:  # noqa: N802
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


class DraftDelegate(ChoiceDelegate):
    """A mark for the one that is chosen, the name, and the reason under it."""

    rows, room = 2, 2 * _GAP

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """One draft."""
        found = index.data(_CHOICE)
        choice = found if isinstance(found, DraftChoice) else None
        usable = choice is None or choice.usable
        painter.save()
        chosen = self.begin(painter, option, usable)
        rect: QRect = option.rect
        metrics = QFontMetrics(option.font)
        line = rect.adjusted(SIDE + MARK + 8, _GAP, -SIDE, 0)
        line.setHeight(metrics.lineSpacing())
        self.paint_mark(painter, rect.left() + SIDE, line.center().y(), chosen, usable)
        painter.setFont(bold(option.font) if usable else option.font)
        self.write(painter, line, name_of(choice), self.colors.text if usable else self.colors.muted)
        painter.setFont(option.font)
        self.write(painter, line.translated(0, line.height()), reason_of(choice), self.colors.muted)
        painter.restore()


class DraftList(ChoiceList):
    """`picked` carries the source of a draft."""

    def __init__(self, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(tr("Draft model"), parent)
        self.drafts = DraftModel(self)
        self.painter_ = DraftDelegate(colors, self)
        self.set_lines(self.drafts, self.painter_, self.drafts.source)

    def show_choices(self, choices: tuple[DraftChoice, ...], draft: str) -> None:
        """Show the drafts, and which one is chosen."""
        self._is_filled = False
        self.drafts.replace(choices)
        self.setCurrentIndex(self.drafts.index(self.drafts.row_of(draft)))
        self._is_filled = True


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

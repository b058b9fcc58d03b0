"""The command palette: a field over a list of everything that can be done, found by a few letters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QFont, QKeyEvent, QPainter, QPalette, QTextLayout
from PySide6.QtWidgets import (
    QFrame,
    QLabel,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app.i18n.translation import tr
from app.settings.store import options
from app.system.plain_text import tip
from app.ui.actions import CommandAction, plain, shown_keys
from app.ui.theme import Colors
from app.ui.widgets import announce, label

_WORD_START, _NEIGHBOUR, _LETTER = 8, 5, 1
_BREAKS = frozenset(" -_/:(.›&")


@dataclass(frozen=True, slots=True)
class Match:
    """A fit: the larger `score` the better; `places` are the letters of the name that were meant."""

    score: int = 0
    places: tuple[int, ...] = ()


def match(wanted: str, name: str) -> Match | None:
    """The best fit of the letters of `wanted`, in their order, with `name`; None where they do not fit.

    Every word that is wanted is looked for by itself, so their order is free. Letters at the beginning of a word and
    side by side count for more; so a name that holds the words as they are comes before one that has them scattered.
    """
    score, places = 0, set[int]()
    for word in wanted.casefold().split():
        found = _match_word(word, name.casefold())
        if found is None:
            return None
        score += found.score
        places.update(found.places)
    return Match(score, tuple(sorted(places)))


def _match_word(word: str, name: str) -> Match | None:
    """The best of the fits that begin at each place where the word's first letter stands."""
    starts = (place for place, letter in enumerate(name) if letter == word[0])
    found = [each for start in starts if (each := _from(start, word, name)) is not None]
    return max(found, key=lambda each: each.score, default=None)


def _from(start: int, word: str, name: str) -> Match | None:
    """Take the next place for each letter, preferring the one beside the last."""
    places = [start]
    for letter in word[1:]:
        place = name.find(letter, places[-1] + 1)
        if place < 0:
            return None
        places.append(place)
    score = sum(_worth(place, places[index - 1] if index else -2, name) for index, place in enumerate(places))
    return Match(score - (places[-1] - start) // 4, tuple(places))


def _worth(place: int, before: int, name: str) -> int:
    worth = _LETTER
    if place == 0 or name[place - 1] in _BREAKS:
        worth += _WORD_START
    if place == before + 1:
        worth += _NEIGHBOUR
    return worth


MOST_RECENT = 30
_OPTION = "option:"
_WHERE_FACTOR = 3  # letters that fit only what stands beside the name are worth that much less


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to do. `key` names it across sessions; `where` tells where else it is found, `keys` its shortcut.

    `about`: further words that find it, and are not shown; `hindrance`: why it cannot be done now, as a sentence.
    """

    key: str
    name: str
    where: str
    keys: str
    run: Callable[[], object]
    hindrance: str = ""
    about: str = ""

    @property
    def is_enabled(self) -> bool:
        """Whether it can be done now."""
        return not self.hindrance

    @property
    def beside(self) -> str:
        """What stands beside the name: why it cannot be done, or where else it is found."""
        return self.hindrance or self.where


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that fits, and the letters of its name that made it fit."""

    entry: Entry
    places: tuple[int, ...] = ()


def found(entries: Sequence[Entry], wanted: str, recent: Sequence[str]) -> list[Hit]:
    """The entries that fit, best first; equally good ones by when they were last used, then as they were given."""
    ages = {key: age for age, key in enumerate(recent)}
    scored = [(score, Hit(entry, places)) for entry in entries for score, places in _scores(entry, wanted)]
    scored.sort(key=lambda each: (-each[0], ages.get(each[1].entry.key, MOST_RECENT)))
    return [hit for _, hit in scored]


def entry_of(action: CommandAction, menu: str) -> Entry:
    """A command of the window; one that can be on or off tells which it is."""
    name = plain(action.text())
    if action.isCheckable():
        state = tr("{action} (now on)") if action.isChecked() else tr("{action} (now off)")
        name = state.format(action=name)
    return Entry(action.objectName(), name, menu, shown_keys(action), action.trigger, action.hindrance)


def option_entries(show: Callable[[str], object]) -> list[Entry]:
    """Every option of Preferences; `show` is called with the name of the one that is chosen."""
    return [
        Entry(f"{_OPTION}{name}", tr(option.title), tr("Preferences"), "", partial(show, name), about=tr(option.help))
        for name, option in options().items()
    ]


def used(recent: Sequence[str], key: str) -> tuple[str, ...]:
    """The keys that were used, with this one as the newest."""
    return (key, *(each for each in recent if each != key))[:MOST_RECENT]


def _scores(entry: Entry, wanted: str) -> list[tuple[int, tuple[int, ...]]]:
    """How well it fits, and by which letters of its name; empty where it does not."""
    by_name = match(wanted, entry.name)
    if by_name is not None:
        return [(by_name.score, by_name.places)]
    by_all = match(wanted, f"{entry.where} {entry.name}") or _match_words(wanted, f"{entry.name} {entry.about}")
    return [] if by_all is None else [(by_all.score // _WHERE_FACTOR, ())]


def _match_words(wanted: str, text: str) -> Match | None:
    """The fit of words that begin words of a text; in so long a text, scattered letters would fit anything."""
    text = f" {text.casefold()}"
    words = wanted.casefold().split()
    if not all(f" {word}" in text for word in words):
        return None
    return Match(sum(_LETTER * len(word) + _WORD_START + _NEIGHBOUR * (len(word) - 1) for word in words))


_Index = QModelIndex | QPersistentModelIndex
_PADDING, _GAP = 12, 14


class HitModel(QAbstractListModel):
    """The hits, for a view; what a screen reader says is name, place, shortcut, and why it cannot be done."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.hits: Sequence[Hit] = ()

    def show_hits(self, hits: Sequence[Hit]) -> None:
        """Replace the hits."""
        self.beginResetModel()
        self.hits = hits
        self.endResetModel()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: N802, B008
        """A flat list."""
        return 0 if parent.isValid() else len(self.hits)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The name; for screen readers all there is to say; as a tip what may have no room beside the name."""
        entry = self.hits[index.row()].entry
        if role == Qt.ItemDataRole.DisplayRole:
            return entry.name
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return ", ".join(filter(None, (entry.name, entry.where, entry.keys, entry.hindrance)))
        if role == Qt.ItemDataRole.ToolTipRole and entry.hindrance:
            return tip(entry.hindrance)
        return None

    def flags(self, index: _Index) -> Qt.ItemFlag:
        """What cannot be done now is greyed, but still tells its shortcut."""
        if index.isValid() and self.hits[index.row()].entry.is_enabled:
            return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return Qt.ItemFlag.NoItemFlags


class HitDelegate(QStyledItemDelegate):
    """Name at the beginning, with the letters that fit in bold; `Entry.beside` after it, the shortcut at the end."""

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
        if hit.entry.beside and beside > metrics.averageCharWidth() * 6:
            words = metrics.elidedText(hit.entry.beside, Qt.TextElideMode.ElideRight, beside)
            left = (
                inner.left() + taken
                if direction == Qt.LayoutDirection.RightToLeft
                else inner.left() + name_width + _GAP
            )
            place = QRect(left, inner.top(), beside, inner.height())
            painter.setPen(muted)
            painter.drawText(place, _aligned(Qt.AlignmentFlag.AlignLeft, direction), words)
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


_WIDTH, _LEAST_ROWS, _MOST_ROWS, _TOP = 620, 3, 11, 72
_AROUND = 130  # pixels: what is above and below the rows in a low window
_TO_LIST = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)


class CommandPalette(QFrame):
    """`chosen` carries the entry that was run; the palette has closed by then. Esc and a click elsewhere close it."""

    chosen = Signal(Entry)

    def __init__(self, colors: Colors, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._window = parent
        self._entries: Sequence[Entry] = ()
        self._recent: Sequence[str] = ()
        self.setObjectName("popover")
        self.setAccessibleName(tr("Command palette"))
        self.field = QLineEdit(self, placeholderText=tr("What do you want to do, or which chat to open?"))
        self.field.setObjectName("palette-field")
        self.field.setAccessibleName(tr("Search commands and chats"))
        self.model = HitModel(self)
        self.list = self._build_list(colors)
        self.nothing: QLabel = label("quiet-text", tr("Nothing fits."), self)
        self.nothing.setContentsMargins(12, 8, 12, 12)
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 10, 10, 10)
        column.setSpacing(8)
        for widget in (self.field, self.list, self.nothing):
            column.addWidget(widget)
        self.field.textChanged.connect(self._show_found)
        self.field.installEventFilter(self)
        self.list.clicked.connect(self._run)

    def _build_list(self, colors: Colors) -> QListView:
        view = QListView(self)
        view.setObjectName("palette-list")
        view.setAccessibleName(tr("Commands and chats"))
        view.setModel(self.model)
        view.setItemDelegate(HitDelegate(colors, view))
        view.setFrameShape(QFrame.Shape.NoFrame)
        view.setUniformItemSizes(True)
        view.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the field keeps it, and hands the arrows on
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        return view

    def open(self, entries: Sequence[Entry], recent: Sequence[str]) -> None:
        """Show these, the ones used last first, and wait for letters."""
        self._entries, self._recent = entries, recent
        self.field.clear()
        self._show_found()
        self.setFixedWidth(min(_WIDTH, self._window.width() - 32))
        corner = QPoint((self._window.width() - self.width()) // 2, min(_TOP, self._window.height() // 8))
        self.move(self._window.mapToGlobal(corner))
        self.show()
        self.field.setFocus(Qt.FocusReason.PopupFocusReason)

    def set_theme(self, colors: Colors) -> None:
        """Paint in these colours."""
        delegate = self.list.itemDelegate()
        assert isinstance(delegate, HitDelegate)
        delegate.colors = colors

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Arrows go to the list, Enter runs what is chosen there; everything else is written."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._run(self.list.currentIndex())
                return True
            if event.key() in _TO_LIST:
                self._step(event)
                return True
        return super().eventFilter(watched, event)

    def _step(self, event: QKeyEvent) -> None:
        """One row or one page up or down; beyond the last comes the first."""
        rows = [row for row, hit in enumerate(self.model.hits) if hit.entry.is_enabled]
        if not rows:
            return
        here = rows.index(self.list.currentIndex().row()) if self.list.currentIndex().row() in rows else -1
        match event.key():
            case Qt.Key.Key_Down:
                here = (here + 1) % len(rows)
            case Qt.Key.Key_Up:
                here = (here - 1) % len(rows)
            case Qt.Key.Key_PageDown:
                here = min(here + _MOST_ROWS - 1, len(rows) - 1)
            case _:
                here = max(here - _MOST_ROWS + 1, 0)
        self.list.setCurrentIndex(self.model.index(rows[here]))

    def _show_found(self) -> None:
        hits = found(self._entries, self.field.text(), self._recent)
        self.model.show_hits(hits)
        first = next((row for row, hit in enumerate(hits) if hit.entry.is_enabled), -1)
        self.list.setCurrentIndex(self.model.index(first) if first >= 0 else QModelIndex())
        if hits and first < 0:
            announce(self.list, f"{hits[0].entry.name}: {hits[0].entry.hindrance}")  # no key leads to it
        row = self.list.sizeHintForRow(0) if hits else 0
        most = max(_LEAST_ROWS, min(_MOST_ROWS, (self._window.height() - _AROUND) // row)) if row else 0
        self.list.setFixedHeight(row * min(len(hits), most) + 2)
        self.list.setVisible(bool(hits))
        self.nothing.setVisible(not hits)
        self.adjustSize()

    def _run(self, index: QModelIndex) -> None:
        if not index.isValid() or not self.model.hits[index.row()].entry.is_enabled:
            return
        entry = self.model.hits[index.row()].entry
        self.close()
        self.chosen.emit(entry)
        entry.run()

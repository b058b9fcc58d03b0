"""The bar above a conversation that finds words in it: a field, what was found, and the ways through it."""

from PySide6.QtCore import QEvent, QTimer, Signal
from PySide6.QtGui import QKeyEvent, Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QLineEdit, QSizePolicy, QToolButton, QWidget

from app.chat.finding.needle import Wanted
from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.system.plain_text import tip
from app.ui.theme import Colors, icon
from app.ui.widgets import announce, claims_escape, offer, quiet_tool

_TYPING_MS = 60  # after a key, until it is looked for
_LEAST_FIELD = 90  # pixels
_MOST_FIELD = 340


class FindBar(QFrame):
    """Hidden until it is opened. `wanted_changed` comes a moment after the keys."""

    wanted_changed = Signal(Wanted)
    step_wanted = Signal(int)  # 1: the next hit, -1: the one before
    closed = Signal()

    def __init__(self, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("find-bar")
        self.setAccessibleName(tr("Find in this chat"))
        self.field = QLineEdit(self, placeholderText=tr("Find in this chat"))
        self.field.setAccessibleName(tr("Find in this chat"))
        self.field.setMinimumWidth(_LEAST_FIELD)
        self.field.setMaximumWidth(_MOST_FIELD)
        self.count = QLabel(self)
        self.count.setObjectName("figure")
        self.case = self._switch("Aa", tr("Match case"), tr("Capital and small letters, and accents, are told apart."))
        self.whole = self._switch("|ab|", tr("Whole words"), tr("Only words that are exactly this are found."))
        self.previous = quiet_tool(self, tr("Previous hit (Shift+F3)"), lambda: self.step_wanted.emit(-1))
        self.next = quiet_tool(self, tr("Next hit (F3)"), lambda: self.step_wanted.emit(1))
        self.close_tool = quiet_tool(self, tr("Close (Esc)"), self.end)
        self._pause = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._pause.timeout.connect(self._tell)
        self.field.textChanged.connect(self._pause.start)
        for switch in (self.case, self.whole):
            switch.toggled.connect(self._tell)
        self._lay_out()
        self.set_theme(colors)
        self.show_count(0, 0, is_done=True)
        self.hide()

    def _lay_out(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 6, 8, 6)
        row.setSpacing(4)
        row.addStretch(1)
        row.addWidget(self.field, 100)
        row.addSpacing(4)
        row.addWidget(self.count)
        for tool in (self.previous, self.next, self.case, self.whole, self.close_tool):
            row.addWidget(tool)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    @property
    def wanted(self) -> Wanted:
        """What is looked for."""
        return Wanted(self.field.text(), self.case.isChecked(), self.whole.isChecked())

    @property
    def is_open(self) -> bool:
        """Whether it is shown."""
        return not self.isHidden()

    def begin(self, words: str = "") -> None:
        """Show the bar and write in it; without `words` with what was looked for last."""
        if words:
            self.field.setText(words)
        self.show()
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()
        self._tell()

    def show_words(self, words: str) -> None:
        """Show the bar with these words; the focus stays where it is."""
        self.field.setText(words)
        self.show()
        self._tell()

    def end(self) -> None:
        """Hide it."""
        self._pause.stop()
        if self.is_open:
            self.closed.emit()
            self.hide()

    def flush(self) -> None:
        """Look at once for what was typed last."""
        if self._pause.isActive():
            self._tell()

    def show_count(self, number: int, count: int, is_done: bool, is_elsewhere: bool = False) -> None:
        """Hit `number`, from 1, of so many; more may come until it `is_done`. `is_elsewhere`: in other versions."""
        words = tr("{number} of {count}").format(number=f"{Number(number):,}", count=f"{Number(count):,}")
        if not count:
            nothing = tr("Only in other versions") if is_elsewhere else tr("Nothing found")
            words = nothing if is_done and self.field.text() else ""
        self.count.setText(words if is_done or not count else f"{words}…")
        self.count.setAccessibleName(words)
        tone = "warning" if is_done and self.field.text() and not count else ""
        if tone != (self.count.property("tone") or ""):
            self.count.setProperty("tone", tone)
            self.count.style().unpolish(self.count)
            self.count.style().polish(self.count)
        for tool in (self.previous, self.next):
            can_go = count > 0 or not is_done  # who stands on one stays there while an answer grows
            offer(tool, tool.accessibleName(), "" if can_go else words or tr("Nothing is looked for."))

    def announce(self) -> None:
        """Have a screen reader say what is found."""
        if self.count.text():
            announce(self.field, self.count.text())

    def set_theme(self, colors: Colors) -> None:
        """Draw the tools in other colours."""
        self.previous.setIcon(icon("up", colors.muted))
        self.next.setIcon(icon("down", colors.muted))
        self.close_tool.setIcon(icon("close", colors.muted))

    def event(self, event: QEvent) -> bool:
        """Escape closes the bar, also while an answer is written that it would stop otherwise."""
        return claims_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter goes to the next hit, with Shift to the one before; Escape closes the bar."""
        if event.key() == Qt.Key.Key_Escape:
            self.end()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            with_shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self.step_wanted.emit(-1 if with_shift else 1)
        else:
            super().keyPressEvent(event)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        self._pause.stop()
        self.wanted_changed.emit(self.wanted)

    def _switch(self, sign: str, name: str, meaning: str) -> QToolButton:
        made = QToolButton(self)
        made.setObjectName("quiet-words")
        made.setText(sign)
        made.setCheckable(True)
        made.setAccessibleName(name)
        made.setToolTip(tip(f"{name}\n{meaning}"))
        return made

"""One line that says why trees are small, and offers larger ones to whoever wants to see them."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.tree.tool_button import tool_button
from engine.protocol.messages import Round

LARGER_BUDGET = 64
_SMALL = 16
_ROUNDS = 3  # a first small tree or two are trials


class Advice(QWidget):
    """Seen only while the automatic budget grows small trees, or while it is overruled from here."""

    budget_wanted = Signal(int)
    """The budget of the next answers; 0 for automatic."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._budget = 0
        self._is_ours = False  # the budget that holds was set from here
        self._small = 0  # rounds on end with small trees
        self._reason = ""
        self.words = QLabel(self)
        self.words.setWordWrap(True)
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        tip = tr("From the next answer on; the answers stay the same, but may come slower.")
        self.button = tool_button("", tip, self)
        self.button.setAutoRaise(False)  # it stands in a sentence's line, and is to be seen as a button
        self.button.clicked.connect(self._on_clicked)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 0, 4, 2)
        row.setSpacing(8)
        row.addWidget(self.words, 1)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignTop)
        self._refresh()

    def set_budget(self, budget: int) -> None:
        """The budget that the next answer will have; 0 for automatic."""
        if budget != self._budget:
            self._is_ours = False
        self._budget, self._small = budget, 0
        self._refresh()

    def learn(self, newest: Round) -> None:
        """A round was computed."""
        is_small = newest.budget <= _SMALL and self._budget == 0 and bool(newest.method)
        self._small = self._small + 1 if is_small else 0
        self._refresh()

    def tell(self, reason: str) -> None:
        """What the engine said, at the end of an answer, of its choices."""
        self._reason = reason
        self._refresh()

    def _on_clicked(self) -> None:
        wanted = 0 if self._is_ours else LARGER_BUDGET
        self._budget, self._is_ours, self._small = wanted, not self._is_ours, 0
        self.budget_wanted.emit(wanted)
        self._refresh()

    def _refresh(self) -> None:
        self.setVisible(self._is_ours or self._small >= _ROUNDS)
        if self._is_ours:
            words = tr("Trees have up to {count} nodes from the next answer on.")
            self.words.setText(words.format(count=LARGER_BUDGET))
            self.button.setText(tr("Undo"))
        else:
            plain = tr("The budget tunes itself: larger trees would not make this pair faster.")
            why = translated(self._reason) if self._reason else plain
            self.words.setText(tr("Small trees. {reason}").format(reason=why))
            self.button.setText(tr("Show larger trees"))

"""The sentence that explains a round, and the buttons that lead through it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.tree.lesson import Step, lesson
from app.tree.rounds.snapshot import Snapshot
from app.tree.tool_button import tool_button

_LINES = 3  # of a sentence, at the width that the panel usually has


class LessonBar(QWidget):
    """Hidden, unless a round is being explained."""

    shown = Signal(Snapshot)
    """The tree as it is in this step."""

    ended = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._steps: tuple[Step, ...] = ()
        self._place = 0
        self.sentence = QLabel(self)
        self.sentence.setWordWrap(True)
        self.sentence.setTextFormat(Qt.TextFormat.PlainText)
        font = self.sentence.font()
        font.setPointSizeF(font.pointSizeF() * 1.15)
        self.sentence.setFont(font)
        self.sentence.setAlignment(Qt.AlignmentFlag.AlignTop)
        # As high for every sentence: the picture above must not move while it is explained.
        self.sentence.setMinimumHeight(_LINES * self.sentence.fontMetrics().lineSpacing())
        self._progress = QLabel(self)
        self.back = tool_button(tr("Back"), tr("The step before"), self)
        self.next = tool_button(tr("Next"), tr("The next step (Space)"), self)
        self.next.setAutoRaise(False)  # the one that is pressed again and again
        self.close_ = tool_button(tr("Close"), tr("End the explanation"), self)
        self._lay_out()
        self.back.clicked.connect(lambda: self._move(-1))
        self.next.clicked.connect(lambda: self._move(1))
        self.close_.clicked.connect(self.end)
        self.hide()

    @property
    def is_running(self) -> bool:
        """Whether a round is being explained."""
        return bool(self._steps)

    def begin(self, tree: Snapshot) -> None:
        """Explain this round."""
        self._steps, self._place = lesson(tree), 0
        self.show()
        self._move(0)
        self.next.setFocus()

    def end(self) -> None:
        """Explain no more."""
        if self._steps:
            self._steps = ()
            self.hide()
            self.ended.emit()

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(4)
        row.addWidget(self._progress, 1)
        for button in (self.back, self.next, self.close_):
            row.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 8, 6)
        column.setSpacing(4)
        column.addWidget(self.sentence)
        column.addLayout(row)

    def _move(self, steps: int) -> None:
        last = len(self._steps) - 1
        self._place = min(max(0, self._place + steps), last)
        step = self._steps[self._place]
        self.sentence.setText(step.sentence)
        self._progress.setText(tr("Step {number} of {count}").format(number=self._place + 1, count=last + 1))
        self.back.setEnabled(self._place > 0)
        self.next.setEnabled(self._place < last)
        self.shown.emit(step.tree)

"""One round told slowly, for those who see speculation for the first time: a sentence and a picture for each step."""

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.tree.picture.moving.growth import stages
from app.tree.rounds.snapshot import Snapshot, partial
from app.tree.rounds.text import visible
from app.tree.widgets import tool_button


@dataclass(frozen=True, slots=True)
class Step:
    """What is said, and the tree as it is then."""

    sentence: str
    tree: Snapshot


def explain_steps(tree: Snapshot) -> tuple[Step, ...]:
    """The steps of a verified round, from its root to what the answer has grown by."""
    begin = tr(
        "A model writes token by token: a word, or a piece of one; ‘·’ is a space. The answer so far ends with "
        "{token}. What comes next?"
    )
    steps = [Step(begin.format(token=_quoted(tree, 0)), partial(tree, 1))]
    if tree.drafted:
        steps += _guesses(tree)
        steps.append(Step(_check(tree.drafted), partial(tree, len(tree.pieces))))
        steps += _acceptance(tree)
    if tree.has_bonus:
        bonus = f"‘{visible(tree.bonus_piece, tree.bonus)}’"
        steps.append(Step(_bonus(tree).format(token=bonus), tree))
    steps.append(Step(_sum(tree), tree))
    return tuple(steps)


def _check(count: int) -> str:
    if count == 1:
        return tr("Now the target, the model that counts, checks it.")
    words = tr(
        "Now the target, the model that counts, checks all {count} tokens at once. One pass over them takes hardly "
        "longer than one pass over a single token."
    )
    return words.format(count=f"{Number(count):,}")


def _bonus(tree: Snapshot) -> str:
    if not tree.drafted:
        return tr("Nothing was guessed, so the target says {token} of its own: the bonus, from the same pass.")
    if (tree.parents == tree.tip).any():
        return tr("Where no guess fits, the target says {token} of its own: the bonus, from the same pass.")
    return tr("Behind the last guess the target says {token} of its own: the bonus, from the same pass.")


def _sum(tree: Snapshot) -> str:
    """What the round gave, and what it would have taken otherwise."""
    count = tree.new_tokens
    one, more = (
        tr("The answer has grown by one token in one pass."),
        tr("The answer has grown by {count} tokens in one pass."),
    )
    parts = [one if count == 1 else more.format(count=count)]
    if count > 1:
        parts.append(tr("Token by token, that would have taken {count} passes.").format(count=count))
    if not tree.has_bonus:
        parts.append(tr("With the last of these guesses the answer ends."))
    elif tree.drafted:
        parts.append(tr("The other guesses are cut, and it starts anew."))
    return " ".join(parts)


def _guesses(tree: Snapshot) -> list[Step]:
    ends = stages(tree.parents.tolist())[1:]
    steps = [Step(_first(ends[0] - 2).format(token=_quoted(tree, 1)), partial(tree, ends[0]))]
    on = tr(
        "It guesses on behind its likeliest guesses, several at a time. The likelier, the sooner: so it becomes a tree."
    )
    still = tr("It guesses on behind its likeliest guesses, several at a time. By now it has {count} tokens.")
    for place, end in enumerate(ends[1:-1][:: max(1, len(ends) // 3)]):
        steps.append(Step((still if place else on).format(count=f"{Number(end - 1):,}"), partial(tree, end)))
    if len(ends) > 1:
        all_of_it = tr("Now it has {count} tokens, up to {depth} deep.")
        steps.append(
            Step(all_of_it.format(count=f"{Number(tree.drafted):,}", depth=tree.depth), partial(tree, len(tree.pieces)))
        )
    return steps


def _first(others: int) -> str:
    """The sentence of the first guesses, of which one is named."""
    if others == 0:
        return tr("The draft, a small and fast model, guesses {token}.")
    if others == 1:
        return tr("The draft, a small and fast model, guesses {token} and one more.")
    words = tr("The draft, a small and fast model, guesses {token} and {count} others.")
    return words.replace("{count}", f"{Number(others):,}")


def _acceptance(tree: Snapshot) -> list[Step]:
    count = len(tree.pieces)
    first = tr("The target says {token}, which was guessed: accepted.")
    further = tr("Behind that it says {token}, which was guessed: accepted.")
    steps = []
    for place, node in enumerate(tree.accepted[1:], start=1):
        sentence = (first if place == 1 else further).format(token=_quoted(tree, node))
        steps.append(Step(f"{sentence} {_beside(tree, node)}".rstrip(), partial(tree, count, place)))
    nothing = tr("None of the first guesses is what the target says next: no token is accepted.")
    return steps or [Step(nothing, partial(tree, count))]


def _beside(tree: Snapshot, node: int) -> str:
    """What becomes of the guesses that stood in the same place."""
    others = np.flatnonzero(tree.parents == tree.parents[node])
    others = others[others != node]
    if not len(others):
        return ""
    one, more = (
        tr("{token} is out, with all behind it."),
        tr("{token} and the other guesses here are out, with all behind them."),
    )
    return (one if len(others) == 1 else more).format(token=_quoted(tree, int(others[0])))


def _quoted(tree: Snapshot, node: int) -> str:
    return f"‘{visible(tree.pieces[node], int(tree.tokens[node]))}’"


_LINES = 3  # of a sentence, at the width that the panel usually has


class ExplainerBar(QWidget):
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
        self._steps, self._place = explain_steps(tree), 0
        self.show()
        self._move(0)
        self.next.setFocus()

    def end(self) -> None:
        """Explain no more."""
        if self._steps:
            self._steps = ()
            self.ended.emit()  # while the focus is still here
            self.hide()

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

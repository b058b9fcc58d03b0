"""A tour of three steps for who is here for the first time: what was guessed, why it is fast, and bigger models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QApplication, QWidget

from app.chat.history.message import AnswerEnding, Message
from app.engine.steps import plausible
from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.shell.tour.callout import Callout, Ring
from engine.protocol.options import EMBEDDED

if TYPE_CHECKING:
    from app.shell.window import MainWindow

_QUIET_MS = 600  # after an answer, before something else is shown
_WELL = (AnswerEnding.COMPLETE, AnswerEnding.LENGTH)
_MOVES = (QEvent.Type.Move, QEvent.Type.Resize, QEvent.Type.Show, QEvent.Type.Hide, QEvent.Type.ParentChange)


Target = Sequence[QWidget | None]
"""Widgets that belong together, the most telling one first."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is said, and at what it points: the first of these that can be seen, with the others of its group."""

    title: Callable[[], str]
    words: Callable[[], str]
    targets: Callable[[], Sequence[Target]]


class Tour(QObject):
    """Shown by itself once, behind the first answer of the first run, without the focus; and whenever it is asked for.

    It is over as soon as it was skipped, ended or gone through.
    """

    def __init__(self, window: "MainWindow") -> None:
        super().__init__(window)
        self._window = window
        self._step = -1
        self._callout: Callout | None = None
        self._ring: Ring | None = None
        self._before: QWidget | None = None  # had the focus
        self._followed: list[QObject] = []
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._place)
        self._quiet = QTimer(self, singleShot=True, interval=_QUIET_MS)
        self._quiet.timeout.connect(self._begin_quietly)
        self._escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), window, self.end)
        self._escape.setEnabled(False)
        window.actions_.stop.changed.connect(self._share_escape)
        window.chat.answer_changed.connect(self._on_answer_changed)
        self._steps = (
            Step(lambda: tr("What the draft guessed"), self._of_tree, self._tree),
            Step(lambda: tr("Why it is fast"), self._of_figures, self._figures),
            Step(lambda: tr("Now a bigger model"), self._of_models, self._models),
        )
        self._is_offered = self._is_of_answer = False  # whether the words tell of an answer that is under way

    @property
    def is_shown(self) -> bool:
        """Whether a step is shown."""
        return self._step >= 0

    @property
    def callout(self) -> Callout | None:
        """The bubble, while a step is shown."""
        return self._callout

    def offer(self) -> None:
        """Show it by itself behind the first answer, unless it was shown before, or there are chats of another day."""
        self._is_offered = not self._window.settings.current.toured

    def begin(self) -> None:
        """Show it to somebody who asked for it: the tree is opened, and the bubble gets the focus."""
        self._window.tree_dock.show()
        if not self.is_shown:
            self._before = QApplication.focusWidget()
            self._show(0)
        if self._callout is not None:
            self._callout.next.setFocus()

    def end(self) -> None:
        """Put it away; the focus goes back to where it was."""
        if not self.is_shown:
            return
        self._step = -1
        self._escape.setEnabled(False)
        self._follow(())
        focus, callout, ring = QApplication.focusWidget(), self._callout, self._ring
        self._callout = self._ring = None
        assert callout is not None, "a step was shown"
        if focus is not None and callout.isAncestorOf(focus):
            before = self._before
            (before if before is not None and before.isVisible() else self._window.chat_panel).setFocus()
        for part in (callout, ring):
            if part is not None:
                part.hide()
                part.deleteLater()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """What is pointed at, or something around it, has moved; or nobody in the window wanted Escape."""
        if event.type() in _MOVES and self.is_shown:
            self._soon.start()
        return watched is self._window and event.type() == QEvent.Type.KeyPress and self._takes_escape(event)

    # ---- when it comes by itself ------------------------------------------------------------------------------------

    def _on_answer_changed(self, answer: Message, _added: str) -> None:
        if self.is_shown and (answer.ending.is_final or not self._is_of_answer):
            self._show(self._step)  # with the figures of this answer, as soon as it has them
        if self._is_offered and answer.ending in _WELL and answer.text:
            self._quiet.start()

    def _begin_quietly(self) -> None:
        """Not over a dialog, nor in the middle of the next answer; then behind that."""
        window = self._window
        is_busy = QApplication.activeModalWidget() is not None or QApplication.activePopupWidget() is not None
        if not self._is_offered or is_busy or window.chat.is_answering or not window.isVisible():
            return
        self._is_offered = False
        window.settings.change(toured=True)
        if len(window.conversations.autosave.records) <= 1 and not self.is_shown:
            self._show(0)

    # ---- steps ------------------------------------------------------------------------------------------------------

    def _show(self, step: int) -> None:
        is_new, self._step = step != self._step, step
        if self._steps[step].targets == self._figures and is_new:
            self._window.chat_panel.view.scroll_to_bottom()
        self._is_of_answer = self._window.chat.is_answering
        self._share_escape()
        self._place()
        if is_new and self._callout is not None:
            self._callout.announce()

    def _move(self, steps: int) -> None:
        step = self._step + steps
        if step >= len(self._steps):
            self.end()
        elif step >= 0:
            self._show(step)

    def _place(self) -> None:
        """Point at the step's target wherever that is now, in whichever window."""
        if not self.is_shown:
            return
        step = self._steps[self._step]
        groups = ([each for each in group if each is not None and each.isVisible()] for group in step.targets())
        composer = self._window.chat_panel.composer
        group: Sequence[QWidget] = next((each for each in groups if each), [composer])
        target = group[0]
        callout, ring = self._in(target.window())
        callout.show_step(step.title(), step.words(), self._step + 1, len(self._steps))
        avoid = _part_of(composer) if composer.window() is target.window() else QRect()
        part = QRect()
        for each in group:
            part = part.united(_part_of(each))
        ring.surround(part)
        callout.point_at(part, avoid if target is not composer else QRect())
        self._follow(_around(target))

    def _in(self, window: QWidget) -> tuple[Callout, Ring]:
        """The bubble and the ring, as children of a window: a dock may be one of its own."""
        if self._callout is None or self._ring is None:
            self._callout, self._ring = Callout(window), Ring(window)
            self._callout.next_wanted.connect(lambda: self._move(1))
            self._callout.back_wanted.connect(lambda: self._move(-1))
            self._callout.ended.connect(self.end)
        elif self._callout.parentWidget() is not window:
            has_focus = self._callout.isAncestorOf(QApplication.focusWidget() or window)
            self._callout.setParent(window)
            self._ring.setParent(window)
            if has_focus:
                self._callout.next.setFocus()
        return self._callout, self._ring

    def _follow(self, widgets: Sequence[QWidget]) -> None:
        """Hear of it when one of these moves, and of no others any more."""
        if list(widgets) == self._followed:
            return
        for each in self._followed:
            each.removeEventFilter(self)
        self._followed = list(widgets)
        for each in widgets:
            each.installEventFilter(self)
            each.destroyed.connect(self._forget)

    def _forget(self) -> None:
        self._followed = []
        if self.is_shown:
            self._soon.start()

    def _takes_escape(self, event: QEvent) -> bool:
        """End it with Escape where no shortcut works: without a window manager no window is the active one."""
        is_escape = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
        if not is_escape or not self.is_shown or self._window.actions_.stop.isEnabled():
            return False
        self.end()
        return True

    def _share_escape(self) -> None:
        """As long as it stops an answer, it does that."""
        self._escape.setEnabled(self.is_shown and not self._window.actions_.stop.isEnabled())

    # ---- what is pointed at, and what is said of it -----------------------------------------------------------------

    def _tree(self) -> Sequence[Target]:
        return (self._window.tree_panel.page,), (self._window.tool_button(self._window.actions_.tree),)

    def _figures(self) -> Sequence[Target]:
        view = self._window.chat_panel.view
        return [each.figures.shown for each in view.answers[-1:] if view.isVisible()]

    def _models(self) -> Sequence[Target]:
        return (self._window.tool_button(self._window.actions_.models),), (self._window.download_indicator,)

    def _of_tree(self) -> str:
        tree = self._window.tree_panel.shown_tree
        if self._window.chat.is_answering:  # no numbers: the next tree is there in a moment
            return tr(
                "What the draft, a small model, guesses in every round, and what of it the target accepts in one pass: "
                "green is accepted."
            )
        if tree is None or not tree.is_verified:
            return tr(
                "Ask something, and the tree is here (Ctrl+T): what the draft, a small model, guesses in every round, "
                "and what of it the target accepts in one pass."
            )
        if not tree.drafted:
            return tr(
                "This was one pass of the target. Nothing was guessed for it, so it gave one token. With a draft this "
                "is a tree of guesses."
            )
        begin = tr("The draft, a small model, guessed a tree of %n tokens.", n=tree.drafted)
        count = len(tree.accepted) - 1
        checked = tr("The target checked all of them in one pass and accepted none; it added a token of its own.")
        if count:
            checked = tr("The target checked all of them in one pass, accepted %n (green), and added one.", n=count)
        if not tree.has_bonus:
            checked = tr("The target checked all of them in one pass and accepted %n (green): there it ended.", n=count)
        place = "" if self._window.tree_dock.isVisible() else tr("This button shows the tree (Ctrl+T).")
        return " ".join(filter(None, (begin, checked, _sum(tree.new_tokens), place)))

    def _of_figures(self) -> str:
        answer = self._window.chat.conversation.last_answer
        figures = plausible(answer.statistics) if answer is not None and answer.statistics is not None else None
        if figures is None or not figures.passes:
            return tr(
                "Below every answer stands how many tokens a pass of the target gave. The more, the faster: without "
                "guesses it is one."
            )
        said = tr(
            "{tokens} tokens in %n passes of the target: {rate:.1f} tokens per pass. Without guesses every token "
            "takes a pass of its own. Point here to see where the time went; Ctrl+Alt+T shows in the text which tokens "
            "were guessed.",
            n=figures.passes,
        )
        return said.format(tokens=f"{Number(figures.new_tokens):,}", rate=Number(figures.tokens_per_pass))

    def _of_models(self) -> str:
        pair = self._window.library.state.pair
        if pair is not None and pair.target.source != EMBEDDED:
            return tr(
                "In Models (Ctrl+M) you choose a target and a draft for it. The target may be bigger than your GPU: "
                "its layers are streamed from memory and disk, and the text stays exactly its own."
            )
        return tr(
            "This was the embedded demo, a tiny model. In Models (Ctrl+M) you choose a target of your own. It may be "
            "bigger than your GPU: its layers are streamed from memory and disk, and guesses make up for the time."
        )


def _sum(tokens: int) -> str:
    return tr("Token by token, that would have been %n passes.", n=tokens) if tokens > 1 else ""


def _part_of(widget: QWidget) -> QRect:
    """What can be seen of a widget, in its window."""
    seen = QRect(widget.mapTo(widget.window(), QPoint()), widget.size())
    around = widget.parentWidget()
    while around is not None:
        seen = seen.intersected(QRect(around.mapTo(around.window(), QPoint()), around.size()))
        around = around.parentWidget() if not around.isWindow() else None
    return seen


def _around(widget: QWidget) -> list[QWidget]:
    """It, and everything up to its window."""
    found = [widget]
    while not found[-1].isWindow() and (parent := found[-1].parentWidget()) is not None:
        found.append(parent)
    return found

"""The bars around the tree: why trees are small, which recording is open, and which of the rounds is looked at."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QLabel, QWidget

from app.i18n.number_text import Number
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.system.plain_text import tip
from app.tree.ribbon.ribbon import Ribbon, about
from app.tree.rounds.player import SPEEDS, Player
from app.tree.widgets import line_of_words, tool_button
from app.ui.colors import TreeColors
from app.ui.flow_layout import flow_of
from app.ui.widgets import fill
from engine.protocol.messages import Round

LARGER_BUDGET = 64
_SMALL_BUDGET = 16
_SMALL_ROUNDS = 3  # a first small tree or two are trials


class Advice(QWidget):
    """Seen only while the automatic budget grows small trees, or while it is overruled from here."""

    budget_wanted = Signal(int)
    """The budget of the next answers; 0 for automatic."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._budget = 0
        self._is_ours = False  # the budget that holds was set from here
        self._small = 0  # rounds on end with small trees
        self._reason = self._planned = ""
        tip = tr("From the next answer on; the answers stay the same, but may come slower.")
        self.button = tool_button("", tip, self)
        self.button.setAutoRaise(False)  # it stands in a sentence's line, and is to be seen as a button
        self.button.clicked.connect(self._on_clicked)
        self.words = line_of_words(self, self.button, 8, 0, 4, 2)
        self._refresh()

    def set_budget(self, budget: int) -> None:
        """The budget that the next answer will have; 0 for automatic."""
        if budget != self._budget:
            self._is_ours = False
        self._budget, self._small = budget, 0
        self._refresh()

    def learn(self, newest: Round) -> None:
        """A round was computed."""
        is_small = newest.budget <= _SMALL_BUDGET and self._budget == 0 and bool(newest.method)
        self._small = self._small + 1 if is_small else 0
        self._refresh()

    def tell(self, reason: str) -> None:
        """What the engine said, at the end of an answer, of its choices."""
        self._reason = reason
        self._refresh()

    def set_plan(self, reason: str) -> None:
        """What the plan of the pair that was loaded says of small trees, until an answer says it."""
        self._reason, self._planned = "", reason
        self._refresh()

    def _on_clicked(self) -> None:
        wanted = 0 if self._is_ours else LARGER_BUDGET
        self._budget, self._is_ours, self._small = wanted, not self._is_ours, 0
        self.budget_wanted.emit(wanted)
        self._refresh()

    def _refresh(self) -> None:
        self.setVisible(self._is_ours or self._small >= _SMALL_ROUNDS)
        if self._is_ours:
            words = tr("Trees have up to {count} nodes from the next answer on.")
            self.words.setText(words.format(count=LARGER_BUDGET))
            self.button.setText(tr("Undo"))
        else:
            plain = tr("The budget tunes itself: larger trees would not make this pair faster.")
            why = translated(self._reason or self._planned) or plain
            self.words.setText(tr("Small trees. {reason}").format(reason=why))
            self.button.setText(tr("Show larger trees"))


class RecordingBar(QWidget):
    """Hidden, unless a recording is open."""

    closed = Signal()
    """The conversation's rounds are wanted again."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.close_ = tool_button(tr("Back to the conversation"), tr("Close the recording (L)"), self)
        self.close_.setAutoRaise(False)
        self.close_.clicked.connect(self.closed)
        self.words = line_of_words(self, self.close_, 8, 2, 4, 2)
        self.hide()

    def show_recording(self, name: str, rounds: int, is_whole: bool) -> None:
        """Say which one, and how much of it is there."""
        one, more = tr("Recording “{name}”: 1 round"), tr("Recording “{name}”: {count} rounds")
        words = (one if rounds == 1 else more) if is_whole else tr("Recording “{name}”: {count} rounds so far…")
        self.words.setText(words.format(name=name, count=f"{Number(rounds):,}"))
        self.show()


_GAP = 2  # logical pixels, between the ribbon and the buttons


class Timeline(QWidget):
    """Moves a `Player`, and shows where it is. Hidden as long as there is nothing to choose from."""

    def __init__(self, player: Player, colors: TreeColors, parent: QWidget) -> None:
        super().__init__(parent)
        self._player = player
        self.back = tool_button("‹", tr("The round before (,)"), self)
        self.play = tool_button(
            tr("Pause"),
            tr("Pause at this round, or go on through the rounds (Space). The answer is written on meanwhile."),
            self,
        )
        self.forth = tool_button("›", tr("The next round (.)"), self)
        self.ribbon = Ribbon(colors, self)
        self.place = QLabel(self)
        self.place.setToolTip(tip(about()))
        self.speed = QComboBox(self)
        self.speed.setToolTip(tr("How fast rounds are played, of the speed at which they were computed"))
        self.speed.setAccessibleName(tr("Speed"))
        for speed in SPEEDS:
            self.speed.addItem(f"{Number(speed):g}×", speed)
        self.speed.setCurrentIndex(SPEEDS.index(1.0))
        self.live = tool_button(tr("Live"), tr("Show the newest round as it comes (L)"), self, checkable=True)
        self._lay_out()
        self._connect()
        self.refresh()

    def fit(self, height: int) -> None:
        """Take no more than so many logical pixels: without its ribbon, or where its buttons have no room, none."""
        buttons = self._buttons.heightForWidth(self.width())
        self._buttons.setVisible(height >= buttons)
        self.ribbon.setVisible(height >= buttons + _GAP + self.ribbon.sizeHint().height())

    def refresh(self) -> None:
        """Show where the player is."""
        player, count = self._player, len(self._player.history)
        self.setVisible(count > 1)
        self.ribbon.show_rounds(player.history.figures, max(0, player.shown_place))
        self.place.setText(f"{Number(player.shown_place + 1):,} / {Number(count):,}")
        self.play.setText(tr("Pause") if player.is_moving else tr("Play"))
        self.live.setChecked(player.follows_newest)
        self.back.setEnabled(player.shown_place > 0)
        self.forth.setEnabled(player.shown_place < count - 1)

    def _lay_out(self) -> None:
        self._buttons = flow_of((self.back, self.play, self.forth, self.place, None, self.speed, self.live), 4, self)
        self._buttons.setContentsMargins(8, 0, 4, 4)
        fill(self, (self.ribbon, self._buttons), _GAP)

    def _connect(self) -> None:
        player = self._player
        self.back.clicked.connect(lambda: player.step(-1))
        self.forth.clicked.connect(lambda: player.step(1))
        self.play.clicked.connect(player.toggle)
        self.live.clicked.connect(player.go_live)
        self.ribbon.sought.connect(player.seek)
        self.speed.currentIndexChanged.connect(self._on_speed_chosen)

    def _on_speed_chosen(self, index: int) -> None:
        self._player.speed = SPEEDS[index]

"""The line below the tree: which of the rounds is looked at, and how to get to the others."""

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QSlider, QWidget

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.tree.rounds.player import SPEEDS, Player
from app.tree.tool_button import tool_button


class Timeline(QWidget):
    """Moves a `Player`, and shows where it is. Hidden as long as there is nothing to choose from."""

    def __init__(self, player: Player, parent: QWidget) -> None:
        super().__init__(parent)
        self._player = player
        self.back = tool_button("‹", tr("The round before (,)"), self)
        self.play = tool_button(
            tr("Pause"),
            tr("Pause at this round, or go on through the rounds (Space). The answer is written on meanwhile."),
            self,
        )
        self.forth = tool_button("›", tr("The next round (.)"), self)
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setAccessibleName(tr("Round"))
        self.slider.setMinimumWidth(40)
        self.slider.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.place = QLabel(self)
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

    def refresh(self) -> None:
        """Show where the player is."""
        player, count = self._player, len(self._player.history)
        self.setVisible(count > 1)
        with QSignalBlocker(self.slider):
            self.slider.setMaximum(max(0, count - 1))
            self.slider.setValue(max(0, player.shown_place))
        self.place.setText(f"{Number(player.shown_place + 1):,} / {Number(count):,}")
        self.play.setText(tr("Pause") if player.follows_newest or player.is_playing else tr("Play"))
        self.live.setChecked(player.follows_newest)
        self.back.setEnabled(player.shown_place > 0)
        self.forth.setEnabled(player.shown_place < count - 1)

    def _lay_out(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 2, 4, 4)
        row.setSpacing(4)
        row.addWidget(self.back)
        row.addWidget(self.play)
        row.addWidget(self.forth)
        row.addWidget(self.slider, 1)
        row.addWidget(self.place)
        row.addWidget(self.speed)
        row.addWidget(self.live)

    def _connect(self) -> None:
        player = self._player
        self.back.clicked.connect(lambda: player.step(-1))
        self.forth.clicked.connect(lambda: player.step(1))
        self.play.clicked.connect(player.toggle)
        self.live.clicked.connect(player.go_live)
        self.slider.valueChanged.connect(player.seek)
        self.speed.currentIndexChanged.connect(self._on_speed_chosen)

    def _on_speed_chosen(self, index: int) -> None:
        self._player.speed = SPEEDS[index]

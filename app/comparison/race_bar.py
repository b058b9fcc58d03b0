"""The controls of the race: replay, its place in time, and its pace."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSlider, QWidget

from app.comparison.playback import Playback
from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.system.plain_text import tip
from app.ui.widgets import WheellessChoice, label, make_room

PACES = (0.25, 1.0, 4.0, 16.0)
_MILLI = 1000  # the slider counts milliseconds, where its largest number is enough
_LARGEST = 2**31 - 1
_STEPS = 20  # of the slider's keys, over the whole race


class RaceBar(QWidget):
    """Drives a playback."""

    def __init__(self, playback: Playback, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._playback = playback
        self.play = QPushButton(tr("Replay"), self)
        self.play.setAutoDefault(False)
        told = tr("Shows how both answers came, each at its own speed. Reading the question is left out.")
        self.play.setToolTip(tip(told))
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setAccessibleName(tr("Time of the race"))
        self.time = label("quiet-text", "", self)
        self.time.setWordWrap(False)
        self.pace = WheellessChoice(self)
        self.pace.setAccessibleName(tr("Pace of the race"))
        self.pace.setToolTip(tip(tr("1× is the speed at which they were written")))
        for each in PACES:
            self.pace.addItem(f"{Number(each):g}×")
        self.pace.setCurrentIndex(PACES.index(1.0))
        make_room(self.play)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 0, 12, 0)
        row.setSpacing(10)
        row.addWidget(self.play)
        row.addWidget(self.slider, 1)
        row.addWidget(self.time)
        row.addWidget(self.pace)
        self.play.clicked.connect(self._on_clicked)
        self.slider.valueChanged.connect(self._on_moved)
        self.pace.activated.connect(lambda index: playback.set_pace(PACES[index]))
        playback.changed.connect(self._show)
        self._show()

    def _on_clicked(self) -> None:
        if self._playback.is_playing:
            self._playback.pause()
        else:
            self._playback.play()

    def _on_moved(self, value: int) -> None:
        self._playback.pause()
        most = self.slider.maximum()
        self._playback.go_to(self._playback.duration if value >= most else value / self._steps_a_second)

    @property
    def _steps_a_second(self) -> float:
        """Engines elsewhere may tell of any times."""
        return min(_MILLI, _LARGEST / max(1.0, self._playback.duration))

    def _show(self) -> None:
        playback = self._playback
        self.setEnabled(playback.duration > 0)
        self.play.setText(tr("Pause") if playback.is_playing else tr("Replay"))
        whole = round(playback.duration * self._steps_a_second)
        self.slider.blockSignals(True)
        self.slider.setRange(0, whole)
        self.slider.setSingleStep(max(1, whole // (5 * _STEPS)))
        self.slider.setPageStep(max(1, whole // _STEPS))
        self.slider.setValue(round(playback.seconds * self._steps_a_second))
        self.slider.blockSignals(False)
        words = tr("{now:.2f} of {whole:.2f} s")
        self.time.setText(words.format(now=Number(playback.seconds), whole=Number(playback.duration)))

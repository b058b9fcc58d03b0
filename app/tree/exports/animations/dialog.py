"""The dialog that makes an animation of an answer: how large, in which colours, how fast; then how far it is."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QProgressBar,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.i18n.number_text import Number, size_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.tree.exports.animations.film import Film, Progress
from app.tree.exports.animations.footage import Footage
from app.tree.exports.animations.formats import FORMATS, filters, format_of
from app.tree.exports.choices import ROUND_SECONDS, SAME_TIME, SIZES, SPEEDS, TRUE_TIME, AnimationChoice
from app.tree.exports.fields import THEMES, choice_of, choose, colors_of, halves
from app.tree.picture.canvas import CHIPS, ICICLE
from app.ui.colors import TreeColors
from app.ui.file_dialogs import ask_where
from app.ui.widgets import DecimalField, fit_screen, give_room, label, row_of, without_signals

_SIZE_NAMES = {
    "small": mark("Small, {width} × {height}"),
    "wide": mark("Wide, {width} × {height}"),
    "square": mark("Square, {width} × {height}"),
    "tall": mark("Tall, {width} × {height}"),
    "full": mark("Full HD, {width} × {height}"),
}
_WAYS = {CHIPS: mark("Chips"), ICICLE: mark("Icicle")}
_PACES = {TRUE_TIME: mark("As it was, at speed"), SAME_TIME: mark("Seconds per round")}
_SIZE = QSize(860, 440)


class AnimationDialog(QDialog):
    """`chosen` comes when a person begins one; `made` says in words where it is, once it is there."""

    chosen = Signal(object)
    made = Signal(str)

    def __init__(
        self, footage: Footage, own: TreeColors, choice: AnimationChoice, make: Callable[[], Film], parent: QWidget
    ) -> None:
        """`own`: the colours of the window; `make` makes a film of the answer, not yet begun."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Export animation"))
        self._footage, self._own, self._choice, self._make = footage, own, choice, make
        self.film: Film | None = None
        self.size_ = choice_of(tr("Size"), _sizes(), self)
        self.theme = choice_of(tr("Colours"), THEMES, self)
        self.way = choice_of(tr("Tree"), _WAYS, self)
        self.pace = choice_of(tr("Time"), _PACES, self)
        self.time = _time_field(self)
        self.grows = QCheckBox(tr("Show how trees grow"), self)
        self.repeats = QCheckBox(tr("Begin again at the end"), self)
        self.format = choice_of(tr("Format"), {each.suffix: each.name for each in FORMATS}, self)
        self.words = label("quiet-text", "", self)
        self.preview = FramePreview(self)
        self.progress = QProgressBar(self, textVisible=False)  # it is a thin line
        self.progress.setAccessibleName(tr("Progress"))
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.save = self.buttons.addButton(tr("Save…"), QDialogButtonBox.ButtonRole.AcceptRole)
        self._fields = QWidget(self)
        self._lay_out()
        self._connect()
        self._fill()

    @property
    def choice(self) -> AnimationChoice:
        """What is chosen now."""
        return self._choice

    def begin(self, path: Path) -> None:
        """Make it; the dialog stays until it is made, and closing it ends that."""
        form = format_of(path.suffix)
        if form is None:
            words = tr("Animations cannot be written as {suffix}. Choose one of these: {suffixes}")
            self.words.setText(words.format(suffix=path.suffix, suffixes=", ".join(each.suffix for each in FORMATS)))
            return
        self.film = self._make()
        self.film.progressed.connect(self._on_progressed)
        self.film.done.connect(self._on_done)
        self.film.failed.connect(self._on_failed)
        self._show_running(True)
        self.film.begin(path, form, self._choice, self._colors, self._footage.font)

    def done(self, result: int) -> None:
        """However it is closed: what is under way is not wanted any more."""
        if self.film:
            self.film.cancel()
        super().done(result)

    @property
    def _colors(self) -> TreeColors:
        return colors_of(self._choice.theme, self._own)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        form = QFormLayout(self._fields)
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow(tr("Size"), self.size_)
        form.addRow(tr("Colours"), self.theme)
        form.addRow(tr("Tree"), self.way)
        form.addRow(tr("Time"), row_of((self.pace, self.time), 6))
        form.addRow("", self.grows)
        form.addRow("", self.repeats)
        form.addRow(tr("Format"), self.format)
        left = QVBoxLayout()
        left.addWidget(self._fields)
        column = QVBoxLayout(self)
        column.addLayout(halves(left, self.words, self.preview), 1)
        column.addWidget(self.progress)
        column.addWidget(self.buttons)
        self.save.setDefault(True)
        self.progress.hide()
        fit_screen(self, _SIZE)

    def _connect(self) -> None:
        for field in (self.size_, self.theme, self.way, self.format):
            field.currentIndexChanged.connect(self._on_edited)
        for box in (self.grows, self.repeats):
            box.toggled.connect(self._on_edited)
        self.pace.currentIndexChanged.connect(self._on_pace)
        self.time.valueChanged.connect(self._on_edited)
        self.save.clicked.connect(self._on_save)
        self.buttons.rejected.connect(self.reject)

    def _fill(self) -> None:
        choice = self._choice
        fields = (self.size_, self.theme, self.way, self.pace, self.format, self.grows, self.repeats)
        with without_signals(*fields):
            choose(self.size_, choice.size)
            choose(self.theme, choice.theme)
            choose(self.way, choice.way)
            choose(self.pace, choice.pace)
            choose(self.format, choice.suffix)
            self.grows.setChecked(choice.grows)
            self.repeats.setChecked(choice.repeats)
        self._on_pace()

    def _on_pace(self) -> None:
        """The number beside it means another thing now."""
        is_same = self.pace.currentData() == SAME_TIME
        with without_signals(self.time):
            self.time.setRange(*(ROUND_SECONDS if is_same else SPEEDS))
            self.time.setPrefix("" if is_same else "× ")
            self.time.setSuffix(" s" if is_same else "")
            self.time.setValue(self._choice.round_seconds if is_same else self._choice.speed)
        self._on_edited()

    def _on_edited(self) -> None:
        pace = self.pace.currentData()
        number = {"round_seconds" if pace == SAME_TIME else "speed": self.time.value()}
        self._choice = replace(
            self._choice,
            size=self.size_.currentData(),
            theme=self.theme.currentData(),
            way=self.way.currentData(),
            pace=pace,
            grows=self.grows.isChecked(),
            repeats=self.repeats.isChecked(),
            suffix=self.format.currentData(),
            **number,
        )
        self.words.setText(_forecast(self._footage, self._choice))
        self.preview.show_image(self._footage.sample(self._choice, self._colors))

    def _on_save(self) -> None:
        self.chosen.emit(self._choice)
        suffix = self._choice.suffix
        path = ask_where(self, self.windowTitle(), f"answer{suffix}", filters(suffix))
        if path is not None:
            self.begin(path)

    def _on_progressed(self, progress: Progress) -> None:
        self.progress.setRange(0, progress.all_rounds)
        self.progress.setValue(progress.rounds)
        words = tr("Round {done} of {count}; about {size} in the end.")
        self.words.setText(
            words.format(
                done=f"{Number(progress.rounds):,}",
                count=f"{Number(progress.all_rounds):,}",
                size=size_text(progress.bytes_estimated(self._footage.bytes(self._choice))),
            )
        )

    def _on_done(self, words: str) -> None:
        self.film = None
        self.made.emit(words)
        self.accept()

    def _on_failed(self, words: str) -> None:
        self.film = None
        self._show_running(False)
        self.words.setText(words)

    def _show_running(self, is_running: bool) -> None:
        self._fields.setEnabled(not is_running)
        self.save.setEnabled(not is_running)
        self.progress.setVisible(is_running)
        self.progress.setRange(0, 0)


def _sizes() -> dict[str, str]:
    named = {name: tr(words) for name, words in _SIZE_NAMES.items()}
    return {name: words.format(width=SIZES[name][0], height=SIZES[name][1]) for name, words in named.items()}


def _time_field(parent: QWidget) -> DecimalField:
    field = DecimalField(parent)
    field.setAccessibleName(tr("Speed, or seconds per round"))
    field.setDecimals(1)
    field.setSingleStep(0.1)
    give_room(field)
    return field


def _forecast(footage: Footage, choice: AnimationChoice) -> str:
    """How long it will be, and about how large."""
    rounds = tr("1 round") if footage.rounds == 1 else tr("{count} rounds")
    words = tr("{rounds}, about {seconds} s and {size}.")
    return words.format(
        rounds=rounds.format(count=f"{Number(footage.rounds):,}"),
        seconds=f"{Number(footage.seconds(choice)):,.0f}",
        size=size_text(footage.bytes(choice)),
    )


class FramePreview(QWidget):
    """Shows a frame as large as there is room."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._image = QImage()
        self.setAccessibleName(tr("Preview"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_image(self, image: QImage) -> None:
        """Show this one."""
        self._image = image
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room enough to recognise the picture."""
        return QSize(480, 300)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """In the middle."""
        if self._image.isNull():
            return
        room = self.size() * self.devicePixelRatioF()
        fitting = self._image.scaled(
            self._image.size().boundedTo(self._image.size().scaled(room, Qt.AspectRatioMode.KeepAspectRatio)),
            Qt.AspectRatioMode.KeepAspectRatio,
            Qt.TransformationMode.SmoothTransformation,
        )
        fitting.setDevicePixelRatio(self.devicePixelRatioF())
        size = fitting.deviceIndependentSize()
        painter = QPainter(self)
        painter.drawImage(round((self.width() - size.width()) / 2), round((self.height() - size.height()) / 2), fitting)

"""The pages of the assistant, and their words: which engine to install, how far it is, and what to do first."""

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QFileDialog,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from app.i18n.number_text import size_text
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.i18n.units import time_text
from app.i18n.wording import mark
from app.installation.runtime.builds import NAMES, UNKNOWN, BuildOffer, Proposal
from app.installation.runtime.place import Wanted
from app.installation.runtime.progress import InstallProgress, Stage
from app.system.plain_text import tip
from app.ui.widgets import Part, fill, label, make_room, row_of

_STAGES = {
    Stage.IDLE: mark("Nothing is being installed."),
    Stage.CHECKING: mark("Checking what is there…"),
    Stage.DOWNLOADING: mark("Downloading the engine…"),
    Stage.INSTALLING: mark("Unpacking the engine…"),
    Stage.VERIFYING: mark("Trying the engine out…"),
    Stage.PAUSED: mark("Paused. What has arrived is kept."),
    Stage.DONE: mark("The engine is ready."),
    Stage.FAILED: mark("The engine could not be installed."),
    Stage.CANCELLED: mark("Cancelled."),
}


def stage_text(stage: Stage) -> str:
    """What is being done."""
    return tr(_STAGES[stage])


def offer_text(offer: BuildOffer, is_best: bool) -> str:
    """The name of a build, and whether it is the proposed one."""
    name = tr(NAMES[offer.build])
    return tr("{build} (recommended)").format(build=name) if is_best else name


def cost_text(offer: BuildOffer, is_local: bool) -> str:
    """What a build takes."""
    values = {"disk": size_text(offer.disk_bytes(is_local)), "time": time_text(offer.seconds(is_local))}
    if is_local:
        return tr("{disk} on the disk, about {time}, nothing is downloaded").format(**values)
    values["size"] = size_text(offer.download_bytes)
    return tr("{size} to download, {disk} on the disk, about {time} at 50 Mbit/s").format(**values)


def detail_text(progress: InstallProgress) -> str:
    """Bytes, speed and time, while wheels arrive; why nothing arrives, while that is so; what was kept, afterwards."""
    fetched, is_stopped = progress.fetched, progress.stage in (Stage.PAUSED, Stage.FAILED)
    if not (progress.stage is Stage.DOWNLOADING or is_stopped) or not fetched.bytes_total:
        return ""
    values = {"done": size_text(fetched.bytes_done), "total": size_text(fetched.bytes_total)}
    if is_stopped:
        return tr("{done} of {total}").format(**values)
    if fetched.message:
        return tr("{done} of {total}. Waiting: {reason}.").format(**values, reason=translated(fetched.message))
    if fetched.seconds_left is None:
        return tr("{done} of {total}").format(**values)
    values |= {"speed": size_text(fetched.bytes_per_second), "left": time_text(fetched.seconds_left)}
    return tr("{done} of {total}, {speed}/s, {left} left").format(**values)


class ProposalPage(QWidget):
    """`chosen_changed` comes when another build or folder was chosen; `wanted` is None while nothing can be had."""

    chosen_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._offers: tuple[BuildOffer, ...] = ()
        self._chosen_build = ""
        words = tr(
            "Models run in an engine of their own, which is not part of this program because it is large and differs "
            "from computer to computer. It is installed once, for you alone. Chats can be read meanwhile."
        )
        self.found = label("", tr("Looking at this computer…"), self)
        self.advice = label("advice", "", self)
        self.group = QButtonGroup(self)
        self.choices: list[QRadioButton] = []
        self._list = QVBoxLayout()
        self._list.setSpacing(4)
        self.local = QCheckBox(tr("Install from a folder of &wheels, without the network"), self)
        self.local.setToolTip(tr("For computers without a network: the folder holds the files that the lock names."))
        self.folder = QLineEdit(self, placeholderText=tr("Folder of wheels"))
        self.folder.setAccessibleName(tr("Folder of wheels"))
        self.browse = QPushButton(tr("&Browse…"), self)
        row = row_of((24, self.folder, self.browse), wide=self.folder)
        title = label("quiet-text", words, self)
        fill(self, (title, self.found, self.advice, self._list, self.local, row, None), 12)
        self.advice.hide()
        self._show_folder(False)
        self.local.toggled.connect(self._show_folder)
        self.local.toggled.connect(self._on_changed)
        self.local.clicked.connect(self._on_local)
        self.folder.textChanged.connect(self._on_changed)
        self.browse.clicked.connect(self._on_browse)
        self.group.buttonClicked.connect(self._on_chosen)

    @property
    def wanted(self) -> Wanted | None:
        """What is to be installed."""
        button = self.group.checkedId()
        folder = self.folder.text().strip()
        if not 0 <= button < len(self._offers) or (self.local.isChecked() and not folder):
            return None
        return Wanted(self._offers[button].build.value, folder if self.local.isChecked() else "")

    def show_proposal(self, proposal: Proposal) -> None:
        """List what can be installed; the choice that somebody has made already stays."""
        for old in self.choices:
            self.group.removeButton(old)
        while (item := self._list.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        self._offers = proposal.offers
        self.choices = []
        self.found.setText(translated(proposal.found))
        self.advice.setVisible(proposal.advice is not None)
        self.advice.setText(translated(proposal.advice or ""))
        for number, offer in enumerate(proposal.offers):
            self._add_choice(number, offer, proposal)
        if not proposal.offers and proposal is not UNKNOWN:
            self.found.setText(tr("This Coppice brings no engine for this system."))
        self._on_changed()

    def set_offline(self, is_offline: bool) -> None:
        """Where Preferences forbid the network, a folder is the only way."""
        self.local.setEnabled(not is_offline)
        if is_offline:
            self.local.setChecked(True)
            self.local.setToolTip(tr("Preferences say that the network is not to be used."))

    def _add_choice(self, number: int, offer: BuildOffer, proposal: Proposal) -> None:
        is_best = offer is proposal.best
        button = QRadioButton(offer_text(offer, is_best), self)
        button.setChecked(offer.build.value == self._chosen_build or (is_best and not self._chosen_build))
        self.group.addButton(button, number)
        self.choices.append(button)
        cost = label("quiet-text", "", self)
        cost.setIndent(24)
        self._list.addWidget(button)
        self._list.addWidget(cost)
        if offer.doubt is not None:
            button.setToolTip(tip(translated(offer.doubt)))
        if offer.doubt is not None and offer.doubt != proposal.advice:  # which stands above already
            doubt = label("quiet-text", translated(offer.doubt), self)
            doubt.setIndent(24)
            self._list.addWidget(doubt)
        button.setProperty("cost", cost)

    def _show_folder(self, is_local: bool) -> None:
        self.folder.setEnabled(is_local)
        self.browse.setEnabled(is_local)

    def _on_local(self, is_local: bool) -> None:
        """Whoever ticks it by keyboard goes on typing: Install, which had the focus, is of no use without a folder."""
        if is_local and not self.folder.text():
            self.folder.setFocus(Qt.FocusReason.OtherFocusReason)

    def _on_chosen(self) -> None:
        self._chosen_build = self._offers[self.group.checkedId()].build.value
        self._on_changed()

    def _on_changed(self) -> None:
        """The costs depend on where it comes from."""
        for button, offer in zip(self.choices, self._offers, strict=True):
            text = cost_text(offer, self.local.isChecked())
            button.property("cost").setText(text)
            button.setAccessibleDescription(f"{text} {translated(offer.doubt or '')}".strip())
        self.chosen_changed.emit()

    def _on_browse(self) -> None:
        start = self.folder.text() or str(Path.home())
        folder = QFileDialog.getExistingDirectory(self, tr("Folder of wheels"), start)
        if folder:
            self.folder.setText(folder)
            self.folder.setFocus(Qt.FocusReason.OtherFocusReason)


_STEPS = 1000


class ProgressPage(QWidget):
    """Shows one `InstallProgress`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.is_stopping = False
        self.stage = label("option-title", "", self)
        self.bar = QProgressBar(self, maximum=_STEPS, textVisible=False)
        self.bar.setAccessibleName(tr("How much of the engine is installed"))
        self.detail = label("quiet-text", "", self)
        self.error = label("error", "", self)
        words = tr("This window may be closed: the installation goes on behind it.")
        self.closable = label("quiet-text", words, self)
        fill(self, (self.stage, self.bar, self.detail, self.error, self.closable, None), 10)

    def show_progress(self, progress: InstallProgress) -> None:
        """What is being done, and what went wrong."""
        is_running = progress.stage.is_running
        self.is_stopping = self.is_stopping and is_running
        self.bar.setValue(max(round(progress.fraction * _STEPS), self._kept(progress)))
        words = tr("Stopping…") if self.is_stopping else stage_text(progress.stage)
        percent = f" {self.bar.value() * 100 // _STEPS} %" if is_running else ""
        self.stage.setText(words + percent)
        self.closable.setVisible(is_running)
        self.detail.setText(detail_text(progress))
        words = translated(progress.message, progress.hint)
        self.error.setText(words)
        self.error.setVisible(bool(words))

    def show_stopping(self) -> None:
        """It was asked to stop, and takes away what is half unpacked."""
        self.is_stopping = True
        self.stage.setText(tr("Stopping…"))

    def _kept(self, progress: InstallProgress) -> int:
        """A pause or a failure does not empty the bar: what has arrived is kept."""
        return 0 if progress.stage.is_running else self.bar.value()


class ReadyPage(QWidget):
    """`try_requested` wants an answer of the embedded model, `models_requested` a model for this computer."""

    try_requested = Signal()
    models_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = label("option-title", tr("The engine is ready."), self)
        self.try_ = QPushButton(tr("&Try the embedded model now"), self)
        self.models = QPushButton(tr("&Choose a model for this computer…"), self)
        tiny = tr("Tiny, already here, often wrong: it shows within seconds how everything works.")
        larger = tr("Coppice proposes models that this computer can run, also ones bigger than its GPU.")
        fill(self, (self.title, *self._offered(self.try_, tiny), *self._offered(self.models, larger), None), 10)
        make_room(self.try_, self.models)
        self.try_.clicked.connect(self.try_requested)
        self.models.clicked.connect(self.models_requested)

    def show_engine(self, misses_card: bool) -> None:
        """Say so where the card is not used after all."""
        words = tr("The engine is ready.")
        if misses_card:
            words = tr(
                "The engine works, but does not find the graphics card: the processor computes. "
                "Check the card's driver, then repair the engine in Preferences."
            )
        self.title.setText(words)

    def _offered(self, button: QPushButton, about: str) -> tuple[Part, ...]:
        button.setAccessibleDescription(about)
        return 8, row_of((button, None)), label("quiet-text", about, self)

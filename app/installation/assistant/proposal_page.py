"""The first page: what was found in this computer, and which engine is to be installed, from where."""

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from app.i18n.translation import tr
from app.installation.assistant.words import cost_text, offer_text, said
from app.installation.runtime.builds import UNKNOWN, Offer, Proposal
from app.installation.runtime.place import Wanted
from app.system.plain_text import tip
from app.ui.widgets import label


class ProposalPage(QWidget):
    """`chosen_changed` comes when another build or folder was chosen; `wanted` is None while nothing can be had."""

    chosen_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._offers: tuple[Offer, ...] = ()
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
        self.folder = QLineEdit(self)
        self.folder.setPlaceholderText(tr("Folder of wheels"))
        self.folder.setAccessibleName(tr("Folder of wheels"))
        self.browse = QPushButton(tr("&Browse…"), self)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        column.addWidget(label("quiet-text", words, self))
        column.addWidget(self.found)
        column.addWidget(self.advice)
        column.addLayout(self._list)
        column.addWidget(self.local)
        row = QHBoxLayout()
        row.setContentsMargins(24, 0, 0, 0)
        row.addWidget(self.folder, 1)
        row.addWidget(self.browse)
        column.addLayout(row)
        column.addStretch(1)
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
        self.found.setText(said(proposal.found))
        self.advice.setVisible(proposal.advice is not None)
        self.advice.setText(said(proposal.advice) if proposal.advice else "")
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

    def _add_choice(self, number: int, offer: Offer, proposal: Proposal) -> None:
        is_best = offer is proposal.best
        button = QRadioButton(offer_text(offer, is_best), self)
        button.setChecked(offer.build.value == self._chosen_build or (is_best and not self._chosen_build))
        self.group.addButton(button, number)
        self.choices.append(button)
        cost = label("quiet-text", "", self)
        cost.setObjectName("quiet-text")
        cost.setIndent(24)
        self._list.addWidget(button)
        self._list.addWidget(cost)
        if offer.doubt is not None:
            button.setToolTip(tip(said(offer.doubt)))
        if offer.doubt is not None and offer.doubt != proposal.advice:  # which stands above already
            doubt = label("quiet-text", said(offer.doubt), self)
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
            button.setAccessibleDescription(f"{text} {said(offer.doubt) if offer.doubt else ''}".strip())
        self.chosen_changed.emit()

    def _on_browse(self) -> None:
        start = self.folder.text() or str(Path.home())
        folder = QFileDialog.getExistingDirectory(self, tr("Folder of wheels"), start)
        if folder:
            self.folder.setText(folder)
            self.folder.setFocus(Qt.FocusReason.OtherFocusReason)

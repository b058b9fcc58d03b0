"""The pane beside the lists: what is known of the chosen model, how to load it, with which draft, and one button."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QStackedLayout, QVBoxLayout, QWidget

from app.i18n.number_text import Number, size_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.estimates import Terms
from app.library.picker.access_box import AccessBox
from app.library.picker.chooser import Chooser
from app.library.picker.draft_list import DraftList
from app.library.picker.entry_delegate import tone_color
from app.library.picker.entry_list import describe
from app.library.picker.offer import Deed
from app.library.picker.terms_form import TermsForm
from app.library.picker.verdict import Tone, Verdict, asking, priced
from app.system.plain_text import tip
from app.ui.theme import Colors
from app.ui.widgets import label
from engine.protocol.messages import Appraised
from engine.protocol.options import LoadOptions

_PLACES = {"device": "GPU", "ram": "RAM", "ssd": "SSD"}
_TIERS = mark(
    "How many of the target's layers would be in which memory, and all that is taken there: on the device also the "
    "draft, the context and the working space. Tokens per pass: how much the answer grows each time that all layers "
    "are gone through; the draft's guesses make it more than one."
)
_NOTHING = mark("Choose a model to see how it would run here, which drafts go with it, and how to get it.")


class DetailsPane(QFrame):
    """Shows a `Chooser` and tells what its button was pressed for."""

    load_requested = Signal(LoadOptions)
    download_requested = Signal(tuple, LoadOptions)  # names on the hub
    downloads_requested = Signal()
    again_requested = Signal()
    token_given = Signal(str)

    def __init__(self, chooser: Chooser, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chooser = chooser
        self._colors = colors
        self.setObjectName("details")
        self.name = label("details-title", "", self)
        self.figures = label("quiet-text", "", self)
        self.estimate = QLabel(self, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self.tiers = label("quiet-text", "", self)
        self.tiers.setToolTip(tr(_TIERS))
        self.access = AccessBox(self)
        self.terms = TermsForm(self)
        self.draft_title = label("box-title", tr("Draft"), self)
        self.drafts = DraftList(colors, self)
        self.primary = QPushButton(tr("Load"), self)
        self.primary.setDefault(True)
        self.primary.setAutoDefault(True)
        self._lay_out()
        chooser.changed.connect(self._show)
        chooser.drafts_changed.connect(self._show_drafts)
        self.terms.edited.connect(chooser.choose_terms)
        self.drafts.picked.connect(chooser.choose_draft)
        self.primary.clicked.connect(self.press)
        self.access.again_requested.connect(self.again_requested)
        self.access.token_given.connect(self.token_given)
        self._show()

    def _lay_out(self) -> None:
        self._page = QWidget(self)
        column = QVBoxLayout(self._page)
        column.setContentsMargins(18, 16, 18, 14)
        column.setSpacing(8)
        column.addWidget(self.name)
        column.addWidget(self.figures)
        column.addSpacing(4)
        column.addWidget(self.estimate)
        column.addWidget(self.tiers)
        column.addWidget(self.access)
        column.addSpacing(6)
        column.addWidget(self.terms)
        column.addSpacing(6)
        column.addWidget(self.draft_title)
        column.addWidget(self.drafts, 1)
        column.addStretch(0)
        column.addWidget(self.primary)
        self._empty = label("quiet-text", tr(_NOTHING), self)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setContentsMargins(40, 0, 40, 0)
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self._page)

    def press(self) -> None:
        """Do what the button says."""
        offer = self._chooser.offer
        if not offer.enabled:
            return
        match offer.deed:
            case Deed.LOAD | Deed.FORCE:
                self.load_requested.emit(self._chooser.options)
            case Deed.DOWNLOAD:
                missing = tuple(each.repo for each in self._chooser.missing)
                self.download_requested.emit(missing, self._chooser.options)
            case Deed.SHOW_DOWNLOAD:
                self.downloads_requested.emit()
            case Deed.LOG_IN:
                self.access.token.setFocus()
            case Deed.OPEN_PAGE:
                self.access.open_page()
            case Deed.RETRY:
                self.again_requested.emit()
            case Deed.NOTHING:
                pass

    def set_theme(self, colors: Colors) -> None:
        """Paint in these colours."""
        self._colors = self.drafts.painter_.colors = colors
        self.drafts.viewport().update()
        self._show()

    def _show(self) -> None:
        chooser, entry = self._chooser, self._chooser.entry
        self._stack.setCurrentWidget(self._empty if entry is None else self._page)
        if entry is None:
            return
        self.name.setText(entry.name)
        self.figures.setText("\n".join(filter(None, (entry.figures, entry.about))))
        self.figures.setVisible(bool(self.figures.text()))
        self.figures.setToolTip(tip(describe(entry, Verdict(""))))
        trouble = chooser.trouble
        self.access.show_trouble(trouble)
        verdict = self._verdict()
        self.estimate.setText(verdict.words)
        self.estimate.setVisible(bool(verdict.words))
        self.estimate.setStyleSheet(f"font-weight: 600; color: {tone_color(self._colors, verdict.tone)}")
        self.estimate.setToolTip(tip(verdict.details))
        price = chooser.price
        self.tiers.setText(describe_tiers(price) if price else "")
        self.tiers.setVisible(bool(self.tiers.text()))
        self._show_terms(chooser.terms)
        for part in (self.terms, self.draft_title, self.drafts):
            part.setVisible(trouble is None and not entry.problem)
        offer = chooser.offer
        self.primary.setText(offer.text)
        self.primary.setEnabled(offer.enabled)

    def _show_terms(self, terms: Terms) -> None:
        if terms != self.terms.terms:
            self.terms.show_terms(terms)

    def _verdict(self) -> Verdict:
        entry = self._chooser.entry
        if entry is not None and entry.problem:
            return Verdict(entry.problem, Tone.BAD)
        if (price := self._chooser.price) is not None:
            return priced(price)
        return asking() if self._chooser.is_asking else Verdict("")

    def _show_drafts(self) -> None:
        self.drafts.show_choices(self._chooser.choices, self._chooser.draft)


def describe_tiers(price: Appraised) -> str:
    """Where the layers would be and what that takes, such as `GPU: 20 layers, 7.8 GB  ·  RAM: 44 layers, 22.0 GB`."""
    places = _PLACES if price.device == "cuda" else _PLACES | {"device": tr("RAM, ready")}
    tiers = [
        tr("{place}: {layers}, {size}").format(
            place=places.get(each.tier, each.tier), layers=tr("%n layers", n=each.layers), size=size_text(each.bytes)
        )
        for each in price.tiers
        if each.bytes
    ]
    passes = (
        tr("about {count:.1f} tokens per pass").format(count=Number(price.tokens_per_pass))
        if price.tokens_per_pass
        else ""
    )
    context = (
        tr("context of {count:,} tokens").format(count=Number(price.context_tokens)) if price.context_tokens else ""
    )
    return "\n".join(filter(None, ("  ·  ".join(tiers), "  ·  ".join(filter(None, (context, passes))))))

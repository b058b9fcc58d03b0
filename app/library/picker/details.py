"""The pane beside the lists: what is known of the chosen model, how to load it, with which draft, and one button."""

from dataclasses import replace

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QPushButton, QScrollArea, QStackedLayout, QWidget

from app.hub.failures import HubError, Reason
from app.i18n.number_text import Number, short_time, size_text
from app.i18n.sentences import error_text, translated
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.estimates import Terms
from app.library.local.models import Sight
from app.library.picker.draft_list import DraftList
from app.library.picker.entry import Entry, Verdict, Where, asking, priced
from app.library.picker.entry_list import describe, tone_color
from app.library.picker.offer import OfferAction
from app.library.picker.pair_choice import PairChoice
from app.library.picker.terms_form import TermsForm
from app.library.picker.variant_list import VariantList
from app.library.picker.ways_box import WaysBox
from app.system.plain_text import tip
from app.ui.theme import Colors
from app.ui.widgets import fill, label, page_body, row_of
from engine.errors import CoppiceError
from engine.protocol.messages import Appraised, LayersAt
from engine.protocol.options import LoadOptions

_TITLES = {
    Reason.NOT_LOGGED_IN: mark("Not logged in"),
    Reason.LICENCE_NOT_ACCEPTED: mark("Licence not accepted"),
    Reason.REFUSED: mark("Access refused"),
    Reason.NOT_FOUND: mark("Not found"),
    Reason.OFFLINE: mark("Offline"),
    Reason.BUSY: mark("The hub is busy"),
}


class AccessBox(QFrame):
    """Shows what the hub refuses. `token_given` carries a token to be kept; `again_requested` asks to look again."""

    token_given = Signal(str)
    again_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._page = ""
        self.setObjectName("notice")
        self.title = label("box-title", "", self)
        self.words = label("", "", self)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.token = QLineEdit(self, placeholderText=tr("Access token, hf_…"))
        self.token.setEchoMode(QLineEdit.EchoMode.Password)
        self.token.setAccessibleName(tr("Access token of the model hub"))
        self.token.setToolTip(tr("It is kept in the system's keyring, and sent to the hub alone."))
        self.keep = QPushButton(tr("Keep in keyring"), self)
        self.page = QPushButton(tr("Open page"), self)
        self.again = QPushButton(tr("Check again"), self)
        entry, buttons = row_of((self.token, self.keep), wide=self.token), row_of((self.page, self.again, None))
        fill(self, (self.title, self.words, entry, buttons), 7, 14, 10, 14, 10)
        self.keep.clicked.connect(self._on_keep)
        self.token.returnPressed.connect(self._on_keep)
        self.page.clicked.connect(self.open_page)
        self.again.clicked.connect(self.again_requested)
        self.hide()

    def show_error(self, error: CoppiceError | None) -> None:
        """Show what is wrong, or nothing."""
        self.setVisible(error is not None)
        if error is None:
            self.token.clear()
            return
        kind = error.reason if isinstance(error, HubError) else None
        self._page = error.page if isinstance(error, HubError) else ""
        self.setProperty("tone", "hint" if kind in _TITLES else "error")
        self.style().unpolish(self)
        self.style().polish(self)
        self.title.setText(tr(_TITLES[kind]) if kind in _TITLES else tr("Cannot be used"))
        self.words.setText(error_text(error))
        asks_token = kind is Reason.NOT_LOGGED_IN
        self.token.setVisible(asks_token)
        self.keep.setVisible(asks_token)
        self.page.setVisible(bool(self._page) and not asks_token)
        self.page.setText(tr("Open licence page") if kind is Reason.LICENCE_NOT_ACCEPTED else tr("Open page"))
        self.again.setVisible(kind in _TITLES and not asks_token)

    def open_page(self) -> None:
        """Show the page where a person can change that, in the browser."""
        if self._page:
            QDesktopServices.openUrl(QUrl(self._page))

    def _on_keep(self) -> None:
        if secret := self.token.text().strip():
            self.token_given.emit(secret)


_PLACES = {"device": "GPU", "ram": "RAM", "ssd": "SSD"}
_TIERS = mark(
    "How many of the target's layers would be in which memory, and all that is taken there: on the device also the "
    "draft, the context and the working space. Tokens per pass: how much the answer grows each time that all layers "
    "are gone through; the draft's guesses make it more than one."
)
_NOTHING = mark("Choose a model to see how it would run here, and which drafts go with it.")


class DetailsPane(QFrame):
    """Shows a `PairChoice` and tells what its button was pressed for."""

    load_requested = Signal(LoadOptions)
    download_requested = Signal(tuple, LoadOptions)  # names on the hub
    missing_requested = Signal(str)  # small files of a model of the hub that is here
    downloads_requested = Signal()
    again_requested = Signal()
    token_given = Signal(str)

    def __init__(self, pair_choice: PairChoice, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pair_choice = pair_choice
        self._colors = colors
        self.setObjectName("details")
        self.name = label("details-title", "", self)
        self.figures = label("quiet-text", "", self)
        self.sight = label("quiet-text", "", self)
        self.sight.setWordWrap(True)
        self.get_settings = QPushButton(tr("Download again"), self)
        self.get_settings.setAutoDefault(False)
        self.get_settings.setToolTip(tr("Fetches just the files that are not here"))
        self.estimate = QLabel(self, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self.tiers = label("quiet-text", "", self)
        self.tiers.setToolTip(tr(_TIERS))
        self.tiers.setWordWrap(True)
        self.ways = WaysBox(self)
        self.access = AccessBox(self)
        self.variant_title = label("box-title", tr("Variant"), self)
        self.variants = VariantList(colors, self)
        self.terms = TermsForm(self)
        self.draft_title = label("box-title", tr("Draft"), self)
        self.drafts = DraftList(colors, self)
        self.primary = QPushButton(tr("Load"), self)
        self.primary.setDefault(True)
        self.primary.setAutoDefault(True)
        self._lay_out()
        pair_choice.changed.connect(self._show)
        pair_choice.drafts_changed.connect(self._show_drafts)
        self.terms.edited.connect(pair_choice.choose_terms)
        self.drafts.picked.connect(pair_choice.choose_draft)
        self.variants.picked.connect(pair_choice.choose_variant)
        self.primary.clicked.connect(self.press)
        self.get_settings.clicked.connect(self._on_get_settings)
        self.access.again_requested.connect(self.again_requested)
        self.access.token_given.connect(self.token_given)
        self._show()

    def _lay_out(self) -> None:
        above = QScrollArea(self)  # scrolls where the screen is low; the button stays in sight
        body = page_body(above, "fields")
        body.setMinimumWidth(1)  # its columns get narrow rather than go out of sight
        sight = row_of((self.sight, self.get_settings), wide=self.sight)
        found = (self.name, self.figures, sight, 4, self.estimate, self.tiers, self.ways, self.access, 4)
        choices = (self.variant_title, self.variants, 6, self.terms, 6, self.draft_title, self.drafts)
        fill(body, (*found, *choices), 8, 18, 16, 18, 0, high=self.drafts).addStretch(0)
        foot = row_of((self.primary,))
        foot.setContentsMargins(18, 0, 18, 0)
        self._page = QWidget(self)
        fill(self._page, (above, foot), 8, 0, 0, 0, 14)
        self._empty = label("quiet-text", tr(_NOTHING), self)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setContentsMargins(40, 0, 40, 0)
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self._page)

    def press(self) -> None:
        """Do what the button says."""
        offer = self._pair_choice.offer
        if not offer.enabled:
            return
        match offer.action:
            case OfferAction.LOAD | OfferAction.FORCE:
                self.load_requested.emit(self._pair_choice.options)
            case OfferAction.DOWNLOAD:
                missing = tuple(each.repo for each in self._pair_choice.missing)
                self.download_requested.emit(missing, self._pair_choice.options)
            case OfferAction.SHOW_DOWNLOAD:
                self.downloads_requested.emit()
            case OfferAction.LOG_IN:
                self.access.token.setFocus()
            case OfferAction.OPEN_PAGE:
                self.access.open_page()
            case OfferAction.RETRY:
                self.again_requested.emit()
            case OfferAction.NOTHING:
                pass

    def set_theme(self, colors: Colors) -> None:
        """Paint in these colours."""
        self._colors = self.drafts.painter_.colors = self.variants.painter_.colors = colors
        self.drafts.viewport().update()
        self.variants.viewport().update()
        self._show()

    def _show(self) -> None:
        pair_choice, entry = self._pair_choice, self._pair_choice.entry
        self._stack.setCurrentWidget(self._empty if entry is None else self._page)
        if entry is None:
            return
        self.name.setText(entry.name)
        self.figures.setText("\n".join(filter(None, (entry.figures, entry.about))))
        self.figures.setVisible(bool(self.figures.text()))
        self.figures.setToolTip(tip(describe(entry, Verdict(""))))
        self._show_sight(entry)
        error = pair_choice.hub_error
        self.access.show_error(error)
        verdict = self._verdict()
        self.estimate.setText(verdict.words)
        self.estimate.setVisible(bool(verdict.words))
        self.estimate.setStyleSheet(f"font-weight: 600; color: {tone_color(self._colors, verdict.tone)}")
        self.estimate.setToolTip(tip(verdict.details))
        price = pair_choice.price
        self.tiers.setText(describe_tiers(price) if price else "")
        self.tiers.setVisible(bool(self.tiers.text()))
        self.ways.show_ways(price)
        self._show_terms(pair_choice.terms)
        for part in (self.terms, self.draft_title, self.drafts):
            part.setVisible(error is None and not entry.problem and not entry.needs_variant)
        self.variants.show_choices(pair_choice.variants, pair_choice.here, entry.source)
        self.variant_title.setVisible(bool(pair_choice.variants))
        self.variants.setVisible(bool(pair_choice.variants))
        offer = pair_choice.offer
        self.primary.setText(offer.text)
        self.primary.setEnabled(offer.enabled)

    def _show_sight(self, entry: Entry) -> None:
        self.sight.setText(entry.words_of_sight)
        self.sight.setVisible(bool(entry.words_of_sight))
        can_be_fetched = entry.sight is Sight.LACKS_SETTINGS and entry.where is Where.CACHE
        self.get_settings.setVisible(can_be_fetched and entry.source not in self._pair_choice.fetched)

    def _on_get_settings(self) -> None:
        if (entry := self._pair_choice.entry) is not None:
            self.missing_requested.emit(entry.source)

    def _show_terms(self, terms: Terms) -> None:
        if terms != self.terms.terms:
            self.terms.show_terms(terms)

    def _verdict(self) -> Verdict:
        entry = self._pair_choice.entry
        if entry is not None and entry.problem:
            return replace(entry.problem_verdict, words=f"{entry.problem} {entry.remedy}".rstrip())
        if entry is not None and entry.needs_variant and self._pair_choice.hub_error is None:
            return Verdict(tr("Asking the hub for its variants…"))
        if (price := self._pair_choice.price) is not None:
            return priced(price)
        return asking() if self._pair_choice.is_asking else Verdict("")

    def _show_drafts(self) -> None:
        self.drafts.show_choices(self._pair_choice.choices, self._pair_choice.draft)


def describe_tiers(price: Appraised) -> str:
    """Where the layers would be and what that takes, such as `GPU: 20 layers, 7.8 GB  ·  RAM: 44 layers, 22.0 GB`."""
    places = _PLACES if price.device != "cpu" else _PLACES | {"device": tr("RAM, ready")}
    tiers = [_described(each, places.get(each.tier, each.tier)) for each in price.tiers if each.bytes]
    passes = (
        tr("about {count:.1f} tokens per pass of {time}").format(
            count=Number(price.tokens_per_pass), time=short_time(price.seconds_per_pass)
        )
        if price.tokens_per_pass
        else ""
    )
    context = (
        tr("context of {count:,} tokens").format(count=Number(price.context_tokens)) if price.context_tokens else ""
    )
    figures = "  ·  ".join(filter(None, (context, passes)))
    return "\n".join(filter(None, ("  ·  ".join(tiers), figures, translated(price.context_note))))


def _described(tier: LayersAt, place: str) -> str:
    size = size_text(tier.bytes)
    if tier.layers:
        return tr("{place}: {layers}, {size}").format(place=place, layers=tr("%n layers", n=tier.layers), size=size)
    if tier.tier == "ram":
        return tr("RAM for layers on their way: {size}").format(size=size)
    return tr("{place}: {size}").format(place=place, size=size)

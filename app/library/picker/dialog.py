"""The Models dialog: pages at the left, the chosen model at the right, the engine's state below."""

from dataclasses import replace
from functools import partial

from PySide6.QtCore import QByteArray, QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QHideEvent, QKeyEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QDialog, QLineEdit, QSplitter, QStackedWidget, QTabBar, QWidget

from app.downloads.progress import Progress, Request, State
from app.engine.state import EngineState
from app.hub.facts import ModelFacts
from app.i18n.translation import tr
from app.library.download_link import DownloadLink
from app.library.local.local_models import Found
from app.library.picker.details import DetailsPane
from app.library.picker.discover_page import DiscoverPage
from app.library.picker.downloads.downloads_page import DownloadsPage
from app.library.picker.engines_page import EnginesPage
from app.library.picker.entry import Entry, Verdict
from app.library.picker.entry_view import EntryView
from app.library.picker.local_page import LocalPage
from app.library.picker.offer import OfferAction
from app.library.picker.page import LoadStrip, Page
from app.library.picker.services import ModelLibrary
from app.library.remote.engines import EngineChoice
from app.settings.store import SettingsFile
from app.ui.notices import Notice, NoticeStack
from app.ui.theme import Colors
from app.ui.widgets import fill, fit_screen, row_of
from engine.errors import CoppiceError
from engine.protocol.messages import Failed
from engine.protocol.options import LoadOptions
from engine.protocol.variants import split_source

_SIZE = QSize(1080, 720)
_LIST_WIDTH, _DETAILS_WIDTH = 620, 460
LOAD_NOTICE, TOKEN_NOTICE = "load", "token"


class ModelsDialog(QDialog):
    """Stays open while a pair loads, so that a wrong choice can be put right; closes when it is loaded."""

    load_requested = Signal(LoadOptions)
    cancel_requested = Signal()
    download_requested = Signal(tuple, LoadOptions)
    arrived_load_requested = Signal(str)

    def __init__(
        self,
        library: ModelLibrary,
        downloads: DownloadLink,
        settings: SettingsFile,
        colors: Colors,
        engines: EngineChoice,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._library, self._settings, self._downloads, self._engines = library, settings, downloads, engines
        self._asked = self._has_failed = self._connects = False
        self._seeks_page = True  # until a person, or whoever opens it, has chosen one
        self.setWindowTitle(tr("Models"))
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint)
        self.tabs = QTabBar(self)
        self.discover = DiscoverPage(library.search, library.local_models, library.suggested, colors, self)
        self.local = LocalPage(library.local_models, settings, colors, self)
        self.downloads = DownloadsPage(downloads, colors, self)
        self.engines = EnginesPage(engines, colors, self)
        self.details = DetailsPane(library.pair_choice, colors, self)
        self.notices = NoticeStack(self)
        self.strip = LoadStrip(self)
        self._lay_out()
        self._connect()
        if not self.restoreGeometry(QByteArray.fromBase64(settings.current.models_geometry.encode())):
            fit_screen(self, _SIZE)
        self._show_downloads(downloads.downloads)
        if (kept := settings.current.models_page) in Page.__members__:
            self.go_to(Page[kept])

    def _lay_out(self) -> None:
        self.tabs.setObjectName("pages")
        self.tabs.setAccessibleName(tr("Pages"))
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.pages = QStackedWidget(self)
        titles = (tr("Discover"), tr("My models"), tr("Downloads"), tr("Engines"))
        pages = (self.discover, self.local, self.downloads, self.engines)
        for title, page in zip(titles, pages, strict=True):
            self.tabs.addTab(title)
            self.pages.addWidget(page)
        self.splitter = QSplitter(self)
        self.splitter.addWidget(self.pages)
        self.splitter.addWidget(self.details)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.setSizes([_LIST_WIDTH, _DETAILS_WIDTH])
        self.splitter.setStretchFactor(0, 1)
        self.pages.setMinimumWidth(300)
        self.details.setMinimumWidth(320)
        notices = row_of((self.notices,))
        notices.setContentsMargins(14, 8, 14, 0)
        fill(self, (self.tabs, self.splitter, notices, self.strip), 0, high=self.splitter)

    def _connect(self) -> None:
        library, details = self._library, self.details
        self.tabs.currentChanged.connect(self._on_page)
        for page in (self.discover, self.local):
            page.view.view_changed.connect(self._on_view_changed)
            page.view.chosen.connect(partial(self._on_chosen_in, page.view))
            page.view.opened.connect(self._on_opened)
            library.prices.judged.connect(page.entries.set_verdict)
            page.field.installEventFilter(self)
        library.prices.judged.connect(self._on_judged)
        library.search.cleared.connect(library.facts.retry)
        library.search.cleared.connect(library.variants.retry)
        library.pair_choice.variant_changed.connect(self._on_view_changed)
        library.facts.arrived.connect(self._on_facts)
        library.local_models.changed.connect(lambda _found: self._on_view_changed())
        library.local_models.changed.connect(self._on_local_models)
        library.pair_choice.terms_chosen.connect(lambda _terms: self._on_view_changed())
        library.room_known.connect(self.discover.show_room)
        library.token_kept.connect(self._on_again)
        library.token_failed.connect(self._on_token_failed)
        details.load_requested.connect(self._on_load)
        details.download_requested.connect(self.download_requested)
        details.downloads_requested.connect(lambda: self.go_to(Page.DOWNLOADS))
        details.again_requested.connect(self._on_again)
        details.token_given.connect(library.keep_token)
        for lacking in (self.local.repair_requested, self.details.missing_requested):
            lacking.connect(lambda repo: self._downloads.add(Request.of(repo)))
        self.downloads.load_requested.connect(self._on_arrived_load)
        self._downloads.changed.connect(self._show_downloads)
        self._downloads.ended.connect(lambda _progress: library.local_models.look())
        self.engines.used.connect(self._on_engine_used)
        self.strip.cancel_requested.connect(self.cancel_requested)
        self.strip.close_requested.connect(self.reject)
        QShortcut(QKeySequence.StandardKey.Find, self, self.go_to_field)

    # ---- what the window does ---------------------------------------------------------------------------------------

    def show_page(self, page: Page | None = None) -> None:
        """Come to the front, on a page, or on the one of last time."""
        if page is not None:
            self.go_to(page)
        self.show()
        self.raise_()
        self.activateWindow()

    def go_to(self, page: Page) -> None:
        """Another page."""
        self._seeks_page = False
        self.tabs.setCurrentIndex(page)

    def show_engine_state(self, state: EngineState) -> None:
        """Follow the engine."""
        self.strip.show_engine_state(state)
        if self._connects and not state.busy:
            self._connects = False
            if state.ready:  # what was asked for is there, as after a load
                self.accept()
        loaded = (
            {state.pair.target.source, state.pair.draft.source if state.pair.draft else ""} if state.pair else set()
        )
        self.local.show_in_use(frozenset(filter(None, loaded)))

    def on_pair_loaded(self) -> None:
        """What was asked for is there: nothing is left to do here."""
        self._library.price_again()
        if not self._has_failed:  # else it is the pair before: the reason stays to be read
            self.notices.dismiss(LOAD_NOTICE)
        self._has_failed = False
        if self._asked:
            self._asked = False
            self.accept()

    def on_load_failed(self, failed: Failed) -> None:
        """Say why, above the button that tries again."""
        self._asked, self._has_failed = False, True
        self.notices.add(Notice(LOAD_NOTICE, failed.message, failed.hint))

    def set_theme(self, colors: Colors) -> None:
        """Paint in these colours."""
        self.discover.view.set_theme(colors)
        self.local.view.set_theme(colors)
        self.downloads.set_theme(colors)
        self.engines.set_theme(colors)
        self.details.set_theme(colors)

    def go_to_field(self) -> None:
        """Write into the field of the page."""
        field = self._field or self.discover.field
        if self._field is None:
            self.go_to(Page.DISCOVER)
        field.setFocus()
        field.selectAll()

    # ---- keys and events --------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Look what is on this computer; nothing is asked of the hub."""
        super().showEvent(event)
        self._library.look()
        if self._field is not None:
            self._field.setFocus()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """What was deleted is deleted now."""
        super().hideEvent(event)
        left = "" if self._seeks_page else Page(self.tabs.currentIndex()).name
        geometry = bytes(self.saveGeometry().toBase64().data()).decode()
        self._settings.change(models_geometry=geometry, models_page=left)
        if event.spontaneous():  # it is only minimised, and can still be undone
            return
        self._library.local_models.settle()
        self._engines.settle()
        for page in (self.local, self.engines):
            page.notices.dismiss("undo")

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Escape clears the field first, and closes then."""
        field = self._field
        if event.key() == Qt.Key.Key_Escape and field is not None and field.text():
            field.clear()
            field.setFocus()
            return
        super().keyPressEvent(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Down goes from a field into its list; Enter there is not for the default button."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent) and isinstance(watched, QLineEdit):
            view = self._view
            if event.key() == Qt.Key.Key_Down and view is not None:
                view.setFocus()
                if view.current is None:
                    view.setCurrentIndex(view.entries.index(0))
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                watched.returnPressed.emit()
                return True
        return super().eventFilter(watched, event)

    @property
    def _field(self) -> QLineEdit | None:
        fields = {Page.DISCOVER: self.discover.field, Page.MODELS: self.local.field}
        return fields.get(Page(max(0, self.tabs.currentIndex())))

    @property
    def _view(self) -> EntryView | None:
        views = {Page.DISCOVER: self.discover.view, Page.MODELS: self.local.view}
        return views.get(Page(max(0, self.tabs.currentIndex())))

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _on_local_models(self, found: Found) -> None:
        """Where nobody has left a page, the own models are shown if there are some."""
        if self._seeks_page and any(not each.problem for each in found.models) and not self.discover.field.text():
            self.go_to(Page.MODELS)
            self.local.field.setFocus()

    def _on_page(self, index: int) -> None:
        self._seeks_page = False
        self.pages.setCurrentIndex(index)
        self.details.setVisible(index in (Page.DISCOVER, Page.MODELS))
        if self._view is not None:
            self._on_chosen(self._view.current)

    def _on_view_changed(self) -> None:
        view = self._view
        if view is not None:
            variants = self._library.pair_choice.variants_to_price
            self._library.prices.show([*variants, *view.in_view()], view.current)

    def _on_facts(self, facts: ModelFacts) -> None:
        self.discover.entries.set_bytes(facts.repo, facts.weight_bytes)
        self._on_view_changed()

    def _on_judged(self, key: str, verdict: Verdict) -> None:
        """What is said of a variant stands in the list of variants; of the chosen one, in its repository's line too."""
        self.details.variants.variants.set_verdict(key, verdict)
        pair_choice = self._library.pair_choice
        base, entry = pair_choice.base, pair_choice.entry
        if base is not None and entry is not None and base.needs_variant and key == entry.key != base.key:
            words = tr("{variant}: {words}").format(variant=split_source(entry.source)[1], words=verdict.words)
            self.discover.entries.set_verdict(base.key, replace(verdict, words=words))

    def _on_chosen_in(self, view: EntryView, entry: Entry | None) -> None:
        """Ignore the hidden tab's selection."""
        if view is self._view:
            self._on_chosen(entry)

    def _on_chosen(self, entry: Entry | None) -> None:
        rows = self._library.search.results.rows if self.tabs.currentIndex() == Page.DISCOVER else ()
        self._library.pair_choice.choose(entry, rows)
        self._on_view_changed()

    def _on_opened(self, entry: Entry) -> None:
        """Enter loads what is here; before a download it only goes to the button that says how large it is."""
        self._on_chosen(entry)
        if self._library.pair_choice.offer.action in (OfferAction.LOAD, OfferAction.SHOW_DOWNLOAD):
            self.details.press()
        else:
            self.details.primary.setFocus()

    def _on_load(self, options: LoadOptions) -> None:
        self.notices.dismiss(LOAD_NOTICE)
        self._asked, self._has_failed = True, False
        self.load_requested.emit(options)

    def _on_engine_used(self) -> None:
        self._connects = self._engines.state.busy

    def _on_arrived_load(self, repo: str) -> None:
        self._asked = True
        self.arrived_load_requested.emit(repo)

    def _on_again(self) -> None:
        self.notices.dismiss(TOKEN_NOTICE)
        self._library.facts.retry()
        self._library.variants.retry()
        self._library.pair_choice.look_again()
        self._on_view_changed()

    def _on_token_failed(self, error: CoppiceError) -> None:
        self.notices.add(Notice(TOKEN_NOTICE, error.message, error.hint))

    def _show_downloads(self, downloads: tuple[Progress, ...]) -> None:
        self._library.pair_choice.follow_downloads(downloads)
        fetched = (each for each in downloads if each.state.is_running or each.state is State.QUEUED)
        self.local.show_downloading(frozenset(each.request.repo_id for each in fetched))
        going = sum(not each.state.is_over for each in downloads)
        self.tabs.setTabText(
            Page.DOWNLOADS, tr("Downloads ({count})").format(count=going) if going else tr("Downloads")
        )

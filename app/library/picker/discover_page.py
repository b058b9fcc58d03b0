"""Finding models on the hub: suggestions until somebody types, then results, and a state for everything between."""

from collections.abc import Iterable

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QCheckBox, QComboBox, QLineEdit, QProgressBar, QStackedWidget, QWidget

from app.hub.names import named_repo
from app.hub.search import SearchQuery
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.hub_queries import SearchController, SearchPhase, SearchState
from app.library.local.local_models import LocalModels
from app.library.pairing.room import Room
from app.library.pairing.suggestions import Suggestion
from app.library.picker.entry import Filter, Size, found_entry, local_entry, suggested_entry
from app.library.picker.entry_list import EntryList
from app.library.picker.entry_view import EntryView
from app.ui.notices import Notice, NoticeStack, Tone
from app.ui.theme import Colors
from app.ui.widgets import fill, label, row_of
from engine.protocol.variants import split_source

DEBOUNCE_MS = 300
SEARCH_NOTICE = "search"
_MOST_PAGES_UNSEEN = 5
_SUGGESTED = mark("Suggested pairs. Nothing is asked of the hub before you type or choose.")


class DiscoverPage(QWidget):
    """A search field, filters, and the list."""

    def __init__(
        self,
        search: SearchController,
        local_models: LocalModels,
        suggested: Iterable[Suggestion],
        colors: Colors,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._search, self._local_models, self._suggested = search, local_models, tuple(suggested)
        self._room = Room()
        self._unseen_pages = 0
        self.field = QLineEdit(self, placeholderText=tr("Search the hub, or paste an address"), clearButtonEnabled=True)
        self.field.setAccessibleName(tr("Search the model hub"))
        self.size_choice = QComboBox(self)
        self.size_choice.setAccessibleName(tr("Size"))
        self.size_choice.setToolTip(tr("Only models with so many parameters"))
        for each in Size:
            self.size_choice.addItem(each.title, each)
        self.runs_here = QCheckBox(tr("Runs here"), self)
        self.runs_here.setObjectName("filter")
        self.runs_here.setToolTip(
            tr("Hide models that are known not to fit into this computer, and suggestions larger than its memory")
        )
        self.sees = QCheckBox(tr("Reads pictures"), self)
        self.sees.setObjectName("filter")
        self.sees.setToolTip(tr("Only models that can be shown pictures, as far as the hub tells"))
        self.progress = QProgressBar(self, textVisible=False, maximum=0)
        self.progress.setAccessibleName(tr("Searching"))
        self.notices = NoticeStack(self)
        self.entries = EntryList(self)
        self.view = EntryView(self.entries, colors, tr("Models found"), self)
        self.caption = label("quiet-text", tr(_SUGGESTED), self)
        self.empty = label("quiet-text", "", self)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._pause = QTimer(self, singleShot=True, interval=DEBOUNCE_MS)
        self._lay_out()
        self._connect()
        self._show_suggestions()

    def _lay_out(self) -> None:
        filters = row_of((self.size_choice, self.runs_here, self.sees, None), 12)
        self.stack = QStackedWidget(self)
        self.stack.addWidget(self.view)
        self.stack.addWidget(self.empty)
        parts = (self.field, filters, self.progress, self.notices, self.caption, self.stack)
        fill(self, parts, 8, 14, 14, 8, 8, high=self.stack)
        hold = self.progress.sizePolicy()
        hold.setRetainSizeWhenHidden(True)
        self.progress.setSizePolicy(hold)
        self.progress.hide()

    def _connect(self) -> None:
        search = self._search
        self.field.textChanged.connect(lambda _text: self._pause.start())
        self.field.returnPressed.connect(self._on_return)
        self._pause.timeout.connect(self.search_now)
        self.size_choice.currentIndexChanged.connect(lambda _index: self._filter())
        for box in (self.runs_here, self.sees):
            box.toggled.connect(lambda _on: self._filter())
        self.view.typed.connect(self._on_typed)
        self.view.end_reached.connect(self._on_end_reached)
        search.cleared.connect(lambda: self.entries.replace([]))
        search.rows_added.connect(self._on_rows)
        search.state_changed.connect(self._show_state)
        self._local_models.changed.connect(lambda _found: self._on_local_models())

    @property
    def words(self) -> str:
        """What is looked for: words, or the repository whose address was pasted."""
        return named_repo(self.field.text().strip())

    def search_now(self) -> None:
        """Do not wait for more letters."""
        self._pause.stop()
        self._unseen_pages = 0
        self.notices.dismiss(SEARCH_NOTICE)
        if self.words:
            self.caption.hide()
            self._search.search(SearchQuery(self.words))
        else:
            self._search.cancel()
            self._show_suggestions()

    def search_again(self) -> None:
        """After a failure: go on where it was."""
        if self._search.results.next_page:
            self._search.more()
        else:
            self.search_now()

    def show_room(self, room: Room) -> None:
        """Suggest first what this computer has room for."""
        self._room = room
        if not self.words:
            self._suggest()

    def _suggest(self) -> None:
        room, here = self._room, self._local_models.model
        known = [(each, here(each.target.repo) is not None) for each in self._suggested]
        known.sort(key=lambda each: room.rank(*each))
        self.entries.replace([suggested_entry(each, room, is_here) for each, is_here in known])
        self._show_emptiness("")

    def _show_suggestions(self) -> None:
        self._suggest()
        self.caption.setText(tr(_SUGGESTED))
        self.caption.show()
        self.progress.hide()
        self._on_local_models()

    def _show_state(self, state: SearchState) -> None:
        if not self.words:
            return
        self.progress.setVisible(state.phase is SearchPhase.SEARCHING)
        if state.phase in (SearchPhase.OFFLINE, SearchPhase.FAILED) and state.error is not None:
            message, hint, again = state.error.message, state.error.hint, self.search_again
            self.notices.add(Notice(SEARCH_NOTICE, message, hint, tr("Try again"), Tone.HINT, again))
            if not self.entries.total:
                self._show_local()
        elif state.phase is SearchPhase.SEARCHING:
            self.notices.dismiss(SEARCH_NOTICE)
        nothing = ""
        if state.error is not None:
            nothing = tr("No model on this computer has '{words}' in its name.")
        elif state.phase is SearchPhase.DONE and not state.more:
            nothing = tr("No model on the hub has '{words}' in its name and weights that can be opened here.")
        self._show_emptiness(nothing.format(words=self.words))

    def _show_local(self) -> None:
        """Without the hub there is still what is here."""
        self.caption.setText(tr("On this computer"))
        self.caption.show()
        wanted = Filter(self.words)
        here = (local_entry(each) for each in self._local_models.found.models)
        self.entries.replace([each for each in here if wanted.passes(each, self.entries.verdict(each.key))])

    def _show_emptiness(self, words: str) -> None:
        """A sentence in place of an empty list; which one depends on whether it is the filter's doing."""
        if self.entries.total and not self.entries.rowCount():
            words = tr("Everything that was found is hidden by the filters.")
        self.empty.setText(words if not self.entries.rowCount() else "")
        self.stack.setCurrentWidget(self.empty if self.empty.text() else self.view)

    def _filter(self) -> None:
        runs_here, sees = self.runs_here.isChecked(), self.sees.isChecked()
        self.entries.set_filter(Filter("", self.size_choice.currentData(), runs_here, sees))
        self._show_emptiness("")

    def _on_rows(self, first: int, end: int) -> None:
        before = self.entries.rowCount()
        self.entries.append(map(found_entry, self._search.results.rows[first:end]))
        self._unseen_pages = 0 if self.entries.rowCount() > before else self._unseen_pages + 1
        self._on_local_models()

    def _on_end_reached(self) -> None:
        """Filters can hide page after page; somebody who wants more of them scrolls."""
        ready = self._search.state.phase is SearchPhase.DONE and self._search.state.more
        if self.words and ready and self._unseen_pages < _MOST_PAGES_UNSEEN:
            self._search.more()

    def _on_local_models(self) -> None:
        here = {each.source for each in self._local_models.found.models if not each.problem}
        here |= {split_source(each)[0] for each in here}  # a repository of which a variant is here
        self.entries.set_badges(dict.fromkeys(here, tr("On this computer")))

    def _on_return(self) -> None:
        """Enter in the field: search at once, or go into the list that is there."""
        if self._pause.isActive():
            self.search_now()
        elif self.entries.rowCount():
            self.view.setFocus()
            if self.view.current is None:
                self.view.setCurrentIndex(self.entries.index(0))

    def _on_typed(self, text: str) -> None:
        self.field.setFocus()
        self.field.insert(text)

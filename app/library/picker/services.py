"""Everything behind the Models dialog, put together: hub, facts, estimates, local models, drafts."""

from PySide6.QtCore import QObject, Signal

from app.engine.link import EngineLink
from app.hub.client import HubClient
from app.hub.tokens import Tokens
from app.library.draft_finder import DraftFinder
from app.library.estimates import Terms
from app.library.estimator import Estimator
from app.library.facts_controller import FactsController
from app.library.pairing.vocabulary import VocabularyBook
from app.library.picker.chooser import Chooser
from app.library.picker.row_prices import RowPrices
from app.library.search_controller import SearchController
from app.library.shelf import Shelf
from app.library.suggestions import Suggestion, suggestions
from app.library.terms_memory import TermsMemory
from app.settings.store import SettingsFile
from app.system.paths import Folders
from app.ui.jobs import Jobs
from engine.errors import CoppiceError
from engine.protocol.messages import Event
from engine.protocol.options import LoadOptions


class ModelLibrary(QObject):
    """The parts are public; this only makes them, and ends them. Its threads are idle until something is asked."""

    token_kept = Signal()
    token_failed = Signal(CoppiceError)

    def __init__(
        self,
        link: EngineLink,
        settings: SettingsFile,
        folders: Folders,
        tokens: Tokens,
        suggested: tuple[Suggestion, ...] | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        cache, terms = folders.cache, Terms(cache_dir=str(folders.cache))
        self.tokens = tokens
        self._settings = settings
        self.suggested = suggestions() if suggested is None else suggested
        self.client = HubClient(tokens.secret)
        self.search = SearchController(self.client, self)
        self.facts = FactsController(self.client, cache, self)
        self.shelf = Shelf(cache, lambda: settings.current.model_folders, self)
        self.drafts = DraftFinder(self.client, VocabularyBook(cache / "vocabularies.json"), cache, self)
        self._row_estimator, self._pair_estimator = (
            Estimator(link, terms, self, complete=self._complete) for _ in range(2)
        )
        self.prices = RowPrices(self.facts, self._row_estimator, self.shelf)
        self.chooser = Chooser(
            self._pair_estimator, self.facts, self.drafts, self.shelf, TermsMemory(settings), self.suggested, self
        )
        self._jobs = Jobs(1, "token", self)
        self.chooser.terms_chosen.connect(self._row_estimator.set_terms)

    def _complete(self, options: LoadOptions) -> LoadOptions:
        """As Preferences have it at that moment."""
        return self._settings.current.complete_load(options)

    def on_events(self, events: list[Event]) -> None:
        """What the engine says."""
        self._row_estimator.on_events(events)
        self._pair_estimator.on_events(events)

    def on_engine_stopped(self) -> None:
        """Estimates wait for the next engine."""
        self._row_estimator.on_engine_stopped()
        self._pair_estimator.on_engine_stopped()

    def price_again(self) -> None:
        """What is free has changed, as after a load."""
        self._row_estimator.refresh()
        self._pair_estimator.refresh()

    def keep_token(self, secret: str) -> None:
        """Put it into the keyring, which may take a while; then what was refused is asked for again."""
        job = self._jobs.start(lambda _stop: self.tokens.keep(secret))
        job.done.connect(lambda _done: self.token_kept.emit())
        job.failed.connect(self.token_failed)

    def close(self) -> None:
        """End the threads; removals become final."""
        self.search.close()
        self.facts.close()
        self.drafts.close()
        self.shelf.close()
        self._jobs.close()
        self.client.close()

"""Everything behind the Models dialog, put together: hub, facts, estimates, local models, drafts."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from app.engine.interface import Engine
from app.hub.client import HubClient
from app.hub.facts import ModelFacts
from app.hub.tokens import Tokens
from app.i18n.translation import tr
from app.library.estimates import Estimator, Pricing, Terms, TermsMemory
from app.library.hub_queries import FactsController, SearchController, VariantsController
from app.library.local.local_models import LocalModels
from app.library.pairing.draft_finder import DraftFinder
from app.library.pairing.room import Room, room_here
from app.library.pairing.suggestions import Suggestion, suggestions
from app.library.pairing.vocabulary import VocabularyCache
from app.library.picker.entry import Entry, Verdict, asking, priced, unpriced
from app.library.picker.pair_choice import PairChoice
from app.settings.store import SettingsFile
from app.system.paths import Folders
from app.ui.jobs import Jobs, Task
from engine.errors import CoppiceError
from engine.protocol.messages import Appraised, Event
from engine.protocol.options import EMBEDDED, NO_DRAFT, LoadOptions


class RowPrices(QObject):
    """`judged` carries an entry's key and what is said of it."""

    judged = Signal(str, Verdict)

    def __init__(self, facts: FactsController, estimator: Estimator, local_models: LocalModels) -> None:
        super().__init__(estimator)
        self._facts = facts
        self._estimator = estimator
        self._local_models = local_models
        self._shown: list[Entry] = []
        self._chosen: Entry | None = None
        self._told: set[str] = set()  # whose variants are to be chosen among first
        self._pairs: dict[str, Appraised] = {}  # with the draft and the terms that were chosen for them
        facts.arrived.connect(self._on_facts)
        facts.failed.connect(self._on_failed)
        estimator.priced.connect(self._on_priced)

    def show(self, entries: Sequence[Entry], chosen: Entry | None) -> None:
        """These are in view, the most urgent first. The hub is not asked about suggestions, unless one is chosen."""
        self._shown = [each for each in entries if not each.needs_variant]
        self._chosen = chosen
        for each in entries:
            if each.needs_variant and each.key not in self._told:
                self._told.add(each.key)
                self.judged.emit(each.key, Verdict(tr("Choose it to see how its variants would run")))
        unknown = [each for each in self._shown if self._asks_hub(each)]
        self._facts.want((each.source, each.revision) for each in unknown)
        for each in self._shown:
            if error := self._failure(each):
                self.judged.emit(each.key, unpriced(error))
        self._ask()

    def source(self, entry: Entry) -> str:
        """What the engine can be asked about now: the model, or the folder of its facts; empty while there is none."""
        if entry.problem:
            return ""
        if not entry.of_hub or self._local_models.model(entry.source):
            return entry.source
        known = self._facts.known.get(entry.source)
        return str(known.folder) if known else ""

    def refresh(self) -> None:
        """Terms or memory have changed."""
        self._pairs.clear()
        self._estimator.refresh()

    def set_terms(self, terms: Terms) -> None:
        """How models would be loaded, from now on."""
        self._pairs.clear()
        self._estimator.set_terms(terms)

    def follow(self, key: str, found: Appraised) -> None:
        """An entry was priced as the pair that would be loaded: its line tells the same, but no fault of a draft."""
        if not found.faulty_draft and self._pairs.get(key) != found:
            self._pairs[key] = found
            if any(each.key == key for each in self._shown):
                self.judged.emit(key, priced(found))

    def _asks_hub(self, entry: Entry) -> bool:
        return entry.of_hub and not self.source(entry) and (entry.suggestion is None or entry == self._chosen)

    def _failure(self, entry: Entry) -> CoppiceError | None:
        return self._facts.failures.get(entry.source) if entry.of_hub and not self.source(entry) else None

    def _ask(self) -> None:
        asked = [
            Pricing(each.key, source, "auto" if source == EMBEDDED else NO_DRAFT)
            for each in self._shown
            if (source := self.source(each))
        ]
        for each in asked:
            known = self._pairs.get(each.key) or self._estimator.price(each)
            self.judged.emit(each.key, priced(known) if known else asking())
        self._estimator.show(asked)

    def _on_facts(self, facts: ModelFacts) -> None:
        if any(each.source == facts.repo for each in self._shown):
            self._ask()

    def _on_failed(self, repo: str, error: CoppiceError) -> None:
        for each in self._shown:
            if each.source == repo and self._failure(each):
                self.judged.emit(each.key, unpriced(error))

    def _on_priced(self, key: str, found: Appraised) -> None:
        self.judged.emit(key, priced(self._pairs.get(key, found)))


class ModelLibrary(QObject):
    """The parts are public; this only makes them, and ends them. Its threads are idle until something is asked."""

    token_kept = Signal()
    token_failed = Signal(CoppiceError)
    room_known = Signal(Room)

    def __init__(
        self,
        link: Engine,
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
        self.variants = VariantsController(self.client, self)
        self.local_models = LocalModels(cache, lambda: settings.current.model_folders, self)
        self.drafts = DraftFinder(self.client, VocabularyCache(cache / "vocabularies.json"), cache, self)
        self._row_estimator, self._pair_estimator = (
            Estimator(link, terms, self, complete=self._complete) for _ in range(2)
        )
        self.prices = RowPrices(self.facts, self._row_estimator, self.local_models)
        self.pair_choice = PairChoice(
            self._pair_estimator, self.facts, self.drafts, self.local_models, TermsMemory(settings), self.suggested,
            self.variants, self,
        )  # fmt: skip
        self._jobs = Jobs(1, "token", self)
        self._room = Task("models", self._room_here, self, lambda _error: Room())
        self._room.done.connect(self.room_known)
        self.pair_choice.terms_chosen.connect(self.prices.set_terms)
        self.pair_choice.changed.connect(self._on_pair_changed)

    def _complete(self, options: LoadOptions) -> LoadOptions:
        """As Preferences have it at that moment."""
        return self._settings.current.complete_load(options)

    def look(self) -> None:
        """See what is on this computer, and what it has room for; nothing is asked of the hub."""
        self.local_models.look()
        self._room.start()

    def _room_here(self) -> Room:
        limits = self._complete(LoadOptions())
        return room_here(limits.ram_limit_bytes, limits.vram_limit_bytes)

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
        self.prices.refresh()
        self._pair_estimator.refresh()

    def _on_pair_changed(self) -> None:
        entry, price = self.pair_choice.entry, self.pair_choice.price
        if entry is not None and price is not None:
            self.prices.follow(entry.key, price)

    def keep_token(self, secret: str) -> None:
        """Put it into the keyring, which may take a while; then what was refused is asked for again."""
        job = self._jobs.start(lambda _stop: self.tokens.keep(secret))
        job.done.connect(lambda _done: self.token_kept.emit())
        job.failed.connect(self.token_failed)

    def close(self) -> None:
        """End the threads; removals become final."""
        self.search.close()
        self.facts.close()
        self.variants.close()
        self.drafts.close()
        self.local_models.close()
        self._jobs.close()
        self.client.close()

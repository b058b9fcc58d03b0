"""Fills in how the models in view would run: facts from the hub first, then the engine's word; in the background."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from app.hub.facts import ModelFacts
from app.library.estimates import Pricing
from app.library.estimator import Estimator
from app.library.facts_controller import FactsController
from app.library.picker.entry import Entry
from app.library.picker.verdict import Verdict, asking, priced, troubled
from app.library.shelf import Shelf
from engine.errors import CoppiceError
from engine.protocol.messages import Appraised


class RowPrices(QObject):
    """`judged` carries an entry's key and what is said of it."""

    judged = Signal(str, Verdict)

    def __init__(self, facts: FactsController, estimator: Estimator, shelf: Shelf) -> None:
        super().__init__(estimator)
        self._facts = facts
        self._estimator = estimator
        self._shelf = shelf
        self._shown: list[Entry] = []
        self._chosen: Entry | None = None
        facts.arrived.connect(self._on_facts)
        facts.failed.connect(self._on_failed)
        estimator.priced.connect(self._on_priced)

    def show(self, entries: Sequence[Entry], chosen: Entry | None) -> None:
        """These are in view, the most urgent first. The hub is not asked about suggestions, unless one is chosen."""
        self._shown, self._chosen = list(entries), chosen
        unknown = [each for each in self._shown if self._asks_hub(each)]
        self._facts.want((each.source, each.revision) for each in unknown)
        for each in self._shown:
            if error := self._failure(each):
                self.judged.emit(each.key, troubled(error))
        self._ask()

    def source(self, entry: Entry) -> str:
        """What the engine can be asked about now: the model, or the folder of its facts; empty while there is none."""
        if entry.problem:
            return ""
        if not entry.of_hub or self._shelf.model(entry.source):
            return entry.source
        known = self._facts.known.get(entry.source)
        return str(known.folder) if known else ""

    def refresh(self) -> None:
        """Terms or memory have changed."""
        self._estimator.refresh()

    def _asks_hub(self, entry: Entry) -> bool:
        return entry.of_hub and not self.source(entry) and (entry.suggestion is None or entry == self._chosen)

    def _failure(self, entry: Entry) -> CoppiceError | None:
        return self._facts.failures.get(entry.source) if entry.of_hub and not self.source(entry) else None

    def _ask(self) -> None:
        asked = [Pricing(each.key, source) for each in self._shown if (source := self.source(each))]
        for each in asked:
            known = self._estimator.price(each)
            self.judged.emit(each.key, priced(known) if known else asking())
        self._estimator.show(asked)

    def _on_facts(self, facts: ModelFacts) -> None:
        if any(each.source == facts.repo for each in self._shown):
            self._ask()

    def _on_failed(self, repo: str, error: CoppiceError) -> None:
        for each in self._shown:
            if each.source == repo and self._failure(each):
                self.judged.emit(each.key, troubled(error))

    def _on_priced(self, key: str, found: Appraised) -> None:
        self.judged.emit(key, priced(found))

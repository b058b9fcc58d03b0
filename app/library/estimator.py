"""Asks the engine how each model would run, one at a time, those in view first, and again when the terms change."""

from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, Signal

from app.engine.link import EngineLink
from app.library.estimates import Pricing, Terms
from engine.protocol.messages import Appraised, Event, Ready
from engine.protocol.options import LoadOptions


class Estimator(QObject):
    """One question is under way at any time, so that there is nothing to cancel: what no longer counts is not asked.

    `priced` carries a pricing's key and what the engine said. While no engine runs, questions wait for the next one.
    """

    priced = Signal(str, Appraised)

    def __init__(
        self,
        link: EngineLink,
        terms: Terms | None = None,
        parent: QObject | None = None,
        complete: Callable[[LoadOptions], LoadOptions] = lambda options: options,
    ) -> None:
        """`complete` fills in what the terms leave open, as it would be for a load."""
        super().__init__(parent)
        self._link = link
        self._complete = complete
        self._terms = terms or Terms()
        self._shown: list[Pricing] = []
        self._waiting: list[Pricing] = []
        self._asked: tuple[int, Pricing, Terms] | None = None
        self._engine_is_there = True
        self._prices: dict[Pricing, Appraised] = {}

    @property
    def terms(self) -> Terms:
        """What the estimates are for."""
        return self._terms

    def price(self, pricing: Pricing) -> Appraised | None:
        """What is known of a pair under the terms of now."""
        return self._prices.get(pricing)

    def show(self, pricings: Iterable[Pricing]) -> None:
        """The pairs in view, the most urgent first; those that are not known yet are asked about."""
        self._shown = list(pricings)
        self._waiting = [each for each in self._shown if each not in self._prices]
        self._ask_next()

    def set_terms(self, terms: Terms) -> None:
        """Change the terms; everything in view is asked about anew."""
        if terms != self._terms:
            self._terms = terms
            self.refresh()

    def refresh(self) -> None:
        """Ask about everything in view again, as after a change in what is free."""
        self._prices.clear()
        self.show(self._shown)

    def on_events(self, events: list[Event]) -> None:
        """Take the answer that is waited for; a new engine is asked at once."""
        for event in events:
            if isinstance(event, Ready):
                self._engine_is_there = True
                self._ask_next()
            elif isinstance(event, Appraised) and self._asked is not None and event.id == self._asked[0]:
                self._on_answer(event)

    def on_engine_stopped(self) -> None:
        """What was asked stays without an answer: it waits for the next engine."""
        self._engine_is_there = False
        if self._asked is not None:
            self._waiting.insert(0, self._asked[1])
            self._asked = None

    def _on_answer(self, found: Appraised) -> None:
        assert self._asked is not None
        _, pricing, terms = self._asked
        self._asked = None
        if terms == self._terms:  # else it is asked again: the pair is among those waiting
            self._prices[pricing] = found
            self.priced.emit(pricing.key, found)
        self._ask_next()

    def _ask_next(self) -> None:
        if self._asked is not None or not self._engine_is_there:
            return
        self._waiting = [each for each in self._waiting if each not in self._prices]
        if self._waiting:
            pricing = self._waiting.pop(0)
            self._asked = (self._link.appraise(self._complete(pricing.options(self._terms))), pricing, self._terms)

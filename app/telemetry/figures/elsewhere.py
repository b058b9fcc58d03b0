"""The figures of answers that an engine elsewhere writes: what arrives is measured here, the rest is what it tells."""

from collections.abc import Sequence

import numpy as np

from app.engine.steps import MOST, StepHistory, acceptance_of, plausible
from app.telemetry.figures.acceptance import Acceptance
from app.telemetry.figures.history import History
from engine.protocol.messages import Event, Failed, Finished, Round, Statistics, Steps, Wrote

_CAPACITY = 2000  # moments in which text arrived, which are kept


class ElsewhereFigures:
    """Those of the newest answer. `is_newest`: it is written elsewhere; `told`: what its engine said at the end.

    `arrivals`: a row for every moment in which counted tokens arrived. Times are in seconds of a clock that only goes
    forward.
    """

    def __init__(self) -> None:
        self.arrivals = History(_CAPACITY)
        self.steps = StepHistory()
        self.told: Statistics | None = None
        self._asked = 0  # the newest request of the conversation
        self.clear()

    def clear(self) -> None:
        """Another conversation is shown."""
        self.is_newest = False
        self._begin(0, 0.0)

    def ask(self, request: int, now: float) -> None:
        """An answer was asked for, then; who writes it is known when something of it comes."""
        if request != self._asked:
            self._asked, self._moment = request, now

    def take(self, events: Sequence[Event], now: float) -> None:
        """What came of the answer, all at once."""
        told = [each for each in events if isinstance(each, Round | Wrote | Steps | Finished | Failed)]
        if any(isinstance(each, Round) for each in told):
            self.is_newest = False
            return
        if any(isinstance(each, Wrote | Steps) for each in told) and self._request != self._asked:
            self._begin(self._asked, self._moment)
            self.is_newest = True
        if not self.is_newest or self._request != self._asked:
            return
        self._arrive(sum(max(0, each.tokens) for each in told if isinstance(each, Wrote)), now)
        for each in told:
            if isinstance(each, Steps):
                self.steps.add(each)
            elif isinstance(each, Finished | Failed):
                self.has_ended = True
                self.told = plausible(each.statistics) if isinstance(each, Finished) and each.statistics else None

    @property
    def acceptance(self) -> Acceptance:
        """By the place of a drafted token in its step."""
        return Acceptance(np.array(self.steps.reached), np.array(self.steps.went_on))

    @property
    def tokens(self) -> int:
        """Of the answer, as far as they were counted."""
        return max(self._tokens, self.told.new_tokens if self.told else 0)

    @property
    def tokens_per_second(self) -> float:
        """What its engine says; else what was measured here; 0 where neither is known."""
        if self.told and self.told.tokens_per_second:
            return self.told.tokens_per_second
        rows = self.arrivals.rows[1:]  # the first had to wait for the question to be read
        seconds = float(rows["seconds"].sum())
        return float(rows["tokens"].sum()) / seconds if seconds > 0 else 0.0

    @property
    def tokens_per_step(self) -> float:
        """By its steps, or by the passes of its target; 0 where neither is known."""
        if self.steps.count:
            return self.steps.tokens_per_step
        return self.told.tokens_per_pass if self.told and self.told.drafted_nodes else 0.0

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted tokens of those that were drafted, from 0 to 1; None where that is not known."""
        if self.steps.drafted:
            return self.steps.acceptance
        return acceptance_of(self.told) if self.told else None

    def _begin(self, request: int, asked: float) -> None:
        self._asked = self._request = request
        self._moment = asked
        self._tokens = 0
        self.has_ended = False
        self.arrivals.clear()
        self.steps = StepHistory()
        self.told = None

    def _arrive(self, tokens: int, now: float) -> None:
        if tokens:
            self._tokens = min(self._tokens + tokens, MOST)
            self.arrivals.add_arrival(self._request, min(tokens, MOST), max(0.0, now - self._moment))
            self._moment = now

"""Keeps a pair loaded: after every start of the engine, and after a choice that could not be loaded."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.engine.interface import Engine
from app.engine.listener import EventListener, takes
from app.engine.state import EngineState, Phase
from app.i18n.translation import tr
from engine.protocol.messages import Event, Failed, Finished, Loaded, Loading, Ready
from engine.protocol.options import LoadOptions

_log = logging.getLogger(__name__)


class LibraryController(QObject, EventListener):
    """Decides what is loaded, and knows the state of the engine.

    A pair that fails to load is followed by the one before it, and that by the embedded pair; so a wrong path
    never leaves the window without a model. What was cancelled is not followed by anything new.
    """

    state_changed = Signal(EngineState)
    pair_loaded = Signal(LoadOptions)
    pair_unloaded = Signal(str)  # the name of its target
    load_failed = Signal(Failed, object)  # the `LoadOptions` that are loaded instead; None for nothing

    def __init__(
        self,
        link: Engine,
        wanted: LoadOptions,
        previous: LoadOptions,
        parent: QObject | None = None,
        complete: Callable[[LoadOptions], LoadOptions] = lambda options: options,
    ) -> None:
        """`complete` fills in what a choice of models leaves open: folders, limits, and whatever Preferences say."""
        super().__init__(parent)
        self._link = link
        self._complete = complete
        self.wanted = wanted  # the pair that is loaded, or is to be
        self._previous = previous
        self._loaded: LoadOptions | None = None
        self._failed: list[LoadOptions] = []  # since the last success or choice, so that no failure is tried twice
        self._request = 0
        self._pace = LoadPace()
        self._rests = False
        self.state = EngineState()

    def load(self, options: LoadOptions) -> None:
        """Load another pair; an engine that has stopped is started for it."""
        self.wanted = options
        self._failed.clear()
        self.cancel()
        if self.state.phase is Phase.STOPPED:
            self.restart()
        elif self.state.phase is not Phase.STARTING:
            self._request_load()

    def unload(self) -> None:
        """Give back the memory of what is loaded, once nothing is answered with it; it can be loaded again."""
        if self.state.phase is Phase.READY:
            self._request = self._link.unload()

    def load_again(self) -> None:
        """Load what was unloaded."""
        self.load(self.wanted)

    def rest(self, rests: bool) -> None:
        """Load nothing by yourself, as long as an engine elsewhere answers; what loads now is not needed."""
        self._rests = rests
        if rests:
            self.cancel()

    def cancel(self) -> None:
        """Stop loading."""
        if self.state.phase is Phase.LOADING:
            self._link.cancel(self._request)

    def restart(self) -> None:
        """Start a new engine and load the pair into it."""
        self._link.restart()

    def on_engine_starting(self) -> None:
        """A new process: nothing is loaded in it."""
        self._change(EngineState(Phase.STARTING))

    def on_engine_stopped(self) -> None:
        """The process is gone; the next one does not load what this one died of."""
        if self.state.phase is Phase.LOADING:
            self.wanted = self._previous
        self._request = 0
        self._loaded = None
        self._change(EngineState(Phase.STOPPED))

    def concerns(self, event: Event) -> bool:
        """The start of the engine does, and the loading of the pair."""
        return isinstance(event, Ready) or event.id == self._request

    @takes(Ready)
    def _on_ready(self, _event: Ready) -> None:
        if self._rests:
            self._change(EngineState(Phase.EMPTY))
        else:
            self._request_load()

    @takes(Loading)
    def _on_loading(self, event: Loading) -> None:
        left = self._pace.seconds_left(event.stage, event.done, event.total)
        self._change(EngineState(Phase.LOADING, event.stage, event.done, event.total, left))

    @takes(Loaded)
    def _on_described(self, event: Loaded) -> None:
        self._change(replace(self.state, pair=event))

    @takes(Finished)
    def _on_finished(self, event: Finished) -> None:
        if event.reason == "unloaded":
            self._on_unloaded()
        else:
            (self._on_loaded if event.reason == "loaded" else self._on_cancelled)()

    def _on_loaded(self) -> None:
        self._loaded = self._previous = self.wanted
        self._failed.clear()
        _log.info("Loaded: %s and %s", self.wanted.target, self.wanted.draft)
        self._change(EngineState(Phase.READY, pair=self.state.pair))
        self.pair_loaded.emit(self.wanted)

    def _on_unloaded(self) -> None:
        name = self.state.pair.target.name if self.state.pair else self.wanted.target
        self._loaded = None
        _log.info("Unloaded: %s and %s", self.wanted.target, self.wanted.draft)
        self._change(EngineState(Phase.EMPTY))
        self.pair_unloaded.emit(name)

    def _on_cancelled(self) -> None:
        if self._loaded is None or self._rests:
            self._change(EngineState(Phase.EMPTY))
        else:
            self.wanted = self._loaded
            self._request_load()

    @takes(Failed)
    def _on_failed(self, failed: Failed) -> None:
        """Try the pair before; if that is the one that failed, the embedded pair; if even that, none."""
        self._loaded = None
        self._failed.append(self.wanted)
        untried = [] if self._rests else [each for each in (self._previous, LoadOptions()) if each not in self._failed]
        self.load_failed.emit(failed, untried[0] if untried else None)
        if untried:
            self.wanted = untried[0]
            self._request_load()
        else:
            self._change(EngineState(Phase.EMPTY))

    def _request_load(self) -> None:
        self._change(EngineState(Phase.LOADING, tr("Loading the models")))
        self._request = self._link.load(self._complete(self.wanted))

    def _change(self, state: EngineState) -> None:
        if state != self.state:
            self.state = state
            self.state_changed.emit(state)


_SECONDS_TO_SETTLE = 2.0


class LoadPace:
    """Every stage of a load has a pace of its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stage = ""
        self._since = 0.0
        self._first = 0

    def seconds_left(self, stage: str, done: int, total: int) -> float | None:
        """The rest of this stage, when `done` of `total` steps are behind us; None while that cannot be told."""
        if stage != self._stage or done < self._first:
            self._stage, self._since, self._first = stage, self._clock(), done
        seconds, steps = self._clock() - self._since, done - self._first
        if not steps or seconds < _SECONDS_TO_SETTLE:
            return None
        return seconds / steps * (total - done)

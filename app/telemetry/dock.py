"""Connects telemetry to the engine's events, and makes its panel when it is first looked at."""

import logging
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QSize, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QDockWidget, QMainWindow, QWidget

from app.engine.interface import Answerer
from app.engine.listener import EventListener, takes
from app.engine.state import EngineState
from app.engine.why import CausePlace
from app.i18n.translation import tr
from app.telemetry.comparison import Comparison
from app.ui.theme import Colors
from engine.protocol.messages import ChatMessage, Event, Loaded, Prefilled, Ready, Round, Steps, Wrote
from engine.protocol.options import GenerateOptions

if TYPE_CHECKING:
    from app.telemetry.figures.elsewhere import ElsewhereFigures
    from app.telemetry.figures.history import History, Restoring
    from app.telemetry.panel import TelemetryPanel

_log = logging.getLogger(__name__)


class _Place(QWidget):
    """Stands where the charts will: the dock takes its height from what is in it when it is shown first."""

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room for a row of charts, whole."""
        return QSize(900, 310)


class TelemetryDock(QObject, EventListener):
    """Follows the conversation's own requests; what a comparison measures stays out of the charts."""

    figures_wanted = Signal(list)
    """Keys of kept rounds that are to be brought."""
    texts_wanted = Signal()
    """The last answer and another one are to be shown beside each other."""

    def __init__(
        self,
        link: Answerer,
        colors: Colors,
        window: QMainWindow | None = None,
        put_off: Callable[[Callable[[], None]], None] = lambda work: work(),
    ) -> None:
        """`window`: of which `dock` is to be a part; hidden until it is asked for. `put_off` calls in good time."""
        super().__init__(window)
        self._put_off = put_off
        self.comparison = Comparison(link, self)
        self._colors = colors
        self._pair: Loaded | None = None
        self._panel: TelemetryPanel | None = None
        self.dock = QDockWidget(tr("Telemetry"), window)
        self.dock.setObjectName("telemetry")
        self.dock.setWidget(_Place())
        self.dock.hide()
        self.dock.visibilityChanged.connect(self._on_visibility_changed)
        self._request = 0
        self._asked = 0.0  # seconds of a clock that only goes forward
        self._show_round: Callable[[int, int], None] | None = None

    @cached_property
    def history(self) -> "History":
        """The rounds' figures; made with the first of them, since numpy comes along."""
        from app.telemetry.figures.history import History  # noqa: PLC0415

        return History()

    @cached_property
    def elsewhere(self) -> "ElsewhereFigures":
        """The figures of what an engine elsewhere writes; made with the history."""
        from app.telemetry.figures.elsewhere import ElsewhereFigures  # noqa: PLC0415

        return ElsewhereFigures()

    @cached_property
    def restoring(self) -> "Restoring":
        """Brings back the figures of kept rounds; made when there are some, or the charts are shown."""
        from app.telemetry.figures.history import Restoring  # noqa: PLC0415

        made = Restoring(self.history, self)
        made.restored.connect(self._on_restored)
        made.wanted.connect(self.figures_wanted)
        made.set_wanted(self.dock.isVisible())
        return made

    @property
    def panel(self) -> "TelemetryPanel":
        """The charts; made when they are first asked for, since that takes longer than all the rest of the window."""
        if self._panel is None:
            from app.telemetry.panel import TelemetryPanel  # noqa: PLC0415

            self._panel = TelemetryPanel(self.history, self.elsewhere, self.comparison, self._colors, self.dock)
            self._panel.round_chosen.connect(self._on_round_chosen)
            self._panel.texts_wanted.connect(self.texts_wanted)
            self._panel.show_pair(self._pair)
            place = self.dock.widget()
            self.dock.setWidget(self._panel)
            place.deleteLater()
        return self._panel

    def set_theme(self, colors: Colors) -> None:
        """Change the colours."""
        self._colors = colors
        if self._panel is not None:
            self._panel.set_theme(colors)

    def follow(self, action: QAction, show_round: Callable[[int, int], None]) -> None:
        """A checkable action shows and hides the dock; `show_round` takes request and index of a chosen round."""
        self._show_round = show_round
        action.triggered.connect(self._on_triggered)
        self.dock.toggleViewAction().toggled.connect(action.setChecked)

    def show_cause(self, place: CausePlace) -> None:
        """Show the charts, and in them why an answer was fast or not."""
        self.dock.show()
        self.dock.raise_()
        self.panel.show_cause(place)

    def on_asked(self, request: int, chat: tuple[ChatMessage, ...], options: GenerateOptions) -> None:
        """The conversation has asked the engine something: its rounds are drawn from now on."""
        self._request = request
        self._asked = time.monotonic()
        self.comparison.on_asked(request, chat, options)

    def on_events(self, events: Sequence[Event]) -> None:
        """Take the rounds of the conversation."""
        mine = [event for event in events if not isinstance(event, Ready) and event.id == self._request]
        super().on_events(mine)
        self._take_elsewhere(mine)
        self.comparison.on_events(events)
        if mine:
            self._update()

    def on_engine_state(self, state: EngineState) -> None:
        """Another pair may be loaded now."""
        self.comparison.on_engine_state(state)
        if state.ready:
            self._pair = state.pair
            if self._panel is not None:
                self._panel.show_pair(state.pair)

    def clear(self) -> None:
        """Another conversation is shown."""
        self._request = 0
        if "restoring" in self.__dict__:
            self.restoring.clear()
        if "elsewhere" in self.__dict__:
            self.elsewhere.clear()
        if "history" in self.__dict__:
            self.history.clear()
        self.comparison.forget()
        self._update()

    def _on_round_chosen(self, number: int) -> None:
        if 0 <= number - self.history.first < len(self.history.rows) and self._show_round:
            row = self.history.rows[number - self.history.first]
            self._show_round(int(row["request"]), int(row["index"]))

    def _update(self) -> None:
        if self._panel is not None:
            self._panel.show_left(self.restoring.left)
            self._panel.update_soon()

    def _on_visibility_changed(self, visible: bool) -> None:
        if visible:
            self._put_off(self._show_panel)
        elif "restoring" in self.__dict__:
            self.restoring.set_wanted(False)

    def _show_panel(self) -> None:
        if self.dock.isVisible():
            self.panel.update_soon()
            self.restoring.set_wanted(True)

    def on_listed(self, rounds: list[tuple[int, int]]) -> None:
        """The conversation that is shown has these rounds of before: request and number, oldest first."""
        if rounds or "restoring" in self.__dict__:
            self.restoring.begin(rounds)
            self._update()

    def on_brought(self, rounds: list[tuple[tuple[int, int], bytes | None]]) -> None:
        """Kept rounds that were wanted; None for those that are lost."""
        self.restoring.take(rounds)

    def _on_restored(self, rounds: int, seconds: float) -> None:
        self.panel.scope.shift(rounds, seconds)
        self._update()

    def _on_triggered(self, shown: bool) -> None:
        self.dock.setVisible(shown)

    def _take_elsewhere(self, events: Sequence[Event]) -> None:
        if "elsewhere" in self.__dict__ or any(isinstance(each, Wrote | Steps) for each in events):
            self.elsewhere.ask(self._request, self._asked)
            self.elsewhere.take(events, time.monotonic())

    @takes(Prefilled)
    def _on_prefilled(self, event: Prefilled) -> None:
        self.history.wait(event.seconds)

    @takes(Round)
    def _on_round(self, round: Round) -> None:
        try:
            self.history.add(round)
        except ValueError as error:
            _log.warning("Round %d has no figures: %s", round.index, error)

"""Watches whether the engine reacts to Stop, and offers to restart it where it does not."""

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine.interface import Engine
from app.engine.listener import EventListener, takes
from app.i18n.translation import tr
from app.ui.notices import Notice
from engine.protocol.messages import Failed, Finished

UNHEARD_NOTICE = "stop-unheard"
PATIENCE_SECONDS = 5


class UnheardStop(QObject, EventListener):
    """From the moment something is cancelled until it has ended.

    The engine reacts within a layer, but a layer that comes from a slow disk can take longer than that, and a model's
    template or the pattern of its tokenizer may never end. Only a person can tell: nothing is restarted by itself.
    """

    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)

    def __init__(self, link: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._running: dict[int, int] = {}  # by request, who asks for it
        self._cancelled: set[int] = set()
        self._offers = False
        self._timer = QTimer(self, singleShot=True, interval=PATIENCE_SECONDS * 1000)
        self._timer.timeout.connect(self._on_unheard)
        link.requested.connect(self._on_requested)
        link.cancelled.connect(self._on_cancelled)
        link.events_arrived.connect(self.on_events)
        link.engine_stopped.connect(self._on_engine_stopped)

    def _on_requested(self, request: int, asker: int) -> None:
        self._running[request] = asker

    def _on_cancelled(self, through: int, asker: int) -> None:
        """A second Stop does not begin anew: the first one is still not heard."""
        self._cancelled |= {each for each, its in self._running.items() if each <= through and its == asker}
        if self._cancelled and not self._timer.isActive() and not self._offers:
            self._timer.start()

    @takes(Finished, Failed)
    def _on_ended(self, event: Finished | Failed) -> None:
        self._running.pop(event.id, None)
        self._cancelled.discard(event.id)
        if not self._cancelled:
            self._withdraw()

    def _on_engine_stopped(self) -> None:
        """Its requests fail now, and those to come are for another one."""
        self._cancelled.clear()
        self._withdraw()

    def _on_unheard(self) -> None:
        self._offers = True
        words = tr("The engine has not reacted to Stop for {seconds} seconds.").format(seconds=PATIENCE_SECONDS)
        hint = tr(
            "It may be in a long step, and stop at its end. A restart ends it now: the text so far stays, and the "
            "models are loaded again."
        )
        self.notice_raised.emit(
            Notice(UNHEARD_NOTICE, words, hint, action=tr("Restart engine"), on_action=self._link.restart)
        )

    def _withdraw(self) -> None:
        self._timer.stop()
        if self._offers:
            self._offers = False
            self.notice_withdrawn.emit(UNHEARD_NOTICE)

"""Imports heavy modules after the first paint of the window, then runs what was deferred."""

from collections import deque
from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QWidget

from app.system.imports import ImportsInTurns
from app.ui.jobs import Task

BESIDE = (
    "numpy",
    "numpy.ma",  # numpy reads it in the window's thread when the first chart or tree is drawn, for 8 ms
    "psutil",
    "markdown_it",
    "pygments.styles.friendly",
)
"""Of what the following need, the packages that make no types of Qt: no turn of the window has to wait for them."""

LATER = (
    "app.tree.panel",
    "app.chat.view.answer_view",
    "app.telemetry.panel",
    "app.comparison.session",
    "app.chat.generation.popover",
    "app.preferences.pages",
    "app.library.picker.dialog",
)
"""What the first question and the first clicks need, but the first picture of the window does not."""

_PAUSE_MS = 2  # for the window itself, between two turns of the thread
_LONGEST_MS = 2000  # after which a window that is not painted, such as a minimised one, goes on all the same


class DeferredWork(QObject):
    """Begins with the first paint of a window. Modules are read in a thread, then each work has a turn of its own."""

    def __init__(self, window: QWidget, beside: Sequence[str] = BESIDE, modules: Sequence[str] = LATER) -> None:
        super().__init__(window)
        self._works: deque[Callable[[], None]] = deque()
        self._imports = ImportsInTurns(beside, modules)
        self.destroyed.connect(self._imports.stop)  # nobody gives turns any more
        self._reading = Task("read ahead", self._imports.read, self)
        self._reading.done.connect(self._on_read)
        self._beginning = QTimer(self, singleShot=True)
        self._beginning.timeout.connect(self._on_beginning)
        self._turn = QTimer(self, singleShot=True, interval=0)
        self._turn.timeout.connect(self._on_turn)
        self._is_read = False
        window.installEventFilter(self)

    def do(self, work: Callable[[], None]) -> None:
        """Call this from the event loop when the modules have been read."""
        self._works.append(work)
        if self._is_read:
            self._turn.start()

    def stop(self) -> None:
        """Read no further module, and do nothing more: the window has closed."""
        self._imports.stop()
        self._works.clear()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Look for the first paint; take no event."""
        if event.type() == QEvent.Type.Show:
            self._beginning.start(_LONGEST_MS)
        elif event.type() == QEvent.Type.Paint:
            watched.removeEventFilter(self)
            self._beginning.start(0)
        return False

    def _on_beginning(self) -> None:
        if self._beginning.interval():  # a first paint that is only late may wait in the event loop: it goes first
            self._beginning.start(0)
        else:
            self._reading.start()
            self._turn.start(_PAUSE_MS)

    def _on_read(self) -> None:
        self._is_read = True
        self._turn.start(0)

    def _on_turn(self) -> None:
        if not self._is_read:
            self._imports.let_go_on()
            self._turn.start(_PAUSE_MS)
        elif self._works:
            work = self._works.popleft()
            self._turn.start()
            work()

"""The local server in the window: controller, indicator in the status bar, and the dialog, made when it is opened."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QToolButton, QWidget

from app.engine.link import EngineLink
from app.i18n.translation import tr
from app.server.controller import Phase, ServerController, ServerState
from app.server.words import traffic_words
from app.settings.store import SettingsFile
from app.ui.notices import Notice
from app.ui.throttle import Throttle
from app.ui.widgets import adopt

if TYPE_CHECKING:
    from app.server.dialog import ServerDialog

_REFRESH_MS = 200


class ServerIndicator(QToolButton):
    """Seen while the server is on: how many clients ask, and how many of their requests wait."""

    def __init__(self, controller: ServerController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self.setObjectName("quiet-words")
        self.setToolTip(tr("Open the window of the local server"))
        self._throttle = Throttle(self._refresh, _REFRESH_MS, self)
        controller.visited.connect(self._throttle.request)
        controller.changed.connect(self._refresh)
        self._refresh()

    def _refresh(self, _state: ServerState | None = None) -> None:
        self.setText(traffic_words(self._controller.log.traffic))
        self.setAccessibleName(self.text())
        self.setVisible(self._controller.state.phase is Phase.ON)


class ServerFeature(QObject):
    """`notice_raised` tells of failures while the dialog is closed."""

    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)

    def __init__(
        self, link: EngineLink, settings: SettingsFile, front: Callable[[], QWidget], parent: QObject | None = None
    ) -> None:
        """`front`: the window that the dialog is opened over."""
        super().__init__(parent)
        self._settings = settings
        self._front = front
        self._dialog: ServerDialog | None = None
        self.controller = ServerController(link, settings, self)
        self.controller.notice_raised.connect(self._on_notice)
        self.controller.notice_withdrawn.connect(self.notice_withdrawn)

    def make_indicator(self, window: QWidget) -> ServerIndicator:
        """Tells of the server in the status bar of a window."""
        made = ServerIndicator(self.controller, window)
        made.clicked.connect(self.open)
        return made

    @property
    def dialog(self) -> "ServerDialog":
        """The dialog; it is made, and its modules are read, when it is first asked for."""
        if self._dialog is None:
            from app.server.dialog import ServerDialog  # noqa: PLC0415

            self._dialog = ServerDialog(self.controller, self._settings, self._front())
        return self._dialog

    def open(self) -> None:
        """Show the dialog, in front of the window."""
        adopt(self.dialog, self._front())
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()

    def leave(self, window: QWidget) -> None:
        """A window goes, and the dialog with it if it is open there; it may be opened over another one."""
        if self._dialog is not None and self._dialog.parentWidget() is window:
            self._dialog.close()
            adopt(self._dialog, self._front())

    def _on_notice(self, notice: Notice) -> None:
        if self._dialog is None or not self._dialog.isVisible():
            words = tr("Local server…")
            self.notice_raised.emit(Notice(notice.key, notice.message, notice.hint, action=words, on_action=self.open))

"""The window of the local server: its switch and address, who asks, how it is set, and how it is asked."""

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from app.i18n.translation import tr
from app.server.addresses import own_addresses, reachable
from app.server.controller import Phase, ServerController, ServerState
from app.server.examples_page import ExamplesPage
from app.server.log_view import LogPage
from app.server.settings_page import SettingsPage
from app.server.words import TITLES, describe
from app.settings.preferences import EVERYWHERE
from app.settings.store import SettingsFile
from app.system.plain_text import tip
from app.ui.widgets import copy_text, fill, fit_screen, label, row_of

_SIZE = QSize(940, 640)
_DOTS = {Phase.ON: "ready", Phase.FAILED: "stopped"}
_TITLE_GAP = 10


class Head(QFrame):
    """The switch, how the server stands, and its address."""

    start_wanted = Signal()

    def __init__(self, controller: ServerController, parent: QWidget) -> None:
        super().__init__(parent)
        self._controller = controller
        self._dot = QLabel(self)
        self._dot.setObjectName("dot")
        self.title = label("page-title", "", self)
        self.about = label("quiet-text", "", self)
        self.warning = label("error", "", self)
        self.switch = QPushButton(self)
        self.switch.setAutoDefault(False)
        self.restart = QPushButton(tr("Restart server"), self)
        self.restart.setToolTip(tip(tr("Start it anew with the settings of now; answers under way are cut off")))
        self.restart.setAutoDefault(False)
        self.remedy = QPushButton(tr("Generate a key"), self)
        self.remedy.setAutoDefault(False)
        self.url = QLineEdit(self)
        self.url.setReadOnly(True)
        self.url.setAccessibleName(tr("Address of the server"))
        self.copy = QPushButton(tr("Copy"), self)
        self.copy.setAccessibleName(tr("Copy the address"))
        self.copy.setAutoDefault(False)
        self._lay_out()
        self.switch.clicked.connect(self._on_switch)
        self.restart.clicked.connect(self.start_wanted)
        self.copy.clicked.connect(lambda: copy_text(self.url.text(), self.copy))

    def _lay_out(self) -> None:
        title = row_of((self._dot, self.title), _TITLE_GAP)
        title.setStretch(1, 1)
        words = QVBoxLayout()
        words.setSpacing(4)
        words.addLayout(title)
        words.addWidget(self.about)
        words.addWidget(self.warning)
        words.addStretch(1)
        buttons = QVBoxLayout()
        for button in (self.switch, self.restart, self.remedy):
            buttons.addWidget(button)
        buttons.addStretch(1)
        above = QHBoxLayout()
        above.setSpacing(24)
        above.addLayout(words, 1)
        above.addLayout(buttons)
        self._address = QWidget(self)
        row = QHBoxLayout(self._address)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.url, 1)
        row.addWidget(self.copy)
        fill(self, (above, self._address), 12, 20, 18, 20, 6)

    def show_state(self, state: ServerState, url: str, own: tuple[str, ...] = ()) -> None:
        """Show how the server stands, and where it is or will be; `own`: addresses that all lead to it."""
        self._dot.setProperty("phase", _DOTS.get(state.phase, ""))
        self._dot.style().unpolish(self._dot)
        self._dot.style().polish(self._dot)
        self.title.setText(tr(TITLES[state.phase]))
        self.about.setObjectName("error" if state.phase is Phase.FAILED else "quiet-text")
        self.about.style().polish(self.about)
        self.about.setText(describe(state))
        self.warning.setText(self._warn(state))
        self.warning.setVisible(bool(self.warning.text()))
        self.switch.setText(tr("Switch off") if state.is_wanted else tr("Switch on"))
        self.switch.setAccessibleName(tr("Switch the server off") if state.is_wanted else tr("Switch the server on"))
        self.switch.setEnabled(state.phase is not Phase.STOPPING)
        self.restart.setVisible(self._controller.is_outdated)
        self.remedy.setVisible(state.lacks_key)
        self.url.setText(f"{url}/v1")
        about = tr("What clients of OpenAI call the base URL; all others take it without /v1")
        all_ = tr("This computer has these addresses: {addresses}").format(addresses=", ".join(own))
        self.url.setToolTip(tip(f"{about}\n{all_}" if len(own) > 1 else about))
        self._address.setVisible(state.phase is Phase.ON)

    def _warn(self, state: ServerState) -> str:
        if self._controller.is_outdated:
            return tr("It was started with other settings than those of now.")
        if state.phase is Phase.ON and not self._controller.engine.ready:
            return tr("No model is loaded: until one is, clients are told so (status 503).")
        return ""

    def _on_switch(self) -> None:
        if self._controller.state.is_wanted:
            self._controller.switch_off()
        else:
            self.start_wanted.emit()


class ServerDialog(QDialog):
    """Stays open beside the window, so that a chat and the log can be seen together."""

    def __init__(self, controller: ServerController, settings: SettingsFile, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._settings = settings
        self.setWindowTitle(tr("Local server"))
        fit_screen(self, _SIZE)
        self.head = Head(controller, self)
        self.tabs = QTabBar(self)
        self.log = LogPage(controller, self)
        self.options = SettingsPage(controller, settings, self)
        self.examples = ExamplesPage(controller, self)
        self.pages = QStackedWidget(self)
        self._lay_out()
        self.tabs.currentChanged.connect(self.pages.setCurrentIndex)
        self.head.start_wanted.connect(self._on_start)
        self.head.remedy.clicked.connect(self._on_remedy)
        controller.changed.connect(self._show)
        self._show(controller.state)

    def _lay_out(self) -> None:
        self.tabs.setObjectName("pages")
        self.tabs.setAccessibleName(tr("Pages"))
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        titles = (tr("Requests"), tr("Settings"), tr("Examples"))
        for title, page in zip(titles, (self.log, self.options, self.examples), strict=True):
            self.tabs.addTab(title)
            self.pages.addWidget(page)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.head)
        column.addWidget(self.tabs)
        column.addWidget(self.pages, 1)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Begin with what holds now; the key is looked up, which may take a person's password."""
        super().showEvent(event)
        self.options.load()
        if self._settings.current.server_has_key:
            self._controller.key.look()
        self._show(self._controller.state)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """What was typed a moment ago is kept too."""
        super().hideEvent(event)
        self.options.keep()

    def _show(self, state: ServerState) -> None:
        """With the address where clients find the server, or would."""
        current = self._settings.current
        address = state.address or f"http://{current.server_host}:{current.server_port}"
        own = own_addresses() if EVERYWHERE in address else ()
        url = reachable(address, own)
        self.options.refresh()
        self.head.show_state(state, url, own)
        self.examples.show_url(url)

    def _on_remedy(self) -> None:
        self.tabs.setCurrentIndex(self.pages.indexOf(self.options))
        self.options.key.make()
        self._on_start()

    def _on_start(self) -> None:
        """With what was typed a moment ago, too."""
        self.options.settle()
        self._controller.switch_on()

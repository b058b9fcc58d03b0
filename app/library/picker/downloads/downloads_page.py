"""The queue of downloads, and what can be done with the one that is chosen."""

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QKeyEvent
from PySide6.QtWidgets import QListView, QMessageBox, QPushButton, QStackedWidget, QWidget

from app.downloads.progress import Progress, State
from app.hub.failures import HubError
from app.i18n.number_text import size_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.download_link import DownloadLink
from app.library.picker.downloads.download_list import DownloadDelegate, DownloadList
from app.ui.theme import Colors
from app.ui.widgets import fill, label, row_of

_EMPTY = mark("No downloads. What you get from the hub shows up here, and goes on when this dialog is closed.")


_WORTH_ASKING = 64 << 20  # bytes, of which the loss would be noticed


class DownloadsView(QListView):
    """Enter does what suggests itself, Delete takes a download off the list."""

    opened = Signal()
    delete_requested = Signal()
    current_changed = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """The two keys; all others move."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.opened.emit()
        elif event.key() == Qt.Key.Key_Delete:
            self.delete_requested.emit()
        else:
            super().keyPressEvent(event)

    def currentChanged(self, current: object, previous: object) -> None:  # noqa: N802
        """Another download is chosen."""
        super().currentChanged(current, previous)  # type: ignore[arg-type]
        self.current_changed.emit()


class DownloadsPage(QWidget):
    """`load_requested` carries the name of a model that has arrived."""

    load_requested = Signal(str)

    def __init__(self, downloads: DownloadLink, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._downloads = downloads
        self.list = DownloadList(self)
        self.painter_ = DownloadDelegate(colors, self)
        self.view = DownloadsView(self)
        self.view.setObjectName("models")
        self.view.setAccessibleName(tr("Downloads"))
        self.view.setModel(self.list)
        self.view.setItemDelegate(self.painter_)
        self.view.setUniformItemSizes(True)
        self.view.setMouseTracking(True)
        self.empty = label("quiet-text", tr(_EMPTY), self)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.empty.setContentsMargins(60, 0, 60, 0)
        self.load = QPushButton(tr("Load"), self)
        self.pause = QPushButton(tr("Pause"), self)
        self.resume = QPushButton(tr("Resume"), self)
        self.page = QPushButton(tr("Open page"), self)
        self.cancel = QPushButton(tr("Cancel"), self)
        self.cancel.setToolTip(tr("Stop it and remove what is partial"))
        self.forget = QPushButton(tr("Take off the list"), self)
        self._lay_out()
        self._connect()
        self.show_downloads(downloads.downloads)

    def _lay_out(self) -> None:
        buttons = (self.load, self.pause, self.resume, self.page, self.cancel, self.forget)
        for button in buttons:
            button.setAutoDefault(False)
        self.stack = QStackedWidget(self)
        self.stack.addWidget(self.view)
        self.stack.addWidget(self.empty)
        fill(self, (self.stack, row_of((*buttons, None))), 8, 14, 14, 14, 14, high=self.stack)

    def _connect(self) -> None:
        self._downloads.changed.connect(self.show_downloads)
        self.view.current_changed.connect(self._show_buttons)
        self.view.opened.connect(self._on_opened)
        self.view.delete_requested.connect(self._on_delete)
        self.view.doubleClicked.connect(lambda _index: self._on_opened())
        self.load.clicked.connect(self._on_load)
        self.pause.clicked.connect(lambda: self._tell(self._downloads.pause))
        self.resume.clicked.connect(lambda: self._tell(self._downloads.resume))
        self.cancel.clicked.connect(self._on_cancel)
        self.forget.clicked.connect(lambda: self._tell(self._downloads.forget))
        self.page.clicked.connect(self._on_page)

    @property
    def current(self) -> Progress | None:
        """The download that is chosen."""
        return self.list.progress(self.view.currentIndex().row())

    def show_downloads(self, downloads: tuple[Progress, ...]) -> None:
        """Follow the queue."""
        chosen = self.current
        self.list.show(downloads)
        row = self.list.row_of(chosen.id) if chosen else -1
        if not self.view.currentIndex().isValid() and downloads:
            self.view.setCurrentIndex(self.list.index(max(0, row)))
        self.stack.setCurrentWidget(self.view if downloads else self.empty)
        self._show_buttons()

    def set_theme(self, colors: Colors) -> None:
        """Paint in these colours."""
        self.painter_.colors = colors
        self.view.viewport().update()

    def _show_buttons(self) -> None:
        progress = self.current
        state = progress.state if progress else None
        going = state is not None and (state.is_running or state is State.QUEUED)
        refused = progress is not None and isinstance(progress.error, HubError) and bool(progress.error.page)
        self.load.setVisible(state is State.DONE)
        self.pause.setVisible(going)
        self.resume.setVisible(state in (State.PAUSED, State.FAILED, State.CANCELLED))
        anew = {State.FAILED: tr("Retry"), State.CANCELLED: tr("Download again")}
        self.resume.setText(anew[state] if state in anew else tr("Resume"))
        self.page.setVisible(refused)
        self.cancel.setVisible(going or state in (State.PAUSED, State.FAILED))
        self.forget.setVisible(state in (State.DONE, State.CANCELLED))

    def _tell(self, order: object) -> None:
        if (progress := self.current) is not None and callable(order):
            order(progress.id)

    def _on_cancel(self) -> None:
        """Where much has arrived, only once it is sure that nobody meant to pause it."""
        progress = self.current
        if progress is None or progress.bytes_done < _WORTH_ASKING:
            self._tell(self._downloads.cancel)
            return
        box = QMessageBox(self)
        box.setIcon(QMessageBox.Icon.Question)
        box.setText(tr("Cancel the download of {name}?").format(name=progress.request.source))
        words = tr(
            "Of the {size} that have arrived, what belongs to files that are not complete is deleted. “Pause” keeps it."
        )
        box.setInformativeText(words.format(size=size_text(progress.bytes_done)))
        cancel = box.addButton(tr("Cancel the download"), QMessageBox.ButtonRole.AcceptRole)
        stay = box.addButton(tr("Go on downloading"), QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(stay)
        box.setEscapeButton(stay)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        cancel.clicked.connect(lambda: self._downloads.cancel(progress.id))
        box.open()

    def _on_opened(self) -> None:
        """Load what is done, pause what runs, resume what rests."""
        buttons = (self.load, self.pause, self.resume)
        button = next((each for each in buttons if each.isVisibleTo(self)), None)
        if button is not None:
            button.click()

    def _on_delete(self) -> None:
        """A download that is over goes off the list; one that is not is cancelled by its button alone."""
        if self.forget.isVisibleTo(self):
            self.forget.click()

    def _on_load(self) -> None:
        if (progress := self.current) is not None:
            self.load_requested.emit(progress.request.source)

    def _on_page(self) -> None:
        if (progress := self.current) is not None and isinstance(progress.error, HubError):
            QDesktopServices.openUrl(QUrl(progress.error.page))

"""Models in the window: the dialog, made when it is first opened, and downloads that need none."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.downloads.dependencies import Dependencies
from app.downloads.progress import Progress, State
from app.downloads.queue import DownloadQueue, Journal
from app.engine.interface import Engine
from app.engine.state import EngineState
from app.hub.tokens import Tokens
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.library.download_link import DownloadIndicator, DownloadLink, PairDownloads
from app.library.estimates import TermsMemory, last_load
from app.library.picker.page import Page
from app.library.remote.engines import EngineChoice
from app.settings.store import SettingsFile
from app.system.paths import Folders, is_folder
from app.ui.notices import Notice, Tone
from app.ui.theme import Colors
from app.ui.widgets import adopt
from engine.protocol.messages import Event, Failed
from engine.protocol.options import LoadOptions
from engine.protocol.variants import find_variants

if TYPE_CHECKING:
    from app.library.pairing.suggestions import Suggestion
    from app.library.picker.dialog import ModelsDialog
    from app.library.picker.services import ModelLibrary

READY_NOTICE, PAUSED_NOTICE, DOWNLOAD_NOTICE = "model-ready", "downloads-paused", "download-failed"


class ModelsFeature(QObject):
    """`load_requested` asks for a pair, `notice_raised` tells of what happened while the dialog was closed."""

    load_requested = Signal(LoadOptions)
    cancel_requested = Signal()
    notice_raised = Signal(Notice)

    def __init__(
        self,
        link: Engine,
        settings: SettingsFile,
        folders: Folders,
        colors: Colors,
        front: Callable[[], QWidget],
        engines: EngineChoice,
        dependencies: Dependencies | None = None,
        parent: QObject | None = None,
    ) -> None:
        """`front`: the window that the dialog is opened over."""
        super().__init__(parent)
        self._link, self._settings, self._folders, self._colors, self._front = link, settings, folders, colors, front
        self._engines = engines
        self.tokens = Tokens()  # the hub token, as everything here uses it
        self._state = EngineState()
        self._ready: LoadOptions | None = None
        self._loaded: LoadOptions | None = None
        self._started = False
        self._memory = TermsMemory(settings)
        self._library: ModelLibrary | None = None
        self._dialog: ModelsDialog | None = None
        self.suggested: tuple[Suggestion, ...] | None = None
        queue = DownloadQueue(Journal(folders.downloads_file), dependencies or Dependencies(token=self.tokens.secret))
        self.downloads = DownloadLink(queue, self)
        self.pair_downloads = PairDownloads(self.downloads, self)
        self.downloads.restored.connect(self._offer_to_resume)
        self.downloads.ended.connect(self._on_ended)
        self.pair_downloads.ready.connect(self._on_ready)

    def make_indicator(self, window: QWidget) -> DownloadIndicator:
        """Tells of downloads in the status bar of a window."""
        made = DownloadIndicator(window)
        made.clicked.connect(self._open_downloads)
        self.downloads.changed.connect(made.show_downloads)
        made.show_downloads(self.downloads.downloads)
        return made

    @property
    def is_open(self) -> bool:
        """Whether the dialog is on the screen."""
        return self._dialog is not None and self._dialog.isVisible()

    def on_preferences_changed(self) -> None:
        """Folders and limits may be others now."""
        if self._library is not None:
            self._library.local_models.look()
            self._library.price_again()

    @property
    def dialog(self) -> "ModelsDialog":
        """The dialog; it is made, and its modules are read, when it is first asked for."""
        if self._dialog is None:
            from app.library.picker.dialog import ModelsDialog  # noqa: PLC0415
            from app.library.picker.services import ModelLibrary  # noqa: PLC0415

            self._library = ModelLibrary(
                self._link, self._settings, self._folders, self.tokens, self.suggested, parent=self
            )
            made = ModelsDialog(
                self._library, self.downloads, self._settings, self._colors, self._engines, self._front()
            )
            made.load_requested.connect(self.load_requested)
            made.cancel_requested.connect(self.cancel_requested)
            made.download_requested.connect(self._on_download)
            made.arrived_load_requested.connect(self._on_arrived_load)
            made.show_engine_state(self._state)
            self._show_loaded()
            self._dialog = made
        return self._dialog

    def start(self) -> None:
        """List what earlier sessions have not finished."""
        if not self._started:
            self._started = True
            self.downloads.restore()

    def _open_downloads(self) -> None:
        self.open(Page.DOWNLOADS)

    def open(self, page: Page | None = None) -> None:
        """Show the dialog."""
        adopt(self.dialog, self._front())
        self.dialog.show_page(page)

    def open_with(self, model: Path) -> None:
        """Show a model from anywhere on this computer, a folder or a GGUF file; it is looked for there from now on."""
        self.open(Page.MODELS)
        local, variants = self.dialog.local, find_variants([model.name])
        local.field.setText(variants[0].stem if variants else model.name)
        local.view.expect(str(model))
        local.add_folder(str(model if is_folder(model) else model.parent))

    def leave(self, window: QWidget) -> None:
        """A window goes, and the dialog with it if it is open there; it may be opened over another one."""
        if self._dialog is not None and self._dialog.parentWidget() is window:
            self._dialog.hide()
            adopt(self._dialog, self._front())

    def close(self) -> None:
        """Pause what is going on and end the threads, for the end of the application; takes a moment."""
        if self._library is not None:
            self._library.close()
        self.downloads.close()

    def load_ready(self) -> None:
        """Load the pair that a notice told of."""
        if self._ready is not None:
            self.load_requested.emit(self._ready)

    def resume_paused(self) -> None:
        """Go on with everything that earlier sessions have left."""
        for each in self.downloads.downloads:
            if each.state is State.PAUSED:
                self.downloads.resume(each.id)

    def on_events(self, events: list[Event]) -> None:
        """What the engine says."""
        if self._library is not None:
            self._library.on_events(events)

    def on_engine_stopped(self) -> None:
        """Estimates wait for the next engine."""
        if self._library is not None:
            self._library.on_engine_stopped()

    def show_engine_state(self, state: EngineState) -> None:
        """Follow the engine."""
        self._state = state
        if self._dialog is not None:
            self._dialog.show_engine_state(state)
        self._show_loaded()

    def on_pair_loaded(self, options: LoadOptions) -> None:
        """Remember how it was loaded."""
        self._memory.keep_loaded(options)
        self._loaded = options
        if self._dialog is not None:
            self._dialog.on_pair_loaded()
        self._show_loaded()

    def _show_loaded(self) -> None:
        pair, loaded = self._state.pair, self._loaded
        is_there = self._state.ready and pair is not None and loaded is not None and pair.target.source == loaded.target
        if self._library is not None:
            self._library.pair_choice.show_loaded(loaded if is_there else None)

    def on_load_failed(self, failed: Failed) -> None:
        """Say why in the dialog, which is open."""
        self.dialog.on_load_failed(failed)

    def set_theme(self, colors: Colors) -> None:
        """Paint in these colours."""
        self._colors = colors
        if self._dialog is not None:
            self._dialog.set_theme(colors)

    def _on_download(self, repos: tuple[str, ...], options: LoadOptions) -> None:
        self._memory.keep(options)
        self.pair_downloads.get(repos, options)

    def _on_ready(self, options: LoadOptions) -> None:
        """A pair is complete: load it where the dialog is open, else offer it in a notice."""
        if self.is_open:
            self.dialog.load_requested.emit(options)
        else:
            self._ready = options
            words = tr("{model} has been downloaded.").format(model=options.target)
            self.notice_raised.emit(
                Notice(READY_NOTICE, words, action=tr("Load"), tone=Tone.HINT, on_action=self.load_ready)
            )

    def _on_arrived_load(self, repo: str) -> None:
        """A model from the list of downloads, as it was loaded last, or as its pair was ordered."""
        options = last_load(self._settings.current, LoadOptions(repo, self._memory.draft(repo) or "none"))
        self.load_requested.emit(options)

    def _on_ended(self, progress: Progress) -> None:
        if progress.state in (State.FAILED, State.PAUSED) and not self.is_open:
            words = tr("The download of {model} has stopped: {reason}").format(
                model=progress.request.source, reason=translated(progress.message)
            )
            self.notice_raised.emit(
                Notice(DOWNLOAD_NOTICE, words, progress.hint, tr("Downloads…"), on_action=self._open_downloads)
            )

    def _offer_to_resume(self, downloads: tuple[Progress, ...]) -> None:
        """Once, at the start."""
        rest = (each for each in downloads if each.state is State.PAUSED and not each.message)
        names = [each.request.source for each in rest]
        if names:
            words = tr("Not finished the last time: the download of {models}.").format(models=", ".join(names))
            self.notice_raised.emit(
                Notice(PAUSED_NOTICE, words, action=tr("Resume"), tone=Tone.HINT, on_action=self.resume_paused)
            )

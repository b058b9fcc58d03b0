"""The models on this computer: loaded, verified, deleted with a way back; and the folders they are looked for in."""

from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QLineEdit, QMenu, QMessageBox, QPushButton, QStackedWidget, QWidget

from app.i18n.number_text import share_text, size_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.estimates import TermsMemory
from app.library.local.local_models import LocalModels
from app.library.local.models import Home
from app.library.local.removal import Removed
from app.library.local.verification import Verifying
from app.library.picker.entry import Entry, Filter, demo_entry, local_entry, prepared_entry
from app.library.picker.entry_list import EntryList
from app.library.picker.entry_view import EntryView
from app.settings.store import SettingsFile
from app.ui.file_dialogs import ask_for_folder
from app.ui.flow_layout import flow_of
from app.ui.notices import Notice, NoticeStack, Tone
from app.ui.theme import Colors
from app.ui.widgets import fill, label, offer, row_of
from engine.errors import CoppiceError
from engine.protocol.variants import split_source

_VERIFY = mark("Read all files again and compare them with the checksums that they came with")
UNDO, DAMAGED, STOP, SAID = "undo", "damaged", "verifying", "said"


class LocalPage(QWidget):
    """`repair_requested` carries the name of a model of the hub whose damaged files have been removed."""

    repair_requested = Signal(str)

    def __init__(
        self, local_models: LocalModels, settings: SettingsFile, colors: Colors, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._local_models, self._settings = local_models, settings
        self._memory = TermsMemory(settings)
        self._in_use: frozenset[str] = frozenset()
        self._downloading: frozenset[str] = frozenset()
        self._verifying: Entry | None = None
        self.field = QLineEdit(self, placeholderText=tr("Filter models on this computer"), clearButtonEnabled=True)
        self.field.setAccessibleName(tr("Filter models on this computer"))
        self.folders = QPushButton(tr("Folders"), self)
        self.folders.setToolTip(tr("Folders in which models are looked for, beside the hub's cache"))
        self.menu = QMenu(self.folders)
        self.folders.setMenu(self.menu)
        self.notices = NoticeStack(self)
        self.entries = EntryList(self)
        self.view = EntryView(self.entries, colors, tr("Models on this computer"), self)
        self.empty = label("quiet-text", "", self)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.open = QPushButton(tr("Open folder"), self)
        self.verify = QPushButton(tr("Verify"), self)
        self.delete = QPushButton(tr("Delete…"), self)
        self._lay_out()
        self._connect()
        self._show_models()

    def _lay_out(self) -> None:
        top = row_of((self.field, self.folders), 8, wide=self.field)
        for button in (self.open, self.verify, self.delete, self.folders):
            button.setAutoDefault(False)
        buttons = flow_of((self.open, self.verify, self.delete), 6, self)
        self.stack = QStackedWidget(self)
        self.stack.addWidget(self.view)
        self.stack.addWidget(self.empty)
        fill(self, (top, self.notices, self.stack, buttons), 8, 14, 14, 8, 14, high=self.stack)

    def _connect(self) -> None:
        local_models = self._local_models
        self.field.textChanged.connect(self._on_filter)
        self.field.returnPressed.connect(self.view.setFocus)
        self.view.typed.connect(self._on_typed)
        self.view.chosen.connect(self._on_chosen)
        self.view.delete_requested.connect(self.ask_to_delete)
        self.menu.aboutToShow.connect(self.fill_menu)
        self.open.clicked.connect(self._on_open)
        self.verify.clicked.connect(self._on_verify)
        self.delete.clicked.connect(self._on_delete)
        local_models.changed.connect(lambda _found: self._show_models())
        local_models.removed.connect(self._on_removed)
        local_models.failed.connect(self._on_failed)
        local_models.verifying.connect(self._on_verifying)
        local_models.verified.connect(self._on_verified)
        local_models.verification_failed.connect(self._on_verification_failed)

    def show_in_use(self, sources: frozenset[str]) -> None:
        """These are loaded: they are not deleted."""
        self._in_use = sources
        self.entries.set_badges(dict.fromkeys(sources, tr("Loaded")))
        self._on_chosen(self.view.current)

    def show_downloading(self, repos: frozenset[str]) -> None:
        """These are being downloaded: they are not deleted either."""
        if repos != self._downloading:
            self._downloading = repos
            self._on_chosen(self.view.current)

    def fill_menu(self) -> None:
        """The folders, each to be taken off the list; nothing is deleted by that."""
        self.menu.clear()
        self.menu.addAction(tr("Add a folder…"), self._on_add_folder)
        if self._settings.current.model_folders:
            self.menu.addSeparator()
        for folder in self._settings.current.model_folders:
            action = self.menu.addAction(tr("Take {folder} off the list").format(folder=folder))
            action.triggered.connect(partial(self.remove_folder, folder))

    def add_folder(self, folder: str) -> None:
        """Look for models there too."""
        path = str(Path(folder).absolute())
        others = [each for each in self._settings.current.model_folders if each != path]
        self._settings.change(model_folders=(*others, path))
        self._local_models.look()

    def remove_folder(self, folder: str) -> None:
        """Do not look there any more."""
        left = tuple(each for each in self._settings.current.model_folders if each != folder)
        self._settings.change(model_folders=left)
        self._local_models.look()

    def ask_to_delete(self, entry: Entry) -> None:
        """Say what is freed, and ask."""
        if not entry.can_be_deleted or self._why_it_stays(entry):
            return
        box = QMessageBox(self)
        box.setIcon(QMessageBox.Icon.Question)
        box.setText(tr("Delete {name}?").format(name=entry.name))
        is_ours = entry.local is not None and entry.local.home is Home.FOLDER
        box.setInformativeText(
            (
                tr("That frees {size}. It goes to the trash when this dialog is closed; until then it can be put back.")
                if is_ours
                else tr(
                    "That frees {size}. It is deleted for good when this dialog is closed; "
                    "until then it can be put back."
                )
            ).format(size=size_text(entry.bytes))
        )
        button = box.addButton(tr("Delete"), QMessageBox.ButtonRole.AcceptRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(QMessageBox.StandardButton.Cancel)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        button.clicked.connect(lambda: self._delete(entry))
        box.open()

    def _delete(self, entry: Entry) -> None:
        if entry.local is not None:
            local = entry.local
            self._local_models.remove(entry.name, local.root, local.home is Home.FOLDER, local.parts)
        elif entry.prepared is not None:
            self._local_models.remove(entry.name, entry.prepared.folder, False)

    def _show_models(self) -> None:
        found = self._local_models.found
        used = {each.source: self._memory.used_at(each.names) for each in found.models}
        models = sorted(found.models, key=lambda each: (-used[each.source], -each.changed))
        here = (local_entry(each, used[each.source]) for each in models)
        self.entries.replace([demo_entry(), *here, *map(prepared_entry, found.prepared)])
        self._show_emptiness()

    def _show_emptiness(self) -> None:
        self.empty.setText("" if self.entries.rowCount() else tr("No model on this computer has that in its name."))
        self.stack.setCurrentWidget(self.view if self.entries.rowCount() else self.empty)

    def _on_filter(self, words: str) -> None:
        self.entries.set_filter(Filter(words))
        self._show_emptiness()

    def _on_typed(self, text: str) -> None:
        self.field.setFocus()
        self.field.insert(text)

    def _on_chosen(self, entry: Entry | None) -> None:
        has_files = entry is not None and (entry.local is not None or entry.prepared is not None)
        why = "" if entry is None else self._why_it_stays(entry)
        lacks = tr("Choose a model first.") if entry is None else "" if has_files else tr("It comes with Coppice.")
        offer(self.open, tr("Show its files"), lacks)
        busy = tr("{name} is being verified.").format(name=self._verifying.name) if self._verifying else ""
        offer(self.verify, tr(_VERIFY), lacks or busy)
        offer(self.delete, tr("Delete its files"), lacks or why)

    def _is_in_use(self, entry: Entry) -> bool:
        """Whether it is loaded under any of its names, or a copy of it, or what it was made from."""
        names = entry.local.names if entry.local is not None else frozenset({entry.source})
        same = (each.names for each in self._local_models.found.models if not names.isdisjoint(each.names))
        return not self._in_use.isdisjoint(names.union(*same))

    def _on_add_folder(self) -> None:
        if folder := ask_for_folder(self, tr("A folder that holds models")):
            self.add_folder(folder)

    def _on_delete(self) -> None:
        if (entry := self.view.current) is not None:
            self.ask_to_delete(entry)

    def _on_open(self) -> None:
        entry = self.view.current
        if entry is not None and (what := entry.local or entry.prepared):
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(what.folder)))

    def _on_verify(self) -> None:
        entry = self.view.current
        if entry is not None and (what := entry.local or entry.prepared):
            self._verifying = entry
            self.notices.dismiss(DAMAGED)
            self._on_verifying(entry.key, Verifying(0, 0))
            self._on_chosen(entry)
            self._local_models.verify(entry.key, what)

    def _on_verifying(self, key: str, now: Verifying) -> None:
        if self._verifying is None or self._verifying.key != key:
            return
        share = share_text(now.done_bytes / now.total_bytes) if now.total_bytes else tr("begins")
        words = tr("Verifying {name}: {share}, {size} read.").format(
            name=self._verifying.name, share=share, size=size_text(now.done_bytes)
        )
        self.notices.add(Notice(STOP, words, action=tr("Stop"), tone=Tone.HINT, on_action=self._stop_verifying))

    def _on_verified(self, key: str, result: Verifying) -> None:
        entry = self._end_verifying()
        if entry is None or entry.key != key:
            return
        if not result.damaged:
            self.notices.add(Notice(SAID, _all_is_well(entry, result), tone=Tone.HINT))
            return
        names = ", ".join(result.damaged[:3])
        names = tr("{names} and more").format(names=names) if len(result.damaged) > 3 else names
        cached = entry.local is not None and entry.local.home is Home.HUB_CACHE
        action, hint = (tr("Download again"), "") if cached else ("", tr("Get it again from where it came."))
        words = tr("{name} is damaged: {names}.").format(name=entry.name, names=names)
        repair = partial(self._repair, entry, result.damaged)
        self.notices.add(Notice(DAMAGED, words, hint, action, on_action=repair))

    def _on_verification_failed(self, _key: str, error: CoppiceError) -> None:
        self._end_verifying()
        self._on_failed(error)

    def _end_verifying(self) -> Entry | None:
        """Let another model be verified; returns the one that was."""
        entry, self._verifying = self._verifying, None
        self.notices.dismiss(STOP)
        self._on_chosen(self.view.current)
        return entry

    def _on_removed(self, name: str, removed: Removed) -> None:
        words = tr("{name} was deleted; {size} are free when this dialog is closed.").format(
            name=name, size=size_text(removed.bytes)
        )
        undo = partial(self._local_models.undo, removed)
        self.notices.add(Notice(UNDO, words, action=tr("Undo"), tone=Tone.HINT, on_action=undo))

    def _on_failed(self, error: CoppiceError) -> None:
        self.notices.add(Notice(SAID, error.message, error.hint))

    def _stop_verifying(self) -> None:
        if self._verifying is not None:
            self._local_models.stop_verifying(self._verifying.key)
            self._end_verifying()

    def _repair(self, entry: Entry, damaged: tuple[str, ...]) -> None:
        """Delete the damaged files, and ask for them again."""
        assert entry.local is not None
        job = self._local_models.discard_damaged(entry.local, damaged)
        job.done.connect(lambda _done: self.repair_requested.emit(entry.source))
        job.failed.connect(self._on_failed)

    def _why_it_stays(self, entry: Entry) -> str:
        """Why a model is not deleted here; empty for one that can be, and for what is no model of the person's."""
        if entry.local is not None and entry.local.home.is_of_another_app:
            app = entry.local.home.value
            return tr("It belongs to {app}, which shares it with Coppice: delete it there.").format(app=app)
        if entry.can_be_deleted and self._is_in_use(entry):
            return tr("It is loaded")
        is_cached = entry.local is not None and entry.local.home is Home.HUB_CACHE
        return tr("It is being downloaded") if is_cached and split_source(entry.source)[0] in self._downloading else ""


def _all_is_well(entry: Entry, result: Verifying) -> str:
    if not result.total_bytes:
        return tr("{name} has no checksums to compare with: only what came from the hub can be verified.").format(
            name=entry.name
        )
    well = tr("{name} is as it was downloaded: {size} verified.")
    words = well.format(name=entry.name, size=size_text(result.total_bytes))
    unknown = tr("{count} files have no checksum.").format(count=result.unknown) if result.unknown else ""
    return f"{words} {unknown}".strip()

"""Connects the list of conversations, their database, export and import, and the notices about them."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QDateTime, QLocale, QObject, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFileDialog, QWidget

from app.chat.archive.autosave import Autosave
from app.chat.archive.formats import FORMATS, export_filters, import_patterns
from app.chat.archive.importing import Imported
from app.chat.archive.round_autosave import RoundAutosave
from app.chat.archive.worker import Archive
from app.chat.generation.controller import ChatController
from app.chat.history.records import ConversationRecord, SearchHit
from app.chat.sidebar.panel import ConversationsPanel
from app.i18n.number_text import Number, share_text
from app.i18n.translation import tr
from app.ui.actions import Actions
from app.ui.notices import Notice, Tone
from app.ui.theme import Colors
from app.ui.widgets import ask_where

DELETED_NOTICE = "conversation-deleted"
SAVING_NOTICE = "conversations-not-saved"
SET_ASIDE_NOTICE = "conversations-set-aside"
EXCHANGE_NOTICE = "conversation-exchange"

IMPORT_NOTICE = "conversation-import"

_MOST_NAMED = 3  # files that an import could not read


class Conversations(QObject):
    """Connects the list, the autosave and the archive; the window gives `panel` a place."""

    deleted = Signal(object)  # id of a conversation that was taken out of the list; it may be brought back
    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)

    def __init__(self, chat: ChatController, file: Path, colors: Colors, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._chat = chat
        self._deleted: list[ConversationRecord] = []
        self._importing = 0  # number of the import that was asked for, or told of, last
        self.archive = Archive(file, self)
        self.autosave = Autosave(chat, self.archive, self)
        self.rounds = RoundAutosave(chat, self.archive, self.autosave, self)
        self.panel = ConversationsPanel(colors, parent)
        self._connect()

    def _connect(self) -> None:
        autosave, archive, panel = self.autosave, self.archive, self.panel
        autosave.conversations_changed.connect(panel.show_conversations)
        autosave.current_changed.connect(panel.show_current)
        panel.show_current(autosave.current)
        archive.found.connect(self._on_found)
        archive.exported.connect(self._on_exported)
        archive.export_failed.connect(self._on_export_failed)
        archive.import_progressed.connect(self._on_import_progressed)
        archive.imported.connect(self._on_imported)
        archive.set_aside.connect(self._on_set_aside)
        archive.write_failed.connect(lambda words: self.notice_raised.emit(Notice(SAVING_NOTICE, words)))
        archive.write_recovered.connect(lambda: self.notice_withdrawn.emit(SAVING_NOTICE))
        panel.opened.connect(autosave.open)
        panel.renamed.connect(autosave.rename)
        panel.pinned.connect(autosave.pin)
        panel.moved.connect(autosave.move)
        panel.duplicated.connect(autosave.duplicate)
        panel.deleted.connect(self.delete)
        panel.exported.connect(self.export)
        panel.search_requested.connect(archive.search)

    def connect_actions(self, actions: Actions) -> None:
        """Have the window's actions do what they say, with what is chosen in the list or else with what is shown."""
        autosave, panel = self.autosave, self.panel
        actions.import_chats.triggered.connect(self.import_files)
        with_one: dict[QAction, Callable[[int], None]] = {
            actions.export_chat: self.export,
            actions.duplicate_chat: autosave.duplicate,
            actions.delete_chat: self.delete,
            actions.rename_chat: panel.begin_rename,
            actions.move_chat: panel.ask_folder,
            actions.pin_chat: self._change_pin,
        }
        for action, act in with_one.items():
            action.triggered.connect(lambda _checked, act=act: act(self.chosen))

        def show_what_can_be_done() -> None:
            for action in with_one:
                action.setEnabled(autosave.record(self.chosen) is not None)

        for changed in (autosave.conversations_changed, autosave.current_changed, panel.choice_changed):
            changed.connect(show_what_can_be_done)
        show_what_can_be_done()

    @property
    def chosen(self) -> int:
        """The conversation that actions are for."""
        return self.panel.chosen or self.autosave.current

    def start(self) -> None:
        """Open the file and fill the list."""
        if not self.archive.isRunning():
            self.archive.start()
            self.archive.list_all()

    def close(self) -> None:
        """Write what is new and end the thread; returns when that is done."""
        self.autosave.save()
        if self.archive.isRunning():
            self.archive.close()
            self.archive.wait()

    def delete(self, conversation: int) -> None:
        """Take a conversation out of the list, with a way back."""
        record = self.autosave.record(conversation)
        if record is not None:
            self._deleted.append(record)
            self.autosave.delete(conversation)
            self.deleted.emit(conversation)
            self._offer_undo()

    def undo_delete(self) -> None:
        """Bring back what was deleted last; then what was deleted before it can be brought back."""
        if self._deleted:
            self.autosave.restore(self._deleted.pop())
            self._offer_undo()

    def _offer_undo(self) -> None:
        if self._deleted:
            words = tr("Deleted “{title}”.").format(title=self._deleted[-1].shown_title)
            self.notice_raised.emit(
                Notice(DELETED_NOTICE, words, action=tr("Undo"), tone=Tone.HINT, on_action=self.undo_delete)
            )

    def export(self, conversation: int) -> None:
        """Ask for a file, and write the path that was last shown into it."""
        record = self.autosave.record(conversation)
        if record is None:
            return
        start = "".join(each if each.isalnum() or each in " -_" else "_" for each in record.shown_title).strip()
        path = ask_where(self._window, tr("Export conversation"), f"{start}{FORMATS[0].suffixes[0]}", export_filters())
        if path:
            self.autosave.save()
            self.archive.export(self.autosave.record(conversation) or record, path)

    def import_files(self) -> None:
        """Ask for files, and add what they hold to the list."""
        paths, _ = QFileDialog.getOpenFileNames(
            self._window,
            tr("Import conversations"),
            "",
            tr("Conversations ({patterns})").format(patterns=import_patterns()),
        )
        if paths:
            self._importing = self.archive.import_files([Path(path) for path in paths], self._chat.beginning)

    def stop_import(self) -> None:
        """Import no more; what was imported so far stays."""
        self.archive.stop_import(self._importing)

    def _change_pin(self, conversation: int) -> None:
        if record := self.autosave.record(conversation):
            self.autosave.pin(conversation, not record.is_pinned)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _on_import_progressed(self, number: int, so_far: Imported) -> None:
        self._importing = number
        words = tr("Importing {name}: {share} read, conversations so far: {count}.").format(
            name=so_far.name, share=share_text(so_far.share), count=f"{Number(so_far.count):,}"
        )
        self.notice_raised.emit(
            Notice(IMPORT_NOTICE, words, action=tr("Stop"), tone=Tone.HINT, on_action=self.stop_import)
        )

    def _on_imported(self, _number: int, result: Imported, records: list[ConversationRecord]) -> None:
        self.notice_withdrawn.emit(IMPORT_NOTICE)
        self.autosave.take_in(records)
        if result.is_stopped or result.problems or len(records) > 1:
            self.notice_raised.emit(_import_notice(result))

    def _on_found(self, _number: int, hits: list[SearchHit]) -> None:
        self.panel.show_found(hits)

    def _on_exported(self, path: Path) -> None:
        words = tr("Exported to {path}.").format(path=path)
        self.notice_raised.emit(Notice(EXCHANGE_NOTICE, words, tone=Tone.HINT))

    def _on_export_failed(self, path: Path, reason: str) -> None:
        words = tr("{path} could not be written: {reason}.").format(path=path, reason=reason)
        self.notice_raised.emit(Notice(EXCHANGE_NOTICE, words))

    def _on_set_aside(self, place: str, reason: str, until: float) -> None:
        words = tr("The file of your conversations could not be used: {reason}. A new one was begun.").format(
            reason=reason
        )
        hint = tr("The old file is kept as {place}.").format(place=place)
        if until:
            day = QLocale().toString(QDateTime.fromSecsSinceEpoch(int(until)).date(), QLocale.FormatType.LongFormat)
            hint += " " + tr("It is removed after {day}; copy it elsewhere to keep it.").format(day=day)
        self.notice_raised.emit(Notice(SET_ASIDE_NOTICE, words, hint))


def _import_notice(result: Imported) -> Notice:
    """What came of an import."""
    count = f"{Number(result.count):,}"
    if not result.count and result.problems and not result.is_stopped:
        (name, reason), *_ = result.problems
        return Notice(EXCHANGE_NOTICE, tr("{name} could not be imported.").format(name=name), reason)
    words = tr("The import was stopped.") + " " if result.is_stopped else ""
    words += tr("Conversations imported: {count}.").format(count=count)
    if not result.problems:
        return Notice(EXCHANGE_NOTICE, words, tone=Tone.HINT)
    hints = [f"{name}: {reason}" for name, reason in result.problems[:_MOST_NAMED]]
    if result.unusable:
        hints.append(tr("Entries that are no conversations: {count}.").format(count=f"{Number(result.unusable):,}"))
    return Notice(EXCHANGE_NOTICE, words, " ".join(hints))

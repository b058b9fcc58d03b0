"""Connects the list of conversations, their database, export and import, and the notices about them."""

import math
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QDate, QDateTime, QLocale, QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import QWidget

from app.chat.archive.autosave import Autosave
from app.chat.archive.chat_list import ChatList
from app.chat.archive.round_autosave import RoundAutosave
from app.chat.archive.unsent_texts import UnsentAutosave
from app.chat.composer.composer import Composer
from app.chat.generation.controller import ChatController
from app.chat.history.conversation import Removal
from app.chat.history.records import ConversationRecord, SearchHit
from app.chat.sidebar.panel import ConversationsPanel
from app.chat.view.conversation_view import ConversationView
from app.i18n.number_text import Number, share_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.paths import is_folder
from app.ui.actions import EMPTY, Actions, CommandAction
from app.ui.file_dialogs import ask_for_files, ask_for_folder, ask_where
from app.ui.notices import Notice, Tone
from app.ui.theme import Colors

if TYPE_CHECKING:
    from app.chat.archive.exchange.exporting import Exported
    from app.chat.archive.exchange.importing import Imported
    from app.chat.sidebar.deleted_dialog import DeletedDialog

DELETED_NOTICE = "conversation-deleted"
FOLDER_NOTICE = "folder-removed"
REMOVED_NOTICE = "message-deleted"
SAVING_NOTICE = "conversations-not-saved"
SET_ASIDE_NOTICE = "conversations-set-aside"
EXCHANGE_NOTICE = "conversation-exchange"
IMPORT_NOTICE = "conversation-import"
EXPORT_NOTICE = "conversations-export"
OPENING_NOTICE = "conversation-opening"

_ELSEWHERE = mark("Choose another place, or make room there.")
_MOST_NAMED = 3  # files that an import could not read, or chats that an export could not
_QUIET_SECONDS = 1.0  # of an export, or until a chat is open, before it is told


class Conversations(QObject):
    """Connects a window's list and autosave with what all windows share; the window gives `panel` a place."""

    deleted = Signal(object)  # id of a conversation that was taken out of the list; it may be brought back
    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)
    window_wanted = Signal(object)  # another window for this conversation
    hit_wanted = Signal(object, str, object)  # a conversation that is shown here, or will be; words in it; a message

    def __init__(self, chat: ChatController, chats: ChatList, colors: Colors, parent: QWidget, number: int = 1) -> None:
        """`number`: of the window, by which it searches."""
        super().__init__(parent)
        self._window = parent
        self._chat = chat
        self._deleted: list[ConversationRecord] = []
        self._removals: list[Removal] = []  # of messages of the conversation that is shown
        self._number = number
        self._opening = 0  # the conversation that is awaited
        self._search = 0  # number of the search that was asked for last
        self._imports: list[int] = []  # numbers of those that were asked for here, the one that was told of last behind
        self._exports: list[Path] = []
        self._exports_of_all: dict[int, float] = {}  # when each began, by its number
        self.chats, self.archive = chats, chats.archive
        self.autosave = Autosave(chat, chats, self)
        self.rounds = RoundAutosave(chat, self.archive, self.autosave, self)
        self.unsent: UnsentAutosave | None = None
        self._slow = QTimer(self, singleShot=True, interval=int(_QUIET_SECONDS * 1000))
        self.panel = ConversationsPanel(colors, parent)
        self._connect()

    def _connect(self) -> None:
        autosave, archive, panel = self.autosave, self.archive, self.panel
        autosave.conversations_changed.connect(panel.show_conversations)
        autosave.conversations_changed.connect(self._on_conversations_changed)
        archive.deleted_listed.connect(panel.offer_deleted)
        archive.list_deleted()
        panel.deleted_wanted.connect(self.show_deleted)
        autosave.current_changed.connect(panel.show_current)
        autosave.opening_changed.connect(self._on_opening_changed)
        self._slow.timeout.connect(self._tell_of_opening)
        panel.show_conversations(self.chats.records)
        panel.show_current(autosave.current)
        archive.found.connect(self._on_found)
        archive.exported.connect(self._on_exported)
        archive.export_failed.connect(self._on_export_failed)
        archive.export_progressed.connect(self._on_export_progressed)
        archive.all_exported.connect(self._on_all_exported)
        archive.import_progressed.connect(self._on_import_progressed)
        archive.imported.connect(self._on_imported)
        archive.set_aside.connect(self._on_set_aside)
        archive.write_failed.connect(self._on_write_failed)
        archive.write_recovered.connect(self._on_write_recovered)
        self.chats.hit_opened.connect(self._on_hit_elsewhere)
        self.chats.erased.connect(self._offer_no_more)
        panel.hit_opened.connect(self._on_hit_opened)
        panel.opened.connect(autosave.open)
        panel.renamed.connect(autosave.rename)
        panel.pinned.connect(autosave.pin)
        panel.moved.connect(autosave.move)
        panel.folder_renamed.connect(self._on_folder_renamed)
        panel.duplicated.connect(autosave.duplicate)
        panel.deleted.connect(self.delete)
        panel.exported.connect(self.export)
        panel.window_wanted.connect(self.window_wanted)
        panel.search_requested.connect(self._on_search_requested)
        self._chat.removed.connect(self._on_removed)
        self._chat.conversation_replaced.connect(self._forget_removals)

    def connect_actions(self, actions: Actions) -> None:
        """Have the window's actions do what they say, with what is chosen in the list or else with what is shown."""
        autosave, panel = self.autosave, self.panel
        actions.import_chats.triggered.connect(self.import_files)
        actions.import_folder.triggered.connect(self.import_folder)
        actions.export_all.triggered.connect(self.export_all)
        actions.deleted_chats.triggered.connect(self.show_deleted)
        with_one: dict[CommandAction, Callable[[int], None]] = {
            actions.export_chat: self.export,
            actions.duplicate_chat: autosave.duplicate,
            actions.delete_chat: self.delete,
            actions.rename_chat: panel.begin_rename,
            actions.move_chat: panel.ask_folder,
            actions.pin_chat: self._change_pin,
            actions.open_in_window: self.window_wanted.emit,
        }
        for action, act in with_one.items():
            action.triggered.connect(lambda _checked, act=act: act(self.chosen))

        def show_what_can_be_done() -> None:
            lacks = tr(EMPTY) if autosave.record(self.chosen) is None else ""
            for action in with_one:
                action.offer(lacks)
            if self.chosen == autosave.current and not lacks:
                actions.open_in_window.offer(tr("This chat is shown in this window."))
            actions.export_all.offer("" if autosave.records else tr("There is no chat yet."))

        for changed in (autosave.conversations_changed, autosave.current_changed, panel.choice_changed):
            changed.connect(show_what_can_be_done)
        show_what_can_be_done()

    @property
    def chosen(self) -> int:
        """The conversation that actions are for."""
        return self.panel.chosen or self.autosave.current

    def keep_unsent(self, composer: Composer, view: ConversationView) -> None:
        """Have what is written there and not sent, edits of messages too, belong to its conversation.

        Before the view is told of conversations, so that it shows their edits at once.
        """
        self.unsent = UnsentAutosave(self._chat, self.chats.unsent_texts, composer, view.edits, self)
        self.unsent.edits_arrived.connect(view.open_begun_editors)

    def save(self) -> None:
        """Write what is new, now."""
        self.autosave.save()
        if self.unsent is not None:
            self.unsent.save()

    def leave(self) -> None:
        """The window goes: write what is new."""
        if self.unsent is not None:
            self.unsent.leave()
        self.autosave.leave()

    def delete(self, conversation: int) -> None:
        """Take a conversation out of the list, with a way back."""
        record = self.autosave.record(conversation)
        if record is not None:
            self.autosave.delete(conversation)
            self._deleted.append(record)
            self.deleted.emit(conversation)
            self._offer_undo()

    def branch(self, message: int) -> None:
        """Add a copy of the conversation that is shown, up to this message, to the list, and show it."""
        self.autosave.duplicate(self.autosave.current, message)

    def undo_delete(self) -> None:
        """Bring back what was deleted last; then what was deleted before it can be brought back."""
        if self._deleted:
            self.autosave.restore(self._deleted.pop())
            self._offer_undo()

    def show_deleted(self) -> None:
        """Show what was deleted in the last days, to bring it back."""
        self.deleted_dialog.open()
        self.archive.list_deleted()

    @cached_property
    def deleted_dialog(self) -> "DeletedDialog":
        """Made when it is first asked for."""
        from app.chat.sidebar.deleted_dialog import DeletedDialog  # noqa: PLC0415

        made = DeletedDialog(self._window)
        self.archive.deleted_listed.connect(made.show_deleted)
        made.restored.connect(lambda records: self.autosave.restore(*records))
        made.erased.connect(self.chats.erase)
        return made

    def _on_conversations_changed(self, *_: object) -> None:
        """What was brought back in another way needs no offer any more."""
        self._offer_no_more({each.id for each in self._deleted if self.autosave.record(each.id)})

    def _offer_no_more(self, conversations: AbstractSet[int]) -> None:
        """Take back the offer to bring these back."""
        left = [each for each in self._deleted if each.id not in conversations]
        if len(left) < len(self._deleted):
            self._deleted = left
            self.notice_withdrawn.emit(DELETED_NOTICE)

    def _offer_undo(self) -> None:
        if self._deleted:
            words = tr("Deleted “{title}”.").format(title=self._deleted[-1].shown_title.rstrip("."))
            self.notice_raised.emit(
                Notice(DELETED_NOTICE, words, action=tr("Undo"), tone=Tone.HINT, on_action=self.undo_delete)
            )

    def _on_folder_renamed(self, folder: str, name: str) -> None:
        """Chats of a folder that goes stay, also in another one, and a click brings it back."""
        inside = [each.id for each in self.chats.records if each.folder == folder]
        is_there = any(each.folder == name for each in self.chats.records)
        self.autosave.move_all(inside, name)
        if not name:
            words = tr("The folder “{folder}” is gone, its chats are still there.").format(folder=folder)
        elif is_there:
            words = tr("The chats of “{folder}” are in “{other}” now.").format(folder=folder, other=name)
        else:
            return
        undo = partial(self._bring_back, inside, folder)
        self.notice_raised.emit(Notice(FOLDER_NOTICE, words, action=tr("Undo"), tone=Tone.HINT, on_action=undo))

    def _bring_back(self, conversations: Sequence[int], folder: str) -> None:
        self.notice_withdrawn.emit(FOLDER_NOTICE)
        self.autosave.move_all(conversations, folder)

    def undo_removal(self) -> None:
        """The same for messages of the conversation that is shown; not while an answer is written."""
        if self._removals and not self._chat.is_answering:
            self._chat.undo_delete(self._removals.pop())
        self._offer_to_restore()

    def _on_removed(self, removal: Removal) -> None:
        self._removals.append(removal)
        self._offer_to_restore()

    def _offer_to_restore(self) -> None:
        if self._removals:
            words, undo = tr("The message was deleted."), self.undo_removal
            if len(self._removals[-1].messages) > 1:
                words = tr("Question and answer were deleted.")
            self.notice_raised.emit(Notice(REMOVED_NOTICE, words, action=tr("Undo"), tone=Tone.HINT, on_action=undo))

    def _forget_removals(self, *_: object) -> None:
        self._removals.clear()
        self.notice_withdrawn.emit(REMOVED_NOTICE)

    def export(self, conversation: int) -> None:
        """Ask for a file, and write the chat into it: as Markdown the path that was last shown, else all versions."""
        from app.chat.archive.exchange.formats import FORMATS, export_filters, file_name  # noqa: PLC0415

        record = self.autosave.record(conversation)
        if record is None:
            return
        start = f"{file_name(record.shown_title)}{FORMATS[0].suffixes[0]}"
        path = ask_where(self._window, tr("Export chat"), start, export_filters())
        if path:
            self.notice_withdrawn.emit(EXCHANGE_NOTICE)
            self.chats.flush_wanted.emit(conversation)
            self._exports.append(path)
            self.archive.export(self.autosave.record(conversation) or record, path)

    def export_all(self) -> None:
        """Ask for a file, and write every chat of the list into it, with all versions."""
        from app.chat.archive.exchange.formats import JSON  # noqa: PLC0415

        start = f"Coppice chats {QDate.currentDate().toString(Qt.DateFormat.ISODate)}{JSON.suffixes[0]}"
        if path := ask_where(self._window, tr("Export all chats"), start, {JSON.kind: JSON.suffixes[0]}):
            self.notice_withdrawn.emit(EXCHANGE_NOTICE)
            for each in self.autosave.records:
                self.chats.flush_wanted.emit(each.id)
            number = self.archive.export_all(self.autosave.records, path)
            self._exports_of_all[number] = time.monotonic()

    def import_files(self) -> None:
        """Ask for files, and add what they hold to the list."""
        from app.chat.archive.exchange.formats import import_patterns  # noqa: PLC0415

        kinds = tr("Conversations ({patterns})").format(patterns=import_patterns())
        if paths := ask_for_files(self._window, tr("Import chats"), kinds):
            self._import(paths)

    def import_folder(self) -> None:
        """The same for everything in a folder; the one of LM Studio is offered, where that is used."""
        from app.chat.archive.exchange.lm_studio import place  # noqa: PLC0415

        start = str(place()) if is_folder(place()) else ""
        if folder := ask_for_folder(self._window, tr("Import folder of chats"), start):
            self._import([Path(folder)])

    def stop_import(self) -> None:
        """Import no more; what was imported so far stays."""
        if self._imports:
            self.archive.stop_order(self._imports[-1])

    def _change_pin(self, conversation: int) -> None:
        if record := self.autosave.record(conversation):
            self.autosave.pin(conversation, not record.is_pinned)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _import(self, paths: Sequence[Path]) -> None:
        """What became of the last import or export is no longer of interest: one chat is shown, and nothing said."""
        self.notice_withdrawn.emit(EXCHANGE_NOTICE)
        self._imports.append(self.archive.import_files(paths, self._chat.beginning))

    def _on_opening_changed(self, conversation: int) -> None:
        """A chat that is there at once needs no notice of its opening."""
        self.notice_withdrawn.emit(OPENING_NOTICE)
        self._opening = conversation
        if conversation:
            self._slow.start()
        else:
            self._slow.stop()

    def _tell_of_opening(self) -> None:
        if record := self.autosave.record(self._opening):
            words, stop = tr("Opening “{title}”…").format(title=record.shown_title), self.autosave.stop_opening
            self.notice_raised.emit(Notice(OPENING_NOTICE, words, action=tr("Stop"), tone=Tone.HINT, on_action=stop))

    def _on_hit_opened(self, conversation: int, words: str, message: int) -> None:
        """It is shown where the conversation is."""
        is_elsewhere = self.chats.holder(conversation, (self.autosave,)) is not None
        (self.chats.hit_opened if is_elsewhere else self.hit_wanted).emit(conversation, words, message)

    def _on_hit_elsewhere(self, conversation: int, words: str, message: int) -> None:
        if self.autosave.holds(conversation):
            self.hit_wanted.emit(conversation, words, message)

    def _on_search_requested(self, words: str) -> None:
        self._search = self.archive.search(words, self._number)

    def _on_write_failed(self, words: str) -> None:
        elsewhere = tr("Save elsewhere…") if self.archive.has_unsaved else ""
        wanted = self.chats.copies_wanted.emit
        self.notice_raised.emit(Notice(SAVING_NOTICE, words, action=elsewhere, on_action=wanted))

    def _on_write_recovered(self) -> None:
        self.notice_withdrawn.emit(SAVING_NOTICE)

    def _on_import_progressed(self, number: int, so_far: "Imported") -> None:
        if number not in self._imports:
            return
        self._imports.remove(number)
        self._imports.append(number)
        words = tr("Importing {name}: {share} read, conversations so far: {count}.").format(
            name=so_far.name, share=share_text(so_far.share), count=f"{Number(so_far.count):,}"
        )
        self.notice_raised.emit(
            Notice(IMPORT_NOTICE, words, action=tr("Stop"), tone=Tone.HINT, on_action=self.stop_import)
        )

    def _on_imported(self, number: int, result: "Imported", records: list[ConversationRecord]) -> None:
        if number not in self._imports:
            return
        self._imports.remove(number)
        self.notice_withdrawn.emit(IMPORT_NOTICE)
        known = self.chats.record(result.last_known) if result.known == 1 else None
        self.autosave.show_last(records or ([known] if known else []))
        if result.is_stopped or result.problems or result.empty or result.known or len(records) != 1:
            self.notice_raised.emit(_import_notice(result))

    def _on_found(self, number: int, hits: list[SearchHit]) -> None:
        if number == self._search:
            self.panel.show_found(hits)

    def _on_exported(self, path: Path) -> None:
        if path not in self._exports:
            return
        from app.chat.archive.exchange.formats import JSON  # noqa: PLC0415

        self._exports.remove(path)
        words = tr("Exported to {path}.").format(path=path)
        hint = _way_back(1) if path.suffix.casefold() in JSON.suffixes else ""
        self.notice_raised.emit(Notice(EXCHANGE_NOTICE, words, hint, tone=Tone.HINT))

    def _on_export_failed(self, path: Path, reason: str) -> None:
        if path not in self._exports:
            return
        self._exports.remove(path)
        words = tr("{path} could not be written: {reason}.").format(path=path, reason=reason)
        self.notice_raised.emit(Notice(EXCHANGE_NOTICE, words, tr(_ELSEWHERE)))

    def _on_export_progressed(self, number: int, so_far: "Exported") -> None:
        """One that is over at once needs no notice of its progress."""
        if time.monotonic() - self._exports_of_all.get(number, math.inf) < _QUIET_SECONDS:
            return
        words = tr("Exporting chats: {count} of {total}.").format(
            count=f"{Number(so_far.count):,}", total=f"{Number(so_far.total):,}"
        )
        stop = partial(self.archive.stop_order, number)
        self.notice_raised.emit(Notice(EXPORT_NOTICE, words, action=tr("Stop"), tone=Tone.HINT, on_action=stop))

    def _on_all_exported(self, number: int, result: "Exported") -> None:
        if self._exports_of_all.pop(number, None) is not None:
            self.notice_withdrawn.emit(EXPORT_NOTICE)
            self.notice_raised.emit(_export_notice(result))

    def _on_set_aside(self, place: str, reason: str, until: float) -> None:
        words = tr("The file of your conversations could not be used: {reason}. A new one was begun.").format(
            reason=reason
        )
        hint = tr("The old file is kept as {place}.").format(place=place)
        if until:
            day = QLocale().toString(QDateTime.fromSecsSinceEpoch(int(until)).date(), QLocale.FormatType.LongFormat)
            hint += " " + tr("It is removed after {day}; copy it elsewhere to keep it.").format(day=day)
        self.notice_raised.emit(Notice(SET_ASIDE_NOTICE, words, hint))


def _export_notice(result: "Exported") -> Notice:
    """What came of an export of all chats."""
    if result.reason:
        words = tr("{path} could not be written: {reason}.").format(path=result.path, reason=result.reason)
        return Notice(EXCHANGE_NOTICE, words, tr(_ELSEWHERE))
    if result.is_stopped:
        return Notice(EXCHANGE_NOTICE, tr("The export was stopped; no file was written."), tone=Tone.HINT)
    words = tr("%n chats were exported to {path}.", n=result.count).format(path=result.path)
    if not result.unread:
        return Notice(EXCHANGE_NOTICE, words, _way_back(result.count), tone=Tone.HINT)
    titles = ", ".join(f"“{title}”" for title in result.unread[:_MOST_NAMED])
    titles += "…" if len(result.unread) > _MOST_NAMED else ""
    left_out = tr("%n chats could not be read ({reason}): {titles}", n=len(result.unread))
    return Notice(EXCHANGE_NOTICE, words, left_out.format(reason=result.why_unread, titles=titles))


def _way_back(count: int) -> str:
    return tr("“Import chats” brings it back.") if count == 1 else tr("“Import chats” brings them back.")


def _import_notice(result: "Imported") -> Notice:
    """What came of an import."""
    count = f"{Number(result.count):,}"
    if not (result.count or result.known) and result.problems and not result.is_stopped:
        (name, reason), *_ = result.problems
        return Notice(EXCHANGE_NOTICE, tr("{name} could not be imported.").format(name=name), reason)
    words = tr("The import was stopped.") + " " if result.is_stopped else ""
    words += tr("Conversations imported: {count}.").format(count=count)
    hints = [tr("%n empty chats were left out.", n=result.empty)] if result.empty else []
    hints += [tr("%n chats were left out, as they are there already.", n=result.known)] if result.known else []
    if not result.problems:
        return Notice(EXCHANGE_NOTICE, words, " ".join(hints), tone=Tone.HINT)
    hints += [f"{name}: {reason}" for name, reason in result.problems[:_MOST_NAMED]]
    if len(result.problems) > _MOST_NAMED:
        hints.append(tr("In %n more files something could not be read.", n=len(result.problems) - _MOST_NAMED))
    if result.unusable:
        hints.append(tr("Entries that are no conversations: {count}.").format(count=f"{Number(result.unusable):,}"))
    return Notice(EXCHANGE_NOTICE, words, " ".join(hints))

"""All conversations: the list at the side, the file they live in, and the one that is shown."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFileDialog, QWidget

from app.actions import Actions
from app.chat.archive.archive import Archive
from app.chat.archive.records import ConversationRecord, MessageRecord, SearchHit
from app.chat.controller import ChatController
from app.chat.conversation import Conversation
from app.chat.exchange import as_json, as_markdown
from app.chat.keeper import Keeper, conversation_of
from app.chat.round_keeper import RoundKeeper
from app.chat.sidebar.panel import ConversationsPanel
from app.notices import Notice, Tone
from app.private_files import exported
from app.theme import Colors
from app.translation import tr

DELETED_NOTICE = "conversation-deleted"
SAVING_NOTICE = "conversations-not-saved"
SET_ASIDE_NOTICE = "conversations-set-aside"
EXCHANGE_NOTICE = "conversation-exchange"

_FORMATS = "Markdown (*.md);;JSON (*.json)"


class Conversations(QObject):
    """Connects list, keeper and archive; the window gives `panel` a place."""

    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)

    def __init__(self, chat: ChatController, file: Path, colors: Colors, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._chat = chat
        self._deleted: list[ConversationRecord] = []
        self._exporting: tuple[Path, int] | None = None
        self.archive = Archive(file, self)
        self.keeper = Keeper(chat, self.archive, self)
        self.rounds = RoundKeeper(chat, self.archive, self.keeper, self)
        self.panel = ConversationsPanel(colors, parent)
        self._connect()

    def _connect(self) -> None:
        keeper, archive, panel = self.keeper, self.archive, self.panel
        keeper.conversations_changed.connect(panel.show_conversations)
        keeper.current_changed.connect(panel.show_current)
        panel.show_current(keeper.current)
        archive.found.connect(self._on_found)
        archive.opened.connect(self._on_opened)
        archive.imported.connect(self._on_imported)
        archive.import_failed.connect(self._on_import_failed)
        archive.set_aside.connect(self._on_set_aside)
        archive.write_failed.connect(lambda words: self.notice_raised.emit(Notice(SAVING_NOTICE, words)))
        archive.write_recovered.connect(lambda: self.notice_withdrawn.emit(SAVING_NOTICE))
        panel.opened.connect(keeper.open)
        panel.renamed.connect(keeper.rename)
        panel.pinned.connect(keeper.pin)
        panel.moved.connect(keeper.move)
        panel.duplicated.connect(keeper.duplicate)
        panel.deleted.connect(self.delete)
        panel.exported.connect(self.export)
        panel.search_requested.connect(archive.search)

    def connect_actions(self, actions: Actions) -> None:
        """Have the window's actions do what they say, with what is chosen in the list or else with what is shown."""
        keeper, panel = self.keeper, self.panel
        actions.import_chats.triggered.connect(self.import_files)
        with_one: dict[QAction, Callable[[int], None]] = {
            actions.export_chat: self.export,
            actions.duplicate_chat: keeper.duplicate,
            actions.delete_chat: self.delete,
            actions.rename_chat: panel.begin_rename,
            actions.move_chat: panel.ask_folder,
            actions.pin_chat: self._change_pin,
        }
        for action, act in with_one.items():
            action.triggered.connect(lambda _checked, act=act: act(self.chosen))

        def show_what_can_be_done() -> None:
            for action in with_one:
                action.setEnabled(keeper.record(self.chosen) is not None)

        for changed in (keeper.conversations_changed, keeper.current_changed, panel.choice_changed):
            changed.connect(show_what_can_be_done)
        show_what_can_be_done()

    @property
    def chosen(self) -> int:
        """The conversation that actions are for."""
        return self.panel.chosen or self.keeper.current

    def start(self) -> None:
        """Open the file and fill the list."""
        if not self.archive.isRunning():
            self.archive.start()
            self.archive.list_all()

    def close(self) -> None:
        """Write what is new and end the thread; returns when that is done."""
        self.keeper.save()
        if self.archive.isRunning():
            self.archive.close()
            self.archive.wait()

    def delete(self, conversation: int) -> None:
        """Take a conversation out of the list, with a way back."""
        record = self.keeper.record(conversation)
        if record is not None:
            self._deleted.append(record)
            self.keeper.delete(conversation)
            self._offer_undo()

    def undo_delete(self) -> None:
        """Bring back what was deleted last; then what was deleted before it can be brought back."""
        if self._deleted:
            self.keeper.restore(self._deleted.pop())
            self._offer_undo()

    def _offer_undo(self) -> None:
        if self._deleted:
            words = tr("Deleted “{title}”.").format(title=self._deleted[-1].shown_title)
            self.notice_raised.emit(Notice(DELETED_NOTICE, words, action=tr("Undo"), tone=Tone.HINT))

    def export(self, conversation: int) -> None:
        """Ask for a file, and write the path that was last shown into it."""
        record = self.keeper.record(conversation)
        if record is None:
            return
        start = "".join(each if each.isalnum() or each in " -_" else "_" for each in record.shown_title).strip()
        path, kind = QFileDialog.getSaveFileName(self._window, tr("Export conversation"), f"{start}.md", _FORMATS)
        if path:
            target = Path(path)
            if not target.suffix:
                target = target.with_suffix(".json" if "json" in kind else ".md")
            self._exporting = (target, conversation)
            self.keeper.save()
            self.archive.open(record)

    def import_files(self) -> None:
        """Ask for files, and add what they hold to the list."""
        paths, _ = QFileDialog.getOpenFileNames(
            self._window, tr("Import conversations"), "", tr("Conversations (*.json *.md *.markdown)")
        )
        for path in paths:
            self.archive.read_file(Path(path))

    def _change_pin(self, conversation: int) -> None:
        if record := self.keeper.record(conversation):
            self.keeper.pin(conversation, not record.is_pinned)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _on_imported(self, _path: Path, found: list[tuple[str, Conversation]]) -> None:
        for title, conversation in found:
            if conversation.settings is not None:
                prompt = conversation.settings.system_prompt
                conversation.settings = replace(self._chat.beginning, system_prompt=prompt)
            self.keeper.add(conversation, title)

    def _on_import_failed(self, path: Path, reason: str) -> None:
        self.notice_raised.emit(
            Notice(EXCHANGE_NOTICE, tr("{name} could not be imported.").format(name=path.name), reason)
        )

    def _on_found(self, _number: int, hits: list[SearchHit]) -> None:
        self.panel.show_found(hits)

    def _on_opened(self, record: ConversationRecord, messages: list[MessageRecord]) -> None:
        """A conversation was read: to be written elsewhere, or to be shown."""
        if self._exporting is None or self._exporting[1] != record.id:
            if self.keeper.record(record.id) is not None:  # else it was deleted meanwhile
                self.keeper.show(record, messages)
            return
        (path, _), self._exporting = self._exporting, None
        shown = conversation_of(record, messages)
        prompt = shown.settings.system_prompt if shown.settings else ""
        write = as_json if path.suffix.casefold() == ".json" else as_markdown
        try:
            with exported(path):
                path.write_text(write(record.shown_title, shown.messages, prompt), encoding="utf-8")
        except OSError as error:
            words = tr("{path} could not be written: {reason}.").format(path=path, reason=error.strerror or error)
            self.notice_raised.emit(Notice(EXCHANGE_NOTICE, words))
        else:
            self.notice_raised.emit(
                Notice(EXCHANGE_NOTICE, tr("Exported to {path}.").format(path=path), tone=Tone.HINT)
            )

    def _on_set_aside(self, place: str, reason: str) -> None:
        words = tr("The file of your conversations could not be used: {reason}. A new one was begun.").format(
            reason=reason
        )
        self.notice_raised.emit(
            Notice(SET_ASIDE_NOTICE, words, tr("The old file is kept as {place}.").format(place=place))
        )

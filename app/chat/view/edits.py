"""Keeps what is written in the editors of messages while these are out of sight, or were put away."""

from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal

from app.chat.history.conversation import Conversation
from app.chat.history.unsent import Edit
from app.chat.view.message_tools import MessageEditor


class Edits(QObject):
    """The other wordings begun in a conversation, by the ids of their messages, and which editors are open."""

    changed = Signal()  # what `kept` gives

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._wordings: dict[int, str] = {}
        self._open: set[int] = set()

    def begin(self, edits: Iterable[Edit]) -> None:
        """Another conversation is shown, with what was begun in it before."""
        kept = tuple(edits)
        self._wordings = {each.message: each.text for each in kept if each.text}
        self._open = {each.message for each in kept if each.is_open}

    def kept(self, conversation: Conversation) -> tuple[Edit, ...]:
        """What was begun in messages that the conversation still has."""
        begun = self._open | self._wordings.keys()
        if not begun:
            return ()
        there = {each.id for each in (*conversation.messages, *conversation.hidden)}
        return tuple(Edit(each, self._wordings.get(each, ""), each in self._open) for each in sorted(begun & there))

    def is_open(self, message: int) -> bool:
        """Whether the message was being edited when it was last seen."""
        return message in self._open

    def follow(self, message: int, editor: MessageEditor) -> None:
        """Have an editor go on with what was begun, and keep what is written; what is accepted is kept no longer.

        Escape only puts it away: the next editor of the message goes on, and undoing brings the message back.
        """
        original = editor.field.toPlainText()
        if message in self._wordings:
            editor.replace_text(self._wordings[message])
        self._open.add(message)

        def keep() -> None:
            text = editor.field.toPlainText()
            if text == original:
                self._wordings.pop(message, None)
            else:
                self._wordings[message] = text
            self.changed.emit()

        editor.field.textChanged.connect(keep)
        editor.cancelled.connect(lambda: self._put_away(message))
        editor.accepted.connect(lambda _: self._forget(message))
        self.changed.emit()

    def _put_away(self, message: int) -> None:
        self._open.discard(message)
        self.changed.emit()

    def _forget(self, message: int) -> None:
        self._wordings.pop(message, None)
        self._put_away(message)

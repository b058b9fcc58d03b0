"""Keeps what is written in the editors of messages while these are out of sight, or were put away."""

from app.chat.view.message_tools import MessageEditor


class Edits:
    """The other wordings that were begun, by the ids of their messages, and which editors are open."""

    def __init__(self) -> None:
        self._wordings: dict[int, str] = {}
        self._open: set[int] = set()

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

        editor.field.textChanged.connect(keep)
        editor.cancelled.connect(lambda: self._open.discard(message))
        editor.accepted.connect(lambda _: self._forget(message))

    def _forget(self, message: int) -> None:
        self._open.discard(message)
        self._wordings.pop(message, None)

"""The room as one widget: the conversation or a welcome, and the composer below."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from app.chat.composer import Composer
from app.chat.controller import ChatController
from app.chat.conversation import Conversation, Message
from app.chat.conversation_view import COLUMN_WIDTH, SIDE_MARGIN, ConversationView
from app.chat.welcome import Welcome
from app.engine_state import EngineState
from app.notices import NoticeStack
from app.theme import Colors


class ChatPanel(QWidget):
    """Shows what the controller says, and tells it what a person wants; holds no state of its own."""

    question_asked = Signal(str)
    stop_requested = Signal()
    regenerate_requested = Signal()

    def __init__(self, colors: Colors, notices: NoticeStack, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Chat")
        self.welcome = Welcome(self)
        self.view = ConversationView(colors, self)
        self.composer = Composer(colors, self)
        self._pages = QStackedWidget(self)
        self._pages.addWidget(self.welcome)
        self._pages.addWidget(self.view)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._pages, 1)
        column.addLayout(self._foot(notices))
        self.setFocusProxy(self.composer)
        self.composer.sent.connect(self.question_asked)
        self.composer.stop_requested.connect(self.stop_requested)
        self.welcome.example_chosen.connect(self._on_example_chosen)
        self.view.regenerate_requested.connect(self.regenerate_requested)

    def _foot(self, notices: NoticeStack) -> QHBoxLayout:
        inner = QWidget(self)
        inner.setMaximumWidth(COLUMN_WIDTH)
        stack = QVBoxLayout(inner)
        stack.setContentsMargins(0, 8, 0, 14)
        stack.setSpacing(8)
        stack.addWidget(notices)
        stack.addWidget(self.composer)
        foot = QHBoxLayout()
        foot.setContentsMargins(SIDE_MARGIN, 0, SIDE_MARGIN, 0)
        foot.addStretch(1)
        foot.addWidget(inner, 1000)
        foot.addStretch(1)
        return foot

    def follow(self, controller: ChatController) -> None:
        """Connect both ways with the room's controller."""
        self.question_asked.connect(controller.ask)
        self.stop_requested.connect(controller.stop)
        self.regenerate_requested.connect(controller.regenerate)
        controller.conversation_replaced.connect(self._on_conversation_replaced)
        controller.turn_added.connect(self._on_turn_added)
        controller.answer_changed.connect(self.view.change_answer)
        controller.answer_restarted.connect(self.view.restart_answer)
        controller.answering_changed.connect(self.composer.set_answering)

    def show_engine_state(self, state: EngineState) -> None:
        """A question may be asked as long as somebody will answer it, now or soon."""
        self.composer.set_can_ask(state.ready or state.busy)
        self.welcome.show_engine_state(state)

    def set_theme(self, colors: Colors) -> None:
        """Draw everything in other colours."""
        self.view.set_theme(colors)
        self.composer.set_theme(colors)

    def _on_conversation_replaced(self, conversation: Conversation) -> None:
        self.view.show_conversation(conversation)
        self._pages.setCurrentWidget(self.welcome if conversation.is_empty else self.view)
        self.composer.setFocus()

    def _on_turn_added(self, question: Message, answer: Message) -> None:
        self._pages.setCurrentWidget(self.view)
        self.view.add_turn(question, answer)

    def _on_example_chosen(self, text: str) -> None:
        self.question_asked.emit(text)
        self.composer.setFocus()

"""The chat as one widget: the conversation or a welcome, and the composer below."""

from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from app.chat.composer.composer import Composer
from app.chat.generation.constraint_state import constraint_state
from app.chat.generation.context_use import ContextUse
from app.chat.generation.controller import ChatController
from app.chat.generation.speculation_state import speculation_state
from app.chat.history.conversation import Conversation
from app.chat.history.message import Message
from app.chat.origins.tint import TintLegend
from app.chat.view.conversation_view import COLUMN_WIDTH, SIDE_MARGIN, ConversationView
from app.chat.view.welcome import Welcome
from app.engine.state import EngineState
from app.i18n.translation import tr
from app.settings.generation import SUMMARISE
from app.ui.notices import Notice, NoticeStack
from app.ui.theme import Colors

if TYPE_CHECKING:
    from app.chat.finding.bar import FindBar

ATTACHMENT_NOTICE = "not-attached"
_MOST_REFUSALS = 5  # that are told one by one


class ChatPanel(QWidget):
    """Shows what the controller says, and tells it what a person wants; holds no state of its own."""

    question_asked = Signal(str, tuple, str)  # text, attachments, how the answer begins
    stop_requested = Signal()
    regenerate_requested = Signal(object)  # id of an answer

    def __init__(self, colors: Colors, notices: NoticeStack, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Chat"))
        self._state = EngineState()
        self._controller: ChatController | None = None
        self.welcome = Welcome(self)
        self.view = ConversationView(colors, self)
        self._colors = colors
        self.legend = TintLegend(colors, self)
        self.composer = Composer(colors, self)
        self._pages = QStackedWidget(self)
        self._pages.setMinimumHeight(1)  # in a low window the buttons of a notice come first
        self._pages.addWidget(self.welcome)
        self._pages.addWidget(self.view)
        self._column = column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._pages, 1)
        column.addLayout(self._foot(notices))
        self.composer.sent.connect(self.question_asked)
        self.composer.stop_requested.connect(self.stop_requested)
        self._notices = notices
        self._refusals: list[str] = []  # of files, as the notice tells them
        self.composer.tray.refused.connect(self._tell_of_refusal)
        self.view.refused.connect(self._tell_of_refusal)
        self.welcome.example_chosen.connect(self._on_example_chosen)
        self.view.regenerate_requested.connect(self.regenerate_requested)

    @cached_property
    def find_bar(self) -> "FindBar":
        """The bar that finds words, above the conversation; made when something is first looked for."""
        from app.chat.finding.bar import FindBar  # noqa: PLC0415

        made = FindBar(self._colors, self)
        self._column.insertWidget(0, made)
        return made

    def setFocus(self, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason) -> None:  # noqa: N802
        """Write."""
        self.composer.setFocus(reason)

    def _foot(self, notices: NoticeStack) -> QHBoxLayout:
        inner = QWidget(self)
        inner.setMaximumWidth(COLUMN_WIDTH)
        stack = QVBoxLayout(inner)
        stack.setContentsMargins(0, 8, 0, 14)
        stack.setSpacing(8)
        notices.heir = self.composer
        stack.addWidget(notices)
        stack.addWidget(self.legend)
        stack.addWidget(self.composer)
        foot = QHBoxLayout()
        foot.setContentsMargins(SIDE_MARGIN, 0, SIDE_MARGIN, 0)
        foot.addStretch(1)
        foot.addWidget(inner, 1000)
        foot.addStretch(1)
        return foot

    def follow(self, controller: ChatController) -> None:
        """Connect both ways with the controller."""
        self._controller = controller
        self.question_asked.connect(controller.ask)
        self.stop_requested.connect(controller.stop)
        self.regenerate_requested.connect(controller.regenerate)
        controller.conversation_replaced.connect(self._on_conversation_replaced)
        controller.turn_added.connect(self._on_turn_added)
        controller.rounds_arrived.connect(self.view.take_rounds)
        controller.answer_changed.connect(self.view.change_answer)
        controller.path_changed.connect(lambda first: self._show_path(controller.conversation, first))
        controller.answering_changed.connect(self.composer.set_answering)
        controller.answering_changed.connect(self.view.set_answering)
        for changed in (controller.answering_changed, controller.conversation_replaced, controller.path_changed):
            changed.connect(lambda *_: self.view.show_preview(0))  # until it is foreseen what will give way there
        self.composer.continue_requested.connect(controller.continue_answer)
        self.composer.speculation_chosen.connect(controller.set_speculation)
        self.composer.tools.chosen.connect(controller.switch_tools_off)
        for changed in (controller.answering_changed, controller.path_changed, controller.settings_changed):
            changed.connect(lambda: self._show_generation_state(controller))
        controller.tools.offered_changed.connect(lambda: self._show_generation_state(controller))
        for changed in (controller.path_changed, controller.first_read_changed, controller.turn_added):
            changed.connect(lambda: self._show_divider(controller))
        self.view.call_decided.connect(controller.tools.decide)
        self.view.edited.connect(controller.edit)
        self.view.edited.connect(lambda *_: self.setFocus())
        self.view.version_chosen.connect(controller.show_version)
        self.view.delete_requested.connect(controller.delete)
        self.view.delete_requested.connect(lambda *_: self.setFocus())
        for changed in (controller.removed, controller.restored):
            changed.connect(lambda removal: self.view.show_message(removal.place))

    def show_engine_state(self, state: EngineState) -> None:
        """A question may be asked while the engine is ready, or will be soon."""
        self._state = state
        self.composer.set_can_ask(state.ready or state.busy)
        self.composer.tray.set_no_pictures(state.no_pictures)
        self.view.set_no_pictures(state.no_pictures)
        if self._controller is not None:
            self._show_generation_state(self._controller)
        self.welcome.show_engine_state(state)

    def show_use(self, use: ContextUse) -> None:
        """Show how full the context is, and where reading will begin with the next question."""
        self.composer.meter.show_use(use)
        self.view.show_preview(use.first if use.left_out else 0, use.when_full == SUMMARISE)

    def set_theme(self, colors: Colors) -> None:
        """Draw everything in other colours."""
        self.view.set_theme(colors)
        self.composer.set_theme(colors)
        self.legend.set_colors(colors)
        self._colors = colors
        if "find_bar" in vars(self):
            self.find_bar.set_theme(colors)

    def leave(self) -> None:
        """The window closes: nothing more is drawn or read beside it."""
        self.view.formulas.close()
        self.composer.tray.reader.close()

    def _tell_of_refusal(self, words: str) -> None:
        """With those that are told already: the notice of one must not hide that of another."""
        is_told = any(each.key == ATTACHMENT_NOTICE for each in self._notices.notices)
        self._refusals = [*self._refusals, words] if is_told else [words]
        lines, more = self._refusals[:_MOST_REFUSALS], len(self._refusals) - _MOST_REFUSALS
        if more > 0:
            lines = [*lines, tr("%n more files were not attached.", n=more)]
        self._notices.add(Notice(ATTACHMENT_NOTICE, "\n".join(lines)))

    def _show_generation_state(self, controller: ChatController) -> None:
        answer = controller.conversation.last_answer
        last = answer.statistics if answer is not None and answer.ending.is_final else None
        self.composer.set_can_continue(controller.can_continue)
        self.composer.show_speculation(speculation_state(controller.generation, self._state, last))
        self.composer.show_constraint(constraint_state(controller.generation, self._state))
        self.composer.show_tools(controller.tools.offered, controller.generation)

    def _show_divider(self, controller: ChatController) -> None:
        self.view.show_divider(controller.conversation.first_read, controller.conversation.summary)

    def _on_conversation_replaced(self, conversation: Conversation) -> None:
        self.view.show_conversation(conversation)
        self._pages.setCurrentWidget(self.welcome if conversation.is_empty else self.view)
        self.composer.setFocus()

    def _show_path(self, conversation: Conversation, first: int) -> None:
        self.view.show_path(conversation, first)
        self._pages.setCurrentWidget(self.welcome if conversation.is_empty else self.view)

    def _on_turn_added(self, question: Message, answer: Message) -> None:
        self._pages.setCurrentWidget(self.view)
        self.view.add_turn(question, answer)

    def _on_example_chosen(self, text: str) -> None:
        self.question_asked.emit(text, (), "")
        self.composer.setFocus()

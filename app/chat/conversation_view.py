"""The list of questions and answers: a column of readable width that follows the answer as it grows."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QToolButton, QVBoxLayout, QWidget

from app.chat.answer_view import AnswerView
from app.chat.conversation import Conversation, Message
from app.chat.question_view import QuestionView
from app.theme import Colors, icon

COLUMN_WIDTH = 760
SIDE_MARGIN = 24
_AT_BOTTOM = 8  # pixels from the end that still count as the end
_BUTTON_MARGIN = 14


class ConversationView(QScrollArea):
    """Shows a conversation. It scrolls along only while the reader is at the bottom."""

    regenerate_requested = Signal()

    def __init__(self, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colors = colors
        self._follows = True
        self.questions: list[QuestionView] = []
        self.answers: list[AnswerView] = []
        self.setAccessibleName("Conversation")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidget(self._build_column())
        self._to_bottom = self._build_to_bottom()
        bar = self.verticalScrollBar()
        bar.setSingleStep(24)
        bar.rangeChanged.connect(self._on_range_changed)
        bar.valueChanged.connect(self._on_scrolled)
        self.set_theme(colors)

    def _build_column(self) -> QWidget:
        page, column = QWidget(self), QWidget(self)
        page.setObjectName("page")
        column.setMaximumWidth(COLUMN_WIDTH)
        self._column = QVBoxLayout(column)
        self._column.setContentsMargins(0, 28, 0, 20)
        self._column.setSpacing(22)
        self._column.addStretch(1)
        self._row = QHBoxLayout(page)
        self._row.setContentsMargins(SIDE_MARGIN, 0, SIDE_MARGIN, 0)
        self._row.addStretch(1)
        self._row.addWidget(column, 1000)  # takes all the room up to its largest width
        self._row.addStretch(1)
        return page

    def _build_to_bottom(self) -> QToolButton:
        button = QToolButton(self)
        button.setObjectName("to-bottom")
        button.setToolTip("To the end of the conversation")
        button.setAccessibleName("Scroll to the end of the conversation")
        button.clicked.connect(self.scroll_to_bottom)
        button.hide()
        return button

    def show_conversation(self, conversation: Conversation) -> None:
        """Show another conversation from its end."""
        for view in (*self.questions, *self.answers):
            self._column.removeWidget(view)
            view.deleteLater()
            view.hide()
        self.questions, self.answers = [], []
        messages = conversation.messages
        for question, answer in zip(messages[::2], messages[1::2], strict=True):
            self.add_turn(question, answer)

    def add_turn(self, question: Message, answer: Message) -> None:
        """Add a question and its answer at the end, and go there."""
        asked, answering = QuestionView(question, self), AnswerView(answer, self._colors, self)
        answering.regenerate_requested.connect(self.regenerate_requested)
        for view in (asked, answering):
            self._column.insertWidget(self._column.count() - 1, view)
        if self.answers:
            self.answers[-1].set_last(False)
        self.questions.append(asked)
        self.answers.append(answering)
        self.scroll_to_bottom()

    def change_answer(self, answer: Message, added: str) -> None:
        """Pass the last answer's new state on."""
        self.answers[-1].change(answer, added)

    def restart_answer(self, answer: Message) -> None:
        """Empty the last answer: it is being generated again."""
        self.answers[-1].restart(answer)
        self.scroll_to_bottom()

    def copy_last_answer(self) -> None:
        """Put the last answer on the clipboard, if there is one."""
        if self.answers:
            self.answers[-1].copy()

    def scroll_to_bottom(self) -> None:
        """Show the end, and follow it from now on."""
        self._follows = True
        self._on_range_changed()

    def set_theme(self, colors: Colors) -> None:
        """Draw everything in other colours."""
        self._colors = colors
        self._to_bottom.setIcon(icon("down", colors.text))
        for answer in self.answers:
            answer.set_theme(colors)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Keep the button at the lower edge."""
        super().resizeEvent(event)
        size = self._to_bottom.sizeHint()
        self._to_bottom.resize(size)
        self._to_bottom.move((self.width() - size.width()) // 2, self.height() - size.height() - _BUTTON_MARGIN)

    def _on_range_changed(self) -> None:
        bar = self.verticalScrollBar()
        taken = bar.sizeHint().width() if bar.maximum() else 0
        self._row.setContentsMargins(SIDE_MARGIN, 0, SIDE_MARGIN - taken, 0)  # the column stays above the composer
        if self._follows:
            bar.setValue(bar.maximum())
        self._show_button()

    def _on_scrolled(self) -> None:
        bar = self.verticalScrollBar()
        self._follows = bar.value() >= bar.maximum() - _AT_BOTTOM
        self._show_button()

    def _show_button(self) -> None:
        self._to_bottom.setVisible(not self._follows)

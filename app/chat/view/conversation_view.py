"""The list of questions and answers: a column of readable width that follows the answer as it grows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import QRect, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QToolButton, QWidget

from app.chat.history.calls import Decision
from app.chat.history.conversation import Conversation
from app.chat.history.message import Message, Version, as_markdown
from app.chat.history.token_origins import RoundMarks, TokenOrigins
from app.chat.text.document_style import Look
from app.chat.typesetting.formulas import Formulas
from app.chat.typesetting.layout_cost import Budget
from app.chat.view.edits import Edits
from app.chat.view.message_column import MessageColumn, MessageView
from app.chat.view.message_selection import DragScroll, MessageSelection, said
from app.chat.view.question_view import QuestionView
from app.i18n.translation import tr
from app.ui.theme import Colors, icon, reading_font
from app.ui.widgets import copy_text
from engine.protocol.messages import Round

if TYPE_CHECKING:  # Markdown and code take their time to read: they are there before the first answer is
    from app.chat.view.answer_view import AnswerView

PlaceOf = Callable[[MessageView], QRect | None]
"""Finds a place in the view of a message, one pixel high as long as it is guessed; None if nothing is there."""

COLUMN_WIDTH = 760
SIDE_MARGIN = 24
_AT_BOTTOM = 8  # pixels from the end that still count as the end
_BUTTON_MARGIN = 14
_EDITOR_MARGIN = 24  # above and below what is edited
_SLICE_SECONDS = 0.012  # of building views, one of which takes about 20 ms on a slow processor

_ALONE = Version(0, 1)


class ConversationView(QScrollArea):
    """Shows a conversation. It scrolls along only while the reader is at the bottom, and never without `autoscroll`."""

    regenerate_requested = Signal(object)  # id of an answer
    edited = Signal(object, str, tuple)  # id (a number too long for a C int) of a message, another wording, attachments
    refused = Signal(str)  # which file is not attached to an edited question, and why
    version_chosen = Signal(object, int)  # id of a message, index
    delete_requested = Signal(object)  # id of a message
    token_hovered = Signal(int, int)  # request and number of the round that the text under the mouse is from, or 0, -1
    token_chosen = Signal(int, int)  # the same of text that was clicked
    zoom_requested = Signal(int)  # steps
    texts_changed = Signal()  # a text came to be, also one of thinking
    compare_requested = Signal(object)  # id of an answer
    branch_requested = Signal(object)  # id of an answer: the chat up to there as a new one
    cause_chosen = Signal(object)  # CausePlace in telemetry that shows why an answer was fast or not
    call_decided = Signal(int, Decision)  # where it begins in the last answer

    def __init__(self, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._look = Look(colors, points=reading_font().pointSizeF())
        self.formulas = Formulas(self)
        self._follows = True
        self._answering = False
        self._first_read, self._summary = 0, ""
        self._preview, self._summarises = 0, False
        self._versions: dict[int, Version] = {}  # of messages with others beside them
        self._models: set[str] = set()  # that wrote answers of the conversation, versions that are not shown too
        self._marks = RoundMarks()
        self._sends_with_ctrl = False
        self._no_pictures = ""
        self.edits = Edits(self)
        self.autoscroll = True
        self.setAccessibleName(tr("Conversation"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.column = MessageColumn(self._build, self)
        self.column.setObjectName("page")
        self.setWidget(self.column)
        self.selection = MessageSelection(self.column, self)
        DragScroll(self, self.selection)
        self._to_bottom = self._build_to_bottom()
        self._sought: tuple[int, PlaceOf] | None = None  # a message, and what tells a place in it, as yet only guessed
        self.verticalScrollBar().actionTriggered.connect(self._give_up)
        self._building = QTimer(self, singleShot=True, interval=0)
        self._building.timeout.connect(lambda: self._show_near(Budget(_SLICE_SECONDS)))
        self.column.resized.connect(self._fit)
        self.column.shifted.connect(self._on_shifted)
        bar = self.verticalScrollBar()
        bar.setSingleStep(24)
        bar.rangeChanged.connect(self._on_range_changed)
        bar.valueChanged.connect(self._on_scrolled)
        self.set_look(self._look)

    def _build_to_bottom(self) -> QToolButton:
        button = QToolButton(self)
        button.setObjectName("to-bottom")
        button.setToolTip(tr("To the end of the conversation"))
        button.setAccessibleName(tr("Scroll to the end of the conversation"))
        button.clicked.connect(self.scroll_to_bottom)
        button.hide()
        return button

    # ---- what is shown ----------------------------------------------------------------------------------------------

    @property
    def questions(self) -> list[QuestionView]:
        """The questions near the reader, and the last one."""
        return [each for each in self.column.views if isinstance(each, QuestionView)]

    @property
    def answers(self) -> "list[AnswerView]":
        """The answers near the reader, and the last one."""
        return [each for each in self.column.views if not isinstance(each, QuestionView)]

    def show_conversation(self, conversation: Conversation) -> None:
        """Show another conversation from its end."""
        self._marks.clear()
        self.selection.clear()
        self.formulas.give_up()
        self.show_path(conversation, 0)

    def show_path(self, conversation: Conversation, first: int) -> None:
        """Show the path anew from its message number `first` on; what stands before it stays."""
        messages = conversation.messages
        self._versions = conversation.shown_versions
        self._models = {each.model for each in (*messages, *conversation.hidden) if each.model}
        self.column.truncate(first)
        self._add(messages[first:])
        for view in self.column.views:
            view.show_version(self._versions.get(view.message.id, _ALONE))
        self._name_models()

    @property
    def top_message(self) -> int:
        """The number of the first message that can be seen, even if only its end."""
        return self.column.index_at(self.verticalScrollBar().value())

    def add_turn(self, question: Message, answer: Message) -> None:
        """Add a question and its answer at the end, and go there."""
        self._add((question, answer))

    def change_answer(self, answer: Message, added: str) -> None:
        """Pass the last answer's new state on."""
        self._follows = self._follows and (self.autoscroll or not added)
        self.column.messages[-1] = answer
        self.answers[-1].change(answer, added)
        if answer.model and answer.model not in self._models:
            self._models.add(answer.model)
            self._name_models()

    def _name_models(self) -> None:
        """Where several models wrote answers, each answer names its own."""
        for view in self.answers:
            view.set_names_model(len(self._models) > 1)

    def take_rounds(self, rounds: Sequence[Round]) -> None:
        """Know where the text of the last answer comes from; called before the text is there."""
        self._marks.take(self.answers[-1], rounds, len(self.column.messages[-1].text))

    def restore_origins(self, found: Mapping[int, TokenOrigins]) -> None:
        """Take the origins of answers that were loaded from the database."""
        self._marks.restore(found, self.answers)

    def mark_round(self, request: int, number: int) -> None:
        """Mark what a round gave to its answer; numbers below 0: nothing."""
        self._marks.mark(request, number, self.answers)

    def show_round(self, request: int, number: int) -> bool:
        """Mark what a round gave, and bring it into view; False if its answer is not among those that are shown."""
        message = self._marks.message_of(request, number)
        index = next((place for place, each in enumerate(self.column.messages) if each.id == message), None)
        if index is None:
            return False
        self.verticalScrollBar().setValue(self.column.top(index))
        self._show_near()
        self.mark_round(request, number)
        view = self.column.view(index)
        if not isinstance(view, QuestionView | None):
            view.open_marked()
            self.column.settle()
            self._sought = index, _mark_place
            self._approach()
        return True

    def open_begun_editors(self) -> None:
        """Let editors be open that were when the messages were last seen."""
        for view in self.column.views:
            if self.edits.is_open(view.message.id):
                view.open_editor()

    def seek(self, index: int, place_of: PlaceOf) -> None:
        """Bring a place of message number `index` into view, which is told again and again until it is no guess."""
        if self.column.view(index) is None:
            self.verticalScrollBar().setValue(self.column.top(index))
        self.column.need(index)
        self._sought = index, place_of
        self._approach()

    def approach(self) -> None:
        """What is sought may have been laid out by now."""
        if self._sought is not None:
            self._approach()

    def show_message(self, index: int) -> None:
        """Bring message number `index` into view, or else the end."""
        if index < len(self.column.messages):
            self.verticalScrollBar().setValue(self.column.top(index) - self.viewport().height() // 3)
            self._show_near()

    def beginning_of(self, request: int, number: int) -> tuple[int, str] | None:
        """The answer that is shown and that a round wrote on, and its text up to there."""
        found = self._marks.beginning_of(request, number)
        message = next((each for each in self.column.messages if found and each.id == found[0]), None)
        return (message.id, message.text[: found[1]]) if found and message else None

    def set_answering(self, answering: bool) -> None:
        """While an answer is under way, nothing above it can be changed."""
        self._answering = answering
        for view in self.column.views:
            view.set_answering(answering)

    def show_divider(self, turn: int, summary: str = "") -> None:
        """Say above the question of this turn that the model reads from there on, and a summary; 0 for nowhere."""
        self._first_read, self._summary = turn, summary
        for index, view in self.column.built:
            if isinstance(view, QuestionView):
                view.show_divider(0 < index // 2 == turn, summary)

    def show_preview(self, turn: int, summarises: bool = False) -> None:
        """Say above the question of this turn that with the next one the model will read from there; 0 for nowhere."""
        if (turn, summarises) == (self._preview, self._summarises):
            return
        self._preview, self._summarises = turn, summarises
        for index, view in self.column.built:
            if isinstance(view, QuestionView):
                view.show_preview(0 < index // 2 == turn, summarises)

    def edit_last_question(self) -> None:
        """Open the last question for another wording."""
        if self.questions and not self._answering:
            self.questions[-1].edit()

    def set_no_pictures(self, why: str) -> None:
        """Know why what is loaded cannot be shown pictures; empty where it can."""
        self._no_pictures = why
        for view in self.questions:
            view.set_no_pictures(why)

    def set_send_key(self, with_ctrl: bool) -> None:
        """Send another wording of a question with Ctrl+Enter, or with Enter."""
        self._sends_with_ctrl = with_ctrl
        for view in self.questions:
            view.set_send_key(with_ctrl)

    def set_theme(self, colors: Colors) -> None:
        """Draw everything in other colours, or letters of another size."""
        self.set_look(replace(self._look, colors=colors, points=reading_font().pointSizeF()))

    @property
    def look(self) -> Look:
        """How messages are shown."""
        return self._look

    def set_look(self, look: Look) -> None:
        """Show messages in another way; what nobody sees is made anew when it comes near."""
        if look.writing != self._look.writing:
            self.column.drop_unseen()
        self._look = look
        self._to_bottom.setIcon(icon("down", look.colors.text))
        for view in self.column.views:
            view.set_look(look)

    def order_focus(self) -> None:
        """Have Tab go through the messages from top to bottom, behind the view; Qt's order is that of their making."""
        inside = self.column.findChildren(QWidget)
        stops = [each for each in inside if each.focusPolicy() & Qt.FocusPolicy.TabFocus and each.isVisible()]
        middles = {each: each.mapTo(self.column, each.rect().center()) for each in stops}
        for before, after in pairwise((self, *sorted(stops, key=lambda each: middles[each].toTuple()[::-1]))):
            self.setTabOrder(before, after)

    # ---- copies -----------------------------------------------------------------------------------------------------

    def copy_last_answer(self) -> None:
        """Put the last answer on the clipboard, if there is one."""
        if self.answers:
            self.answers[-1].copy()

    def copy_conversation(self) -> None:
        """Put all that is shown on the clipboard, as Markdown without the thinking."""
        if text := as_markdown(((each.role, said(each)) for each in self.column.messages), "**{}**"):
            copy_text(text, self)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """What is selected is all of the conversation's, wherever the focus is in it."""
        if event.matches(QKeySequence.StandardKey.SelectAll):
            self.selection.select_everything()
        elif event.matches(QKeySequence.StandardKey.Copy):
            self.selection.copy()
        else:
            super().keyPressEvent(event)

    # ---- views ------------------------------------------------------------------------------------------------------

    def _add(self, messages: Sequence[Message]) -> None:
        before = self.answers[-1:]
        self.column.extend(messages)
        for view in before:
            view.set_last(view is self.answers[-1])
        self.scroll_to_bottom()
        self._show_near()

    def _build(self, index: int, message: Message) -> MessageView:
        view: MessageView
        if message.role == "user":
            view = QuestionView(message, self._look, self.column)
            view.show_divider(0 < index // 2 == self._first_read, self._summary)
            view.show_preview(0 < index // 2 == self._preview, self._summarises)
            view.set_send_key(self._sends_with_ctrl)
            view.set_no_pictures(self._no_pictures)
            view.refused.connect(self.refused)
        else:
            from app.chat.view.answer_view import AnswerView  # noqa: PLC0415  # see above

            view = AnswerView(message, self._look, self.formulas, self.column)
            view.set_last(index == len(self.column.messages) - 1)
            view.set_names_model(len(self._models) > 1)
            view.regenerate_requested.connect(self.regenerate_requested)
            view.compare_requested.connect(self.compare_requested)
            view.branch_requested.connect(self.branch_requested)
            view.cause_chosen.connect(self.cause_chosen)
            view.call_decided.connect(self.call_decided)
            view.origins.token_hovered.connect(self.token_hovered)
            view.origins.token_chosen.connect(self.token_chosen)
            view.thought_added.connect(self.texts_changed)
            self._marks.attach(view)
        view.text_added.connect(self.selection.watch)
        view.text_added.connect(self.texts_changed)
        view.edited.connect(self.edited)
        view.editor_opened.connect(lambda: self._show_editor(view))
        view.edit_begun.connect(partial(self.edits.follow, message.id))
        view.version_chosen.connect(self.version_chosen)
        view.delete_requested.connect(self.delete_requested)
        view.set_answering(self._answering)
        view.show_version(self._versions.get(message.id, _ALONE))
        if self.edits.is_open(message.id):
            view.open_editor()
        self.selection.adopt(view)
        self.texts_changed.emit()
        return view

    def _show_near(self, budget: Budget | None = None) -> None:
        bar = self.verticalScrollBar()
        if self.column.show_part(bar.value(), bar.value() + self.viewport().height(), budget):
            self._building.start()

    # ---- scrolling --------------------------------------------------------------------------------------------------

    def scroll_to_bottom(self) -> None:
        """Show the end, and follow it from now on."""
        self._follows, self._sought = True, None
        self._on_range_changed()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Keep the column in the middle, and the button at the lower edge."""
        super().resizeEvent(event)
        size = self._to_bottom.sizeHint()
        self._to_bottom.resize(size)
        self._to_bottom.move((self.width() - size.width()) // 2, self.height() - size.height() - _BUTTON_MARGIN)
        self._fit()
        self._building.start()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """With Ctrl the wheel changes the size of the text."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            steps = event.angleDelta().y()
            self.zoom_requested.emit((steps > 0) - (steps < 0))
            event.accept()
        else:
            super().wheelEvent(event)

    def _fit(self) -> None:
        """Give the page the room it wants; the column stays above the composer, with a scroll bar or without."""
        width = self.width()
        column = max(0, min(COLUMN_WIDTH, width - 2 * SIDE_MARGIN))
        self.column.set_place((width - column) // 2 - self.viewport().x(), column)
        room = self.viewport().size()
        self.column.resize(room.width(), max(room.height(), self.column.wanted_height))

    def _approach(self) -> None:
        """Bring the mark into view; where its text is not laid out yet, about there, and again once it is."""
        index, place_of = self._sought or (-1, _mark_place)
        view = self.column.view(index)
        if view is None or (place := place_of(view)) is None:
            self._sought = None
            return
        if place.height() > 1:  # no guess
            self._sought = None
        self.ensureVisible(0, view.y() + place.center().y(), 0, self.viewport().height() // 3)

    def _show_editor(self, view: MessageView) -> None:
        """Bring what is to be written in into view, also at the end of a conversation, which is followed no longer."""
        if view.editor is None:
            return
        self._follows, self._sought = False, None
        view.editor.show()  # a layout would do so later, and gives no room to what is hidden
        self.column.settle()
        field = view.editor.geometry().translated(view.pos())
        for height in (field.bottom(), field.top()):  # of one that is too high, the beginning
            self.ensureVisible(0, height, 0, _EDITOR_MARGIN)
        self._on_scrolled()  # it may be the end that is seen

    def _give_up(self) -> None:
        """A person scrolls: the mark is not sought any more."""
        self._sought = None

    def _on_shifted(self, pixels: int) -> None:
        bar = self.verticalScrollBar()
        if not self._follows:
            bar.setValue(bar.value() + pixels)

    def _on_range_changed(self) -> None:
        bar = self.verticalScrollBar()
        if self._follows:
            bar.setValue(bar.maximum())
        elif self._sought is not None:
            self._approach()
        self._show_button()

    def _on_scrolled(self) -> None:
        bar = self.verticalScrollBar()
        self._follows = bar.value() >= bar.maximum() - _AT_BOTTOM
        self._show_button()
        self._building.start()

    def _show_button(self) -> None:
        bar = self.verticalScrollBar()
        self._to_bottom.setVisible(not self._follows and bar.value() < bar.maximum() - _AT_BOTTOM)


def _mark_place(view: MessageView) -> QRect | None:
    return None if isinstance(view, QuestionView) else view.mark_place

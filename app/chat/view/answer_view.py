"""An answer as it is shown: its text, which appears evenly, its figures, and its tools."""

import time
from collections.abc import Sequence

from PySide6.QtCore import QPoint, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from app.chat.history.answer_parts import Part, answer_text, head_and_rest, parts_of
from app.chat.history.calls import Call, CallState, Decision
from app.chat.history.message import TEXT, THOUGHT, Message, Version
from app.chat.history.token_origins import TokenOrigins
from app.chat.origins.answer_origins import AnswerOrigins
from app.chat.text.document_style import Look
from app.chat.text.manuscript import Manuscript
from app.chat.text.markdown_view import CATCH_UP_MS, WRITING_SECONDS, MarkdownView, Shown
from app.chat.text.message_text import MessageText
from app.chat.typesetting.formulas import Formulas
from app.chat.view.answer_figures import FiguresRow
from app.chat.view.answer_steps import AnswerSteps
from app.chat.view.message_tools import WAITS, MessageEditor, VersionSwitch, can_be_edited
from app.chat.view.reveal import Reveal
from app.chat.view.thought_view import ThoughtView
from app.chat.view.why_line import WhyLine
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip
from app.ui.theme import icon
from app.ui.throttle import FRAME_MS, Throttle
from app.ui.widgets import announce, copy_text, offer, quiet_tool, say_beside

_NO_TEXT = mark("This answer has no text.")
_NARROW = 660  # pixels: the figures go below the tools, so that they are one line


class AnswerView(QWidget):
    """Shows one answer, and follows it while it grows: at most once a frame, whatever comes in."""

    regenerate_requested = Signal(object)  # id
    compare_requested = Signal(object)  # id
    branch_requested = Signal(object)  # id
    cause_chosen = Signal(object)  # CausePlace
    edited = Signal(object, str, tuple)  # id (a number too long for a C int), the other wording, nothing attached
    edit_begun = Signal(object)  # MessageEditor
    version_chosen = Signal(object, int)  # id, index
    delete_requested = Signal(object)  # id
    text_added = Signal(object)  # MessageText: one more part of a long answer is shown
    editor_opened = Signal()  # to be written in now
    thought_added = Signal(object)  # MessageText: the same of its thinking
    call_decided = Signal(int, Decision)  # where it begins

    def __init__(
        self, message: Message, look: Look, formulas: Formulas | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Answer"))
        self._message = message
        self._look = look
        self._formulas = formulas
        self._arrived = message.text
        self._reveal = Reveal(len(message.text))
        self._divided: tuple[object, ...] = ()  # what was divided last, and its parts
        self._thought_part: Part | None = None
        self._text_part: Part | None = None
        self._rest: list[Part | Call] = []
        self.thought: ThoughtView | None = None
        self.steps: AnswerSteps | None = None  # from the first call of a tool on
        self.body = MarkdownView(look, formulas, self)
        self.body.name(tr("Answer text"))
        self.body.section_added.connect(self._on_section_added)
        self.origins = AnswerOrigins(look, self)
        self.origins.add_body(self.body)
        self._stretch: tuple[int, int] | None = None  # that is marked, in what the model wrote
        if message.probabilities is not None:
            self.origins.set_probabilities(message.probabilities)
        self.figures = FiguresRow(look.colors, self)
        self.why = WhyLine(self.figures)
        self.figures.put_behind(self.why)
        self.why.chosen.connect(self.cause_chosen)
        self.versions = VersionSwitch(self)
        self._copy = quiet_tool(self, tr("Copy answer"), self.copy)
        self.edit_tool = quiet_tool(self, tr("Edit answer"), self.edit)
        self._regenerate = quiet_tool(self, tr("Regenerate answer"), self._on_regenerate)
        self.compare_tool = quiet_tool(self, tr("Compare answers"), self._on_compare)
        self.branch_tool = quiet_tool(self, tr("Branch from here into a new chat"), self._on_branch)
        self.delete_tool = quiet_tool(self, tr("Delete question and answer"), self._on_delete)
        self.editor: MessageEditor | None = None
        self._is_answering, self._is_last, self._has_versions = False, True, False
        self._lay_out()
        self._throttle = Throttle(self._flush, parent=self)
        self._again = QTimer(self, singleShot=True, interval=FRAME_MS)
        self._again.timeout.connect(self._flush)
        self.body.fell_behind.connect(self._on_fell_behind)
        self.versions.chosen.connect(lambda index: self.version_chosen.emit(self._message.id, index))
        self._show_tools()
        self._offer_tools()
        self._flush()

    def _lay_out(self) -> None:
        self._actions = QWidget(self)
        row = QHBoxLayout(self._actions)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2)
        for tool in (*self._tools, self.versions):  # the switch appears later, and must move no tool away
            row.addWidget(tool)
        self._foot = foot = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        foot.setContentsMargins(0, 0, 0, 0)
        foot.setSpacing(12)
        foot.addWidget(self._actions, 0, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        foot.addWidget(self.figures, 1, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        self._column.addWidget(self.body)
        self._column.addLayout(foot)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Where there is little room beside the tools, the figures go below them."""
        super().resizeEvent(event)
        narrow, direction = self.width() < _NARROW, QBoxLayout.Direction
        self._foot.setDirection(direction.TopToBottom if narrow else direction.LeftToRight)
        self._foot.setSpacing(4 if narrow else 12)

    @property
    def message(self) -> Message:
        """The answer as it stands."""
        return self._message

    @property
    def markdown(self) -> Manuscript:
        """The Markdown of the answer as far as it is to be seen."""
        return self.body.manuscript

    @property
    def text(self) -> MessageText:
        """The first part of the answer's text that is shown."""
        return self.texts[0]

    @property
    def tools(self) -> Sequence[QToolButton]:
        """Its buttons, those that can be seen."""
        return [each for each in self._tools if each.isVisible()]

    @property
    def _tools(self) -> Sequence[QToolButton]:
        return self._copy, self.edit_tool, self._regenerate, self.compare_tool, self.branch_tool, self.delete_tool

    @property
    def texts(self) -> list[MessageText]:
        """All parts that are shown, from top to bottom."""
        return [*self.body.texts, *(self.steps.texts if self.steps is not None else ())]

    @property
    def parts(self) -> list[tuple[int, int, MessageText]]:
        """Every text that exists, with the part of the message and the section that it is."""
        thought = self.thought.body.sections if self.thought is not None and self.thought.body is not None else []
        return [
            *((THOUGHT, number, text) for number, text in thought),
            *((TEXT, number, text) for number, text in self.body.sections),
            *(self.steps.parts if self.steps is not None else ()),
        ]

    def guess_of(self, part: int, section: int) -> QRect:
        """About where a section begins that is not laid out, one pixel high."""
        if part > TEXT:
            return self.steps.guess_of(part, section).translated(self.steps.pos()) if self.steps else QRect(0, 0, 1, 1)
        body = self.body if part == TEXT or self.thought is None else self.thought.body
        if body is None:
            assert self.thought is not None, "there is no body of something else"
            return QRect(self.thought.pos(), QSize(1, 1))
        return QRect(body.mapTo(self, QPoint(0, body.top_of(section))), QSize(1, 1))

    def unfold(self, part: int) -> None:
        """Show what was thought in this part; it is written a little at a time."""
        if part == THOUGHT and self.thought is not None:
            self.thought.header.setChecked(True)
        elif part > TEXT and self.steps is not None:
            self.steps.unfold(part)

    @property
    def _bodies(self) -> list[MarkdownView]:
        """All that is said, from top to bottom."""
        return [self.body, *(self.steps.bodies if self.steps is not None else ())]

    @property
    def selection(self) -> str:
        """What is selected, as it is copied."""
        return "\n\n".join(filter(None, (each.selection for each in self._bodies)))

    @property
    def is_selected(self) -> bool:
        """Whether all of the answer is selected."""
        return all(each.selected.is_whole for each in self._bodies)

    def select_all(self) -> None:
        """Select all of the answer, the parts too that do not exist yet."""
        for each in self._bodies:
            each.selected.select_all()

    def clear_selection(self) -> None:
        """Select nothing of it."""
        for each in self._bodies:
            each.selected.clear()

    def show_part(self, top: int, bottom: int) -> None:
        """Know what can be seen of this widget, in pixels; the heights can lie outside of it."""
        self.body.show_part(top - self.body.y(), bottom - self.body.y())
        if self.thought is not None:
            self.thought.show_part(top - self.thought.y(), bottom - self.thought.y())
        if self.steps is not None:
            self.steps.show_part(top - self.steps.y(), bottom - self.steps.y())
        if self.body.is_behind:
            self._on_fell_behind()

    def take_shift(self) -> int:
        """By how many pixels what the reader sees of this answer has moved since the last time."""
        return sum(each.take_shift() for each in (self.body, self.thought, self.steps) if each is not None)

    def change(self, message: Message, added: str) -> None:
        """Take the answer's new state and the text that came with it; a screen reader says it when it is over."""
        is_over = message.ending.is_final and not self._message.ending.is_final
        self._message = message
        if is_over:
            self._offer_tools()
            announce(self, self.answer or self.figures.text)
        if message.probabilities is not None:
            self.origins.set_probabilities(message.probabilities)
        self._arrived += added
        self._reveal.add(len(added), time.monotonic())
        asks = any(each.state is CallState.WAITING for each in message.calls)
        if message.ending.is_final or asks or not self._look.smooth:
            self._reveal.finish()
        self._throttle.request()
        if message.ending.is_final:
            self._throttle.flush()

    def set_origins(self, origins: TokenOrigins) -> None:
        """Know which round the text comes from; more rounds can be added to it later."""
        self.origins.set_origins(origins)

    def mark(self, stretch: tuple[int, int] | None) -> None:
        """Mark these characters of what the model wrote; None for none."""
        self._stretch = stretch
        self.origins.mark(stretch)
        self._mark_thought()
        if self.steps is not None:
            self.steps.mark(stretch)

    def open_marked(self) -> None:
        """Show what is marked, also where it is part of the thinking."""
        if self.thought is not None and self._is_thought_marked:
            self.thought.open()
        if self.steps is not None:
            self.steps.open_marked()

    @property
    def mark_place(self) -> QRect | None:
        """Where the mark begins in this widget; None if there is nothing to be seen of it."""
        place = self.origins.mark_place
        if place is None and self.thought is not None and self._is_thought_marked:
            return self.thought.geometry()
        if place is None and self.steps is not None and (inside := self.steps.mark_place) is not None:
            return inside.translated(self.steps.pos())
        return place

    def edit(self) -> None:
        """Write the answer in other words, in its place."""
        self.open_editor()
        if self.editor is not None:
            self.editor.setFocus()
            self.editor_opened.emit()

    def open_editor(self) -> None:
        """Show the field for other words, which can be written in later."""
        if self.editor is None:
            if not can_be_edited(self._message.text, self.edit_tool):
                return
            self.editor = MessageEditor(self._message.text, tr("Save"), self._look.zoom, self)
            self.editor.accepted.connect(lambda text: self.edited.emit(self._message.id, text, ()))
            self.editor.accepted.connect(self._end_edit)
            self.editor.cancelled.connect(self._end_edit)
            self.editor.cancelled.connect(self.edit_tool.setFocus)
            self._column.insertWidget(0, self.editor)
            self.body.hide()
            if self.steps is not None:
                self.steps.hide()
            self.edit_begun.emit(self.editor)

    def show_version(self, version: Version) -> None:
        """Show which of the answers to the question this is; where there is one, it goes with its question."""
        self.versions.show_version(version)
        self._has_versions = version.count > 1
        self._offer_tools()

    def set_answering(self, answering: bool) -> None:
        """While an answer is under way, none can be changed."""
        self._is_answering = answering
        self.versions.set_answering(answering)
        self._offer_tools()
        if self.editor is not None:
            self.editor.set_answering(answering)

    def set_last(self, is_last: bool) -> None:
        """What follows an answer stays with it, and is not seen behind a new one."""
        self._is_last = is_last
        self._offer_tools()

    def set_names_model(self, names_model: bool) -> None:
        """Whether to name its model beside the figures, as other models wrote other answers of the chat."""
        self.figures.set_names_model(names_model)

    def set_look(self, look: Look) -> None:
        """Show everything in other colours or another size."""
        rewritten = look.writing != self._look.writing
        self._look = look
        self._show_tools()
        self.figures.set_colors(look.colors)
        if rewritten:
            self.body.set_look(look)
        self.origins.set_look(look)
        if rewritten:
            self._flush()
        for part in (self.thought, self.steps):
            if part is not None:
                part.set_look(look)

    def copy(self) -> None:
        """Put the answer on the clipboard, as the Markdown it was written in; what was thought before is left out.

        Without a text, what is there on the clipboard stays.
        """
        if answer := self.answer:
            copy_text(answer, self._copy)
        else:
            say_beside(self._copy, tr(_NO_TEXT))

    @property
    def answer(self) -> str:
        """The answer as the Markdown it was written in, without the thinking and the calls of tools."""
        return answer_text(self._message.text, self._message.calls)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _offer_tools(self) -> None:
        """Offer what can be done with the answer as it stands: without a text only another one can be had."""
        waits = tr(WAITS) if self._is_answering else ""
        lacks = "" if self._message.text else tr(_NO_TEXT)
        offer(self.edit_tool, tr("Edit answer"), waits or lacks)
        regenerate = tr("Regenerate answer")
        offer(self._regenerate, regenerate, waits)
        if not self._is_last and not waits:
            told = tr("Regenerate answer: what follows stays with this version")
            self._regenerate.setToolTip(tip(told))
            self._regenerate.setAccessibleDescription(told)
        offer(self.compare_tool, tr("Compare answers"), lacks)
        offer(self.branch_tool, tr("Branch from here into a new chat"), waits or lacks)
        delete = tr("Delete this version") if self._has_versions else tr("Delete question and answer")
        self.delete_tool.setAccessibleName(delete)
        offer(self.delete_tool, delete, waits)

    def _show_tools(self) -> None:
        muted = self._look.colors.muted
        self._copy.setIcon(icon("copy", muted))
        self.edit_tool.setIcon(icon("edit", muted))
        self._regenerate.setIcon(icon("regenerate", muted))
        self.compare_tool.setIcon(icon("compare", muted))
        self.branch_tool.setIcon(icon("branch", muted))
        self.delete_tool.setIcon(icon("delete", muted))
        self.versions.set_theme(self._look.colors)

    def _on_regenerate(self) -> None:
        self.regenerate_requested.emit(self._message.id)

    def _on_delete(self) -> None:
        self.delete_requested.emit(self._message.id)

    def _on_branch(self) -> None:
        self.branch_requested.emit(self._message.id)

    def _on_compare(self) -> None:
        self.compare_requested.emit(self._message.id)

    def _on_section_added(self, shown: Shown) -> None:
        self.text_added.emit(shown.text)

    def _on_fell_behind(self) -> None:
        if not self._again.isActive():
            self._again.start(0)

    def _end_edit(self) -> None:
        if self.editor is not None:
            self.editor.hide()
            self.editor.deleteLater()
            self.editor = None
            self.body.setVisible(bool(self.markdown.text))
            if self.steps is not None:
                self.steps.show()

    def _flush(self) -> None:
        """Show what is to be seen by now; once more in a frame as long as there is more."""
        shown = self._reveal.shown(time.monotonic())
        self._divide(shown)
        self._show_thought()
        self.body.show_text(self._text_part.text if self._text_part else "")
        if self.body.is_behind:
            self.body.work(WRITING_SECONDS)
            self.origins.show_written(self.body, self._text_part.begin if self._text_part else 0)
        self.body.setVisible(bool(self.markdown.text) and self.editor is None)
        self._show_steps()
        self._actions.setVisible(self._message.ending.is_final)
        says = any(isinstance(each, Part) and not each.is_thought for each in (self._text_part, *self._rest))
        if self._copy.isEnabled() != says:  # nothing would take the place of what is on the clipboard
            offer(self._copy, tr("Copy answer"), "" if says else tr(_NO_TEXT))
        self.figures.show_message(self._message)
        self.why.show_message(self._message)
        if shown < len(self._arrived) or self.body.is_behind:
            self._again.start(CATCH_UP_MS if self.body.is_behind else FRAME_MS)

    def _divide(self, shown: int) -> None:
        divided = (shown, self._message.calls, self._message.opening)
        if divided != self._divided:
            self._divided = divided
            parts = parts_of(self._arrived[:shown], self._message.calls, self._message.opening)
            self._thought_part, self._text_part, self._rest = head_and_rest(parts)

    def _show_steps(self) -> None:
        if self.steps is None:
            if not self._rest:
                return
            self.steps = AnswerSteps(self._look, self._formulas, self.origins, self)
            self.steps.text_added.connect(self.text_added)
            self.steps.thought_added.connect(self.thought_added)
            self.steps.decided.connect(self.call_decided)
            self._column.insertWidget(self._column.indexOf(self.body) + 1, self.steps)
            self.steps.mark(self._stretch)
        self.steps.show_parts(self._rest, not self._message.ending.is_final)

    def _show_thought(self) -> None:
        part = self._thought_part
        if part is None:
            return
        if self.thought is None:
            self.thought = ThoughtView(self._look, self._formulas, self)
            self.thought.built.connect(self._on_thought_built)
            self.thought.written.connect(self._on_thought_written)
            self._column.insertWidget(0, self.thought)
        growing = not self._message.ending.is_final
        self.thought.show_thought(part.text, part.is_thinking and growing, self._message.thought_seconds)
        self._mark_thought()

    @property
    def _is_thought_marked(self) -> bool:
        if self._stretch is None or self._thought_part is None:
            return False
        behind = self._text_part or next(iter(self._rest), None)
        return behind is None or self._stretch[0] < behind.begin

    def _mark_thought(self) -> None:
        if self.thought is not None:
            self.thought.set_marked(self._is_thought_marked)

    def _on_thought_built(self) -> None:
        if self.thought is not None and self.thought.body is not None:
            self.origins.add_body(self.thought.body)
            for each in self.thought.body.texts:
                self.thought_added.emit(each)
            self.thought.body.section_added.connect(lambda shown: self.thought_added.emit(shown.text))

    def _on_thought_written(self) -> None:
        if self.thought is not None and self.thought.body is not None:
            self.origins.show_written(self.thought.body, self._thought_part.begin if self._thought_part else 0)

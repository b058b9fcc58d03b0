"""What an answer shows from its first call of a tool on: calls, and what the model thought and said behind them."""

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QPoint, QRect, QSize, QTimer, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.chat.history.answer_parts import Part
from app.chat.history.calls import Call, Decision
from app.chat.origins.answer_origins import AnswerOrigins
from app.chat.text.document_style import Look
from app.chat.text.markdown_view import CATCH_UP_MS, WRITING_SECONDS, MarkdownView
from app.chat.text.message_text import MessageText
from app.chat.typesetting.formulas import Formulas
from app.chat.view.call_card import CallCard
from app.chat.view.thought_view import ThoughtView
from app.i18n.translation import tr

FIRST_PART = 2
"""The number of the first of these parts among all parts of the message."""

_Stretch = tuple[int, int] | None


class AnswerSteps(QWidget):
    """Grows with the answer: parts that are there already stay as long as they are of the same kind."""

    decided = Signal(int, Decision)  # where a call begins in the answer
    text_added = Signal(object)  # MessageText
    thought_added = Signal(object)  # MessageText

    def __init__(self, look: Look, formulas: Formulas | None, origins: AnswerOrigins, parent: QWidget) -> None:
        super().__init__(parent)
        self._look, self._formulas, self._origins = look, formulas, origins
        self._parts: list[Part | Call] = []
        self._widgets: list[CallCard | ThoughtView | MarkdownView] = []
        self._stretch: _Stretch = None
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        self._again = QTimer(self, singleShot=True, interval=CATCH_UP_MS)
        self._again.timeout.connect(self._work)

    def show_parts(self, parts: Sequence[Part | Call], is_open: bool) -> None:
        """Show these; `is_open`: the answer is under way."""
        self._parts = list(parts)
        kept = 0
        while kept < min(len(parts), len(self._widgets)) and isinstance(self._widgets[kept], _kind(parts[kept])):
            kept += 1
        self._remove_from(kept)
        for part in parts[kept:]:
            widget = self._make(part)
            self._widgets.append(widget)
            self._column.addWidget(widget)
        for part, widget in zip(parts, self._widgets, strict=True):
            if isinstance(widget, CallCard):
                assert isinstance(part, Call), "cards are those of calls"
                widget.show_call(part, is_open)
            elif isinstance(part, Part) and isinstance(widget, ThoughtView):
                widget.show_thought(part.text, part.is_thinking and is_open, 0.0)
            elif isinstance(part, Part) and isinstance(widget, MarkdownView):
                widget.show_text(part.text)
        self._work()
        self.mark(self._stretch)

    @property
    def cards(self) -> list[CallCard]:
        """Those of the calls, from top to bottom."""
        return [each for each in self._widgets if isinstance(each, CallCard)]

    @property
    def bodies(self) -> list[MarkdownView]:
        """What is said."""
        return [each for each in self._widgets if isinstance(each, MarkdownView)]

    @property
    def texts(self) -> list[MessageText]:
        """All parts of what is said that exist, from top to bottom."""
        return [text for body in self.bodies for text in body.texts]

    @property
    def parts(self) -> list[tuple[int, int, MessageText]]:
        """Every text that exists, with the part of the message and the section that it is."""
        return [(number, section, text) for number, body in self._numbered() for section, text in body.sections]

    @property
    def is_behind(self) -> bool:
        """Whether there is more to be laid out."""
        return any(body.is_behind for body in self.bodies)

    def guess_of(self, part: int, section: int) -> QRect:
        """About where a section begins that is not laid out, one pixel high."""
        number = part - FIRST_PART
        if not 0 <= number < len(self._widgets):
            return QRect(QPoint(), QSize(1, 1))
        widget = self._widgets[number]
        body = widget.body if isinstance(widget, ThoughtView) else widget
        above = body.top_of(section) if isinstance(body, MarkdownView) else 0
        return QRect((body or widget).mapTo(self, QPoint(0, above)), QSize(1, 1))

    def unfold(self, part: int) -> None:
        """Show what was thought in this part."""
        widget = self._widgets[part - FIRST_PART] if part - FIRST_PART < len(self._widgets) else None
        if isinstance(widget, ThoughtView):
            widget.header.setChecked(True)

    def show_part(self, top: int, bottom: int) -> None:
        """Know what can be seen of this widget, in pixels; the heights can lie outside of it."""
        for each in self._widgets:
            if not isinstance(each, CallCard):
                each.show_part(top - each.y(), bottom - each.y())
        self._work()

    def take_shift(self) -> int:
        """By how many pixels what the reader sees has moved since the last time."""
        return sum(each.take_shift() for each in self._widgets if not isinstance(each, CallCard))

    def set_look(self, look: Look) -> None:
        """Show everything in other colours or another size."""
        rewritten = look.writing != self._look.writing
        self._look = look
        for each in self._widgets:
            if rewritten or not isinstance(each, MarkdownView):
                each.set_look(look)
        if rewritten:
            self._work()

    def mark(self, stretch: _Stretch) -> None:
        """Mark what a round wrote of calls and of what is folded; `origins` mark the texts."""
        self._stretch = stretch
        for part, widget in zip(self._parts, self._widgets, strict=True):
            if not isinstance(widget, MarkdownView):
                widget.set_marked(_overlaps(part, stretch))

    def open_marked(self) -> None:
        """Show what is marked, where it was thought."""
        for part, widget in zip(self._parts, self._widgets, strict=True):
            if isinstance(widget, ThoughtView) and _overlaps(part, self._stretch):
                widget.open()

    @property
    def mark_place(self) -> QRect | None:
        """Where a call or what was thought is marked; None for neither."""
        marked = (each.geometry() for part, each in zip(self._parts, self._widgets, strict=True)
                  if not isinstance(each, MarkdownView) and _overlaps(part, self._stretch))  # fmt: skip
        return next(marked, None)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _make(self, part: Part | Call) -> "CallCard | ThoughtView | MarkdownView":
        if isinstance(part, Call):
            card = CallCard(self._look, self)
            card.decided.connect(self.decided)
            return card
        if part.is_thought:
            thought = ThoughtView(self._look, self._formulas, self)
            thought.built.connect(lambda: self._on_thought_built(thought))
            thought.written.connect(lambda: self._tell_origins(thought))
            return thought
        body = MarkdownView(self._look, self._formulas, self)
        body.name(tr("Answer text"))
        body.section_added.connect(lambda shown: self.text_added.emit(shown.text))
        body.fell_behind.connect(self._again.start)
        self._origins.add_body(body)
        for text in body.texts:
            self.text_added.emit(text)
        return body

    def _remove_from(self, kept: int) -> None:
        for widget in self._widgets[kept:]:
            body = widget.body if isinstance(widget, ThoughtView) else widget
            if isinstance(body, MarkdownView):
                self._origins.remove_body(body)
            widget.hide()
            widget.deleteLater()
        del self._widgets[kept:]

    def _work(self) -> None:
        """Lay out what is missing, as far as there is time."""
        for widget in self.bodies:
            if widget.is_behind:
                widget.work(WRITING_SECONDS)
            self._tell_origins(widget)
        if self.is_behind:
            self._again.start()

    def _tell_origins(self, widget: ThoughtView | MarkdownView) -> None:
        if widget not in self._widgets:
            return
        part = self._parts[self._widgets.index(widget)]
        body = widget.body if isinstance(widget, ThoughtView) else widget
        if body is not None and isinstance(part, Part):
            self._origins.show_written(body, part.begin)

    def _on_thought_built(self, thought: ThoughtView) -> None:
        assert thought.body is not None, "it is there now"
        self._origins.add_body(thought.body)
        for text in thought.body.texts:
            self.thought_added.emit(text)
        thought.body.section_added.connect(lambda shown: self.thought_added.emit(shown.text))

    def _numbered(self) -> Iterator[tuple[int, MarkdownView]]:
        for number, widget in enumerate(self._widgets, FIRST_PART):
            body = widget.body if isinstance(widget, ThoughtView) else widget
            if isinstance(body, MarkdownView):
                yield number, body


def _kind(part: Part | Call) -> type[QWidget]:
    if isinstance(part, Call):
        return CallCard
    return ThoughtView if part.is_thought else MarkdownView


def _overlaps(part: Part | Call, stretch: _Stretch) -> bool:
    end = part.end if isinstance(part, Call) else part.begin + len(part.text)
    return stretch is not None and stretch[0] < end and part.begin < stretch[1]

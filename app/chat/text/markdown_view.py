"""An answer's text: a column of sections, of which only those near the reader exist as documents.

However long a text is, no document is: what is laid out when a word comes, or the width changes, stays the same.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from PySide6.QtCore import Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.chat.text.blocks import BlockStream
from app.chat.text.document import MarkdownDocument
from app.chat.text.document_style import Look
from app.chat.text.manuscript import BlockSource, Manuscript, estimated_height
from app.chat.text.message_text import MessageText
from app.chat.text.rendering import BlockRenderer
from app.chat.text.selection import SectionSelection
from app.chat.typesetting.formulas import Formulas
from app.chat.typesetting.layout_cost import Budget, Clock

WRITING_SECONDS = 0.010  # of a frame; what is not written then is written in the next one
CATCH_UP_MS = 10  # until then

_CUTTING = 0.6  # of the time, so that there is always some left for writing
_FIRST_SIGHT = (0, 1_000)  # pixels that are taken for seen until somebody tells
_MOST_KEPT = 6  # sections that nobody sees


@dataclass(frozen=True, slots=True)
class Shown:
    """A section that exists."""

    text: MessageText
    document: MarkdownDocument


@dataclass(frozen=True, slots=True)
class Writing:
    """How a text is cut into blocks, and what writes them."""

    stream: Callable[[], BlockSource]
    document: type[MarkdownDocument]


MARKDOWN = Writing(BlockStream, MarkdownDocument)


class MarkdownView(QWidget):
    """Shows growing Markdown, a little in every turn of the event loop: its owner calls `work` while `is_behind`.

    `section_added` tells of a section that has come near, `fell_behind` of pictures that have come for what is shown.
    """

    section_added = Signal(object)  # Shown
    fell_behind = Signal()

    def __init__(
        self,
        look: Look,
        formulas: Formulas | None = None,
        parent: QWidget | None = None,
        style: str = "",
        writing: Writing = MARKDOWN,
    ) -> None:
        """`style`: what the style sheet calls the texts; `writing`: another kind of text than Markdown."""
        super().__init__(parent)
        self._writing = writing
        self._style = style
        self._look = look
        self._formulas = formulas
        self._renderer = BlockRenderer(look.colors)
        self._name = ""
        self.manuscript = Manuscript(stream=writing.stream)
        self._shown: dict[int, Shown] = {}
        self.selected = SectionSelection(self.manuscript, self._shown)
        self._heights: list[int] = []
        self._tops: list[int] = []
        self._seen = _FIRST_SIGHT
        self._shift = 0
        self._is_busy = False
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._count_sections()
        self._ensure(0)
        self._place()

    # ---- what is shown ----------------------------------------------------------------------------------------------

    @property
    def shown(self) -> list[Shown]:
        """The sections that exist, from top to bottom; there is always one."""
        return [self._shown[index] for index in sorted(self._shown)]

    @property
    def texts(self) -> list[MessageText]:
        """Their texts."""
        return [each.text for each in self.shown]

    @property
    def sections(self) -> list[tuple[int, MessageText]]:
        """Those that exist with their numbers, from top to bottom."""
        return [(index, self._shown[index].text) for index in sorted(self._shown)]

    @property
    def is_behind(self) -> bool:
        """Whether something that is to be seen is still to be written."""
        return self.manuscript.is_behind or any(not self._is_current(index) for index in self._wanted())

    def show_text(self, text: str) -> None:
        """Show this from now on; mostly it is what is shown already, and more."""
        if not text.startswith(self.manuscript.text):
            self.manuscript.clear()
            self._heights.clear()
            self._tops.clear()
            for index in list(self._shown):
                if index:
                    self._drop(index)
            self._count_sections()
            self._ensure(0)
            self._shown[0].document.clear()
        self.manuscript.add(text[len(self.manuscript.text) :])

    def work(self, seconds: float = math.inf, clock: Clock | None = None) -> None:
        """Cut and write until nothing is left to do or the time is up."""
        budgets = [Budget(share, clock) if clock else Budget(share) for share in (seconds * _CUTTING, seconds)]
        self._is_busy = True
        self.manuscript.cut(budgets[0])
        self._count_sections()
        for index in self._wanted():
            self._ensure(index)
            if not self._is_current(index):
                self._shown[index].document.write(budgets[1])
                if budgets[1].is_spent:
                    break
        self.selected.follow()
        self._is_busy = False
        self._place()

    def show_part(self, top: int, bottom: int) -> None:
        """Know what can be seen of this widget, in pixels; the heights can lie outside of it."""
        self._seen = (top, bottom)
        self._drop_far()

    def set_look(self, look: Look) -> None:
        """Show it in another way; what is near is written anew by `work`."""
        old, self._look = self._look, look
        if look.writing == old.writing:
            return
        self._renderer = BlockRenderer(look.colors)
        self._drop_unseen()
        self._is_busy = True
        for index, each in self._shown.items():
            each.text.set_zoom(look.zoom)
            each.document.set_renderer(self._renderer)
            self._heights[index] = self._heights[index] * look.zoom // old.zoom
        self._is_busy = False
        self._estimate_unwritten()
        self._place()

    def name(self, accessible: str) -> None:
        """How the text is announced to those who cannot see it."""
        self._name = accessible
        for text in self.texts:
            text.setAccessibleName(accessible)

    def take_shift(self) -> int:
        """By how many pixels what the reader sees has moved since the last time, for what became known above it."""
        shift, self._shift = self._shift, 0
        return shift

    def top_of(self, section: int) -> int:
        """How far down, in pixels, a section begins; about, as long as those above it are not laid out."""
        return self._tops[min(section, len(self._tops) - 1)]

    def guess_top(self, place: int) -> int:
        """How far down, in pixels, this place of the text is about, also where it is not laid out."""
        index = max(0, min(bisect_right(range(len(self._tops)), place, key=self.manuscript.begin), len(self._tops)) - 1)
        begin, end = (self.manuscript.begin(each) for each in (index, index + 1))
        return self._tops[index] + self._heights[index] * (place - begin) // max(1, end - begin)

    # ---- copies -----------------------------------------------------------------------------------------------------

    @property
    def selection(self) -> str:
        """What is selected, as it is copied."""
        return self.selected.text

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Keys that no section wants go to the conversation."""
        event.ignore()

    # ---- sections ---------------------------------------------------------------------------------------------------

    def _count_sections(self) -> None:
        """Make room for the sections there are; those that come while much is behind are counted at the end of it."""
        if self.manuscript.is_behind and self._heights:
            return
        for index in range(len(self._heights), self.manuscript.count):
            self._tops.append(sum(self._heights[-1:], self._tops[-1] if self._tops else 0))
            self._heights.append(0 if index == 0 else self._estimate(index))

    def _wanted(self) -> Iterator[int]:
        """The sections that are to exist: first those that are seen, then those around them and the end of the text."""
        top, bottom = self._seen
        margin = bottom - top
        last = len(self._heights) - 1
        seen = self._between(top, bottom)
        near = [each for each in self._between(top - margin, bottom + margin) if each not in seen]
        yield from (*seen, *near)
        if last not in seen and last not in near:
            yield last

    def _between(self, top: int, bottom: int) -> list[int]:
        first = max(0, bisect_right(self._tops, top) - 1)
        return [index for index in range(first, len(self._tops)) if self._tops[index] < bottom and bottom > 0]

    def _is_current(self, index: int) -> bool:
        return index in self._shown and self._shown[index].document.is_current

    def _is_whole(self, index: int) -> bool:
        """Whether all of a section is written, so that its height is known; the last one may still grow."""
        return self._is_current(index) and not self.manuscript.is_behind

    def _ensure(self, index: int) -> None:
        if index in self._shown:
            return
        text = MessageText(self)
        text.setObjectName(self._style)
        text.setAccessibleName(self._name)
        text.set_zoom(self._look.zoom)
        document = self._writing.document(text.document(), self.manuscript, self._renderer, self._formulas, index)
        text.follow(self.manuscript)
        document.fell_behind.connect(self.fell_behind)
        text.document().documentLayout().documentSizeChanged.connect(self._on_size_changed)
        before = max((each for each in self._shown if each < index), default=None)
        if before is not None:
            QWidget.setTabOrder(self._shown[before].text, text)
        self._shown[index] = Shown(text, document)
        text.setGeometry(0, 0, self.width(), text.height())
        text.show()
        self.section_added.emit(self._shown[index])

    def _drop(self, index: int) -> None:
        each = self._shown.pop(index)
        each.text.hide()
        each.text.deleteLater()

    def _drop_far(self) -> None:
        wanted = set(self._wanted())
        spare = sorted(self._shown.keys() - wanted, key=lambda each: -abs(self._tops[each] - self._seen[0]))
        for index in spare[: max(0, len(spare) - _MOST_KEPT)]:
            self._drop_unused(index)

    def _drop_unseen(self) -> None:
        wanted = set(self._wanted())
        for index in [each for each in self._shown if each not in wanted]:
            self._drop_unused(index)

    def _drop_unused(self, index: int) -> None:
        """A section in which a person has something going on stays."""
        text = self._shown[index].text
        is_marked = text.textCursor().hasSelection() and not self.selected.is_whole
        if len(self._shown) > 1 and not text.hasFocus() and not is_marked:
            self._drop(index)

    # ---- places -----------------------------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Lay out what is near in the new width, and guess the rest."""
        super().resizeEvent(event)
        if event.size().width() == event.oldSize().width():
            return
        self._drop_unseen()
        self._is_busy = True
        for each in self._shown.values():
            each.text.resize(self.width(), each.text.height())
            each.document.fit()
        self._is_busy = False
        self._estimate_unwritten()
        self._place()

    def _estimate(self, index: int) -> int:
        return estimated_height(self.manuscript.section(index), self.width(), self._look.zoom)

    def _estimate_unwritten(self) -> None:
        for index in range(len(self._heights)):
            if not self._is_whole(index):
                self._heights[index] = self._estimate(index)

    def _on_size_changed(self) -> None:
        if not self._is_busy:
            self._place()

    def _place(self) -> None:
        """Put every section in its place anew, and become as tall as they all are."""
        anchor = bisect_right(self._tops, self._seen[0]) - 1 if 0 < self._seen[0] < self.height() else -1
        before = self._tops[anchor] if anchor >= 0 else 0
        for index, each in self._shown.items():
            height = each.text.sizeHint().height()
            self._heights[index] = height if self._is_whole(index) else max(height, self._heights[index])
        *self._tops, total = accumulate(self._heights, initial=0)
        if anchor >= 0 and anchor < len(self._tops):
            self._shift += self._tops[anchor] - before
        for index, each in self._shown.items():
            each.text.setGeometry(0, self._tops[index], self.width(), each.text.height())
        self.setFixedHeight(total)

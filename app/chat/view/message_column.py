"""A column of messages of which only those near the reader exist as widgets; of the others the height is estimated."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from operator import add
from typing import TYPE_CHECKING, TypeAlias

from PySide6.QtCore import QCoreApplication, QEvent, Signal
from PySide6.QtWidgets import QApplication, QWidget

from app.chat.history.message import Message
from app.chat.typesetting.layout_cost import Budget
from app.chat.view.question_view import QuestionView

if TYPE_CHECKING:
    from app.chat.view.answer_view import AnswerView

MessageView: TypeAlias = "QuestionView | AnswerView"

TOP_MARGIN, BOTTOM_MARGIN, GAP = 28, 20, 22
_MOST_BUILT = 80
_AT_ONCE = 6  # views that are built before the event loop runs again
_LETTER_PIXELS, _LINE_PIXELS, _FRAME_PIXELS = 8, 24, 60
_ALWAYS_BUILT = 2  # the last turn


class MessageColumn(QWidget):
    """Lays messages out one below the other, and builds their views when they come near.

    `shifted` says by how many pixels everything the reader sees has moved, because a height above was only estimated.
    """

    shifted = Signal(int)
    resized = Signal()  # it wants to be `wanted_height` high

    def __init__(self, build: Callable[[int, Message], MessageView], parent: QWidget | None = None) -> None:
        """`build` makes the view of message number n as a child of this widget."""
        super().__init__(parent)
        self._build = build
        self.messages: list[Message] = []
        self._heights: list[int] = []
        self._tops: list[int] = []
        self._views: dict[int, MessageView] = {}
        self._left, self._width = 0, 400
        self._seen = (0, 0)

    @property
    def views(self) -> list[MessageView]:
        """Those that exist, from top to bottom."""
        return [self._views[index] for index in sorted(self._views)]

    @property
    def built(self) -> "list[tuple[int, MessageView]]":
        """The same with the numbers of their messages."""
        return [(index, self._views[index]) for index in sorted(self._views)]

    @property
    def wanted_height(self) -> int:
        """The height of all messages."""
        last = self._tops[-1] + self._heights[-1] if self._tops else TOP_MARGIN
        return last + BOTTOM_MARGIN

    def view(self, index: int) -> "MessageView | None":
        """The view of message number `index`, if it exists."""
        return self._views.get(index)

    def top(self, index: int) -> int:
        """Where message number `index` begins."""
        return self._tops[index]

    def index_at(self, height: int) -> int:
        """The number of the message at this height, or of the one above it; 0 where there is none."""
        return max(0, bisect_right(self._tops, height) - 1)

    def need(self, index: int) -> "MessageView":
        """The view of message number `index`, which is made if it does not exist."""
        self._ensure(index)
        self._measure(force=True)
        return self._views[index]

    def truncate(self, count: int) -> None:
        """Keep the first `count` messages."""
        for index in [each for each in self._views if each >= count]:
            self._drop(index)
        del self.messages[count:], self._heights[count:]
        self._place()

    def extend(self, messages: Iterable[Message]) -> None:
        """Add messages at the end; the last turn is built at once."""
        added = list(messages)
        self.messages += added
        self._heights += self._estimates(added)
        self._place()
        for index in range(max(0, len(self.messages) - _ALWAYS_BUILT), len(self.messages)):
            self._ensure(index)
        self._measure(force=True)

    def set_place(self, left: int, width: int) -> None:
        """Take this place and width."""
        if (left, width) == (self._left, self._width):
            return
        is_other_width = width != self._width
        self._left, self._width = left, width
        if is_other_width:
            built = {index: self._heights[index] for index in self._views}
            self._heights = self._estimates(self.messages)
            for index, height in built.items():
                self._heights[index] = height
        self._measure(force=True)

    def show_part(self, top: int, bottom: int, budget: Budget | None = None) -> bool:
        """Build what can be seen between these heights, and a little around it; True if more is to be built.

        With a `budget` at least one view is built, and then as many as there is time for.
        """
        self._seen = (top, bottom)
        margin = bottom - top
        seen = self._between(top, bottom)
        near = [each for each in self._between(top - margin, bottom + margin) if each not in seen]
        missing = [each for each in (*reversed(seen), *reversed(near)) if each not in self._views]
        built = 0
        while built < min(len(missing), _AT_ONCE) and not (built and budget is not None and budget.is_spent):
            self._ensure(missing[built])
            built += 1
        if missing:
            self._measure(force=True)
        for each in (*reversed(seen), *reversed(near)):
            if (view := self._views.get(each)) is not None:
                view.show_part(top - self._tops[each], bottom - self._tops[each])
        self._drop_far((top + bottom) // 2)
        return built < len(missing)

    def drop_unseen(self) -> None:
        """Give up views that are not near the reader, at once: they need not be styled and written anew."""
        top, bottom = self._seen
        near = self._between(2 * top - bottom, 2 * bottom - top)
        self._drop_unused(each for each in list(self._views) if each not in near)
        for each in self.children():
            QCoreApplication.sendPostedEvents(each, QEvent.Type.DeferredDelete)

    def settle(self) -> None:
        """Give every view the height that it wants by now."""
        self._measure()

    def event(self, event: QEvent) -> bool:
        """A view wants another height."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._measure()
        return super().event(event)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _estimates(self, messages: Sequence[Message]) -> list[int]:
        """How high each of them will be, more or less: there may be a hundred thousand."""
        letters = max(10, self._width // _LETTER_PIXELS)
        texts = [each.text for each in messages]
        return [_FRAME_PIXELS + (text.count("\n") + len(text) // letters + 1) * _LINE_PIXELS for text in texts]

    def _between(self, top: int, bottom: int) -> list[int]:
        """The numbers of the messages that reach into this part; their tops only grow."""
        first, end = max(0, bisect_right(self._tops, top) - 1), bisect_left(self._tops, bottom)
        return [index for index in range(first, end) if self._tops[index] + self._heights[index] > top]

    def _ensure(self, index: int) -> None:
        """Build a view, whose height is no estimate any more: all is to be put in its place anew."""
        if index not in self._views:
            view = self._build(index, self.messages[index])
            self._views[index] = view
            view.resize(self._width, self._heights[index])
            view.show()
            self._heights[index] = self._height_of(view)
            self._tell_focus_order(index)

    def _drop(self, index: int) -> None:
        view = self._views.pop(index)
        view.hide()
        view.deleteLater()

    def _drop_far(self, middle: int) -> None:
        far_first = sorted(self._views, key=lambda each: -abs(self._tops[each] - middle))
        self._drop_unused(far_first[: max(0, len(self._views) - _MOST_BUILT)])

    def _drop_unused(self, indices: Iterable[int]) -> None:
        """Give up these views, but for the last turn, and those in which a person has something going on."""
        focused = QApplication.focusWidget()
        for index in (each for each in indices if each < len(self.messages) - _ALWAYS_BUILT):
            view = self._views[index]
            is_used = view.editor is not None or (focused is not None and view.isAncestorOf(focused))
            if not is_used and not any(each.textCursor().hasSelection() for each in view.texts):
                self._drop(index)

    def _height_of(self, view: MessageView) -> int:
        """The height at our width; a text learns its own height when it gets its width, so the layout goes first."""
        layout = view.layout()
        assert layout is not None, "every message has a layout"
        height = 0
        for _ in range(3):
            layout.activate()
            wanted = layout.totalHeightForWidth(self._width) if layout.hasHeightForWidth() else -1
            wanted = wanted if wanted >= 0 else layout.totalSizeHint().height()
            if wanted == height:
                break
            height = wanted
            view.resize(self._width, height)
        return height

    def _measure(self, force: bool = False) -> None:
        changed = force
        for index, view in self._views.items():
            if view.width() != self._width:
                view.resize(self._width, view.height())
            height = self._height_of(view)
            changed = changed or height != self._heights[index]
            self._heights[index] = height
        if changed or len(self._tops) != len(self._heights):
            self._place()
        else:
            self._put()

    def _place(self) -> None:
        """Put everything in its place anew."""
        anchor = next((each for each in self._between_old(self._seen[0])), None)
        before = self._tops[anchor] if anchor is not None else 0
        steps = map(partial(add, GAP), self._heights[:-1])
        self._tops = list(accumulate(steps, initial=TOP_MARGIN)) if self._heights else []
        self._put()
        self.resized.emit()
        within = {index: view.take_shift() for index, view in self._views.items()}
        if anchor is not None and anchor < len(self._tops):
            shift = self._tops[anchor] - before + within.get(anchor, 0)
            if shift:
                self.shifted.emit(shift)

    def _between_old(self, top: int) -> Iterable[int]:
        """The messages that end below a height, as they stood last."""
        known = min(len(self._tops), len(self._views) and max(self._views) + 1)
        return (each for each in sorted(self._views) if each < known and self._bottom_of(each) > top)

    def _bottom_of(self, index: int) -> int:
        view = self._views[index]
        return view.y() + view.height()

    def _put(self) -> None:
        for index, view in self._views.items():
            view.setGeometry(self._left, self._tops[index], self._width, math.ceil(self._heights[index]))

    def _tell_focus_order(self, index: int) -> None:
        """Tab goes from top to bottom, whatever was built first."""
        later = min((each for each in self._views if each > index), default=None)
        if later is None:
            return
        chain = [*self._views[index].findChildren(QWidget), *self._views[later].findChildren(QWidget)[:1]]
        for first, second in pairwise(chain):
            QWidget.setTabOrder(first, second)

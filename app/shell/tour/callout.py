"""A bubble that points at a widget of the window, and a ring around that; it takes no focus until it is given some."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QKeyEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPalette,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QApplication, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.system.plain_text import tip
from app.ui.widgets import announce, claims_escape, label

WIDTH = 340  # pixels of a bubble where there is room
_ARROW = 10  # from the bubble to the tip
_RADIUS, _PADDING = 10, 14
_WITHIN = 6  # from the lower edge of a target that has room for the bubble
_RING, _RING_WIDTH = 3, 3  # pixels between the ring and what it is around, and of its line
_PANE = 120  # pixels of both sides of what is no button and no line of words
_ROOMY = QSize(300, 420)  # what is larger has room for the bubble within


class Side(Enum):
    """Where a bubble stands, seen from its target."""

    WITHIN = "within"
    BELOW = "below"
    ABOVE = "above"
    RIGHT = "right"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a bubble stands, its arrow's room included, and where the tip of the arrow is."""

    rect: QRect
    side: Side
    tip: QPoint


def placed(size: QSize, target: QRect, room: QRect, avoid: QRect) -> Placement:
    """The first place beside a target, within `room`, that leaves `avoid` free; or the one that is best at it."""
    sides = [Side.WITHIN] if target.width() >= _ROOMY.width() and target.height() >= _ROOMY.height() else []
    sides += [Side.BELOW, Side.ABOVE, Side.LEFT, Side.RIGHT]
    return min((_beside(side, size, target, room) for side in sides), key=lambda each: _harm(each, target, avoid))


def _beside(side: Side, size: QSize, target: QRect, room: QRect) -> Placement:
    middle = target.center()
    wanted = {
        Side.WITHIN: QPoint(middle.x() - size.width() // 2, target.bottom() - size.height() - _WITHIN),
        Side.BELOW: QPoint(middle.x() - size.width() // 2, target.bottom() + 1),
        Side.ABOVE: QPoint(middle.x() - size.width() // 2, target.top() - size.height()),
        Side.LEFT: QPoint(target.left() - size.width(), middle.y() - size.height() // 2),
        Side.RIGHT: QPoint(target.right() + 1, middle.y() - size.height() // 2),
    }[side]
    left = max(room.left(), min(wanted.x(), room.right() + 1 - size.width()))
    top = max(room.top(), min(wanted.y(), room.bottom() + 1 - size.height()))
    rect = QRect(QPoint(left, top), size)
    keep = _ARROW + _RADIUS + _ARROW
    x = max(rect.left() + keep, min(middle.x(), rect.right() - keep))
    y = max(rect.top() + keep, min(middle.y(), rect.bottom() - keep))
    tips = {
        Side.WITHIN: QPoint(x, rect.top()),
        Side.BELOW: QPoint(x, rect.top()),
        Side.ABOVE: QPoint(x, rect.bottom()),
        Side.LEFT: QPoint(rect.right(), y),
        Side.RIGHT: QPoint(rect.left(), y),
    }
    return Placement(rect, side, tips[side])


def _harm(place: Placement, target: QRect, avoid: QRect) -> int:
    """How much of what should be seen is covered, in pixels."""
    covered = place.rect.intersected(avoid)
    own = place.rect.intersected(target)
    return sum(max(0, each.width()) * max(0, each.height()) for each in (covered, own))


def _room_of(widget: QWidget) -> QRect:
    window = widget.parentWidget()
    return window.rect() if window is not None else QRect()


class Ring(QWidget):
    """A line around something; the mouse goes through it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def surround(self, target: QRect) -> None:
        """Stand around this part of the parent; just within a pane, which others adjoin."""
        out = 0 if min(target.width(), target.height()) >= _PANE else _RING + _RING_WIDTH
        self.setGeometry(target.adjusted(-out, -out, out, out).intersected(_room_of(self)))
        self.show()
        self.raise_()

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw the line."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self.palette().color(QPalette.ColorRole.Accent), _RING_WIDTH))
        half = _RING_WIDTH / 2
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(half, half, -half, -half), _RADIUS, _RADIUS)


class Callout(QWidget):
    """Says something of what it points at. Tab stays within it, Enter goes on, Escape ends it."""

    next_wanted = Signal()
    back_wanted = Signal()
    ended = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._placement = Placement(QRect(), Side.BELOW, QPoint())
        self._title = label("popover-title", "", self)
        self._words = label("callout-words", "", self)
        self._progress = QLabel(self)
        self._progress.setObjectName("quiet-text")
        self.skip = self._button(tr("Skip"), tr("End the tour (Esc)"), self.ended.emit)
        self.back = self._button(tr("Back"), tr("The step before"), self.back_wanted.emit)
        self.next = self._button(tr("Next"), tr("The next step (Enter)"), self.next_wanted.emit)
        self.next.setDefault(True)
        foot = QHBoxLayout()
        foot.setSpacing(6)
        foot.addWidget(self._progress, 1)
        for button in (self.skip, self.back, self.next):
            foot.addWidget(button)
        column = QVBoxLayout(self)
        edge = _ARROW + _PADDING
        column.setContentsMargins(edge, edge - 2, edge, edge - 2)
        column.setSpacing(8)
        column.addWidget(self._title)
        column.addWidget(self._words, 1)
        column.addLayout(foot)
        self.hide()

    @property
    def text(self) -> str:
        """Everything it says, for tests and screen readers."""
        return f"{self._progress.text()}. {self._title.text()}. {self._words.text()}"

    def show_step(self, title: str, words: str, number: int, count: int) -> None:
        """Say this; step `number`, from 1, of so many."""
        self._title.setText(title)
        self._words.setText(words)
        self._progress.setText(tr("{number} of {count}").format(number=number, count=count))
        is_last = number == count
        if (number == 1 and self.back.hasFocus()) or (is_last and self.skip.hasFocus()):
            self.next.setFocus()  # before Qt gives the focus to the next one, which ends the tour with Enter
        self.back.setEnabled(number > 1)
        self.next.setText(tr("Done") if is_last else tr("Next"))
        self.skip.setVisible(not is_last)
        self.setAccessibleName(f"{tr('Tour')}: {title}")
        self.setAccessibleDescription(words)

    def announce(self) -> None:
        """Have a screen reader say the step, wherever the focus is."""
        way = "" if self.isAncestorOf(QApplication.focusWidget() or self) else tr("Ctrl+F1 leads to it.")
        announce(self, f"{tr('Tour')}: {self.text} {way}".strip())

    def point_at(self, target: QRect, avoid: QRect) -> None:
        """Stand beside this part of the parent, and not over that one."""
        room = _room_of(self).adjusted(2, 2, -2, -2)
        width = min(WIDTH, room.width())
        layout = self.layout()
        assert layout is not None, "it was laid out"
        size = QSize(width, layout.totalHeightForWidth(width))
        self._placement = placed(size, target, room, avoid)
        self.setGeometry(self._placement.rect)
        self.show()
        self.raise_()
        self.update()

    def event(self, event: QEvent) -> bool:
        """Escape is ours while we have the focus, also where it would stop an answer."""
        return claims_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter presses what has the focus, Escape ends it all."""
        if event.key() == Qt.Key.Key_Escape:
            self.ended.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            focus = self.focusWidget()
            (focus if isinstance(focus, QPushButton) else self.next).click()
        else:
            super().keyPressEvent(event)

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802
        """Go round within the bubble; Qt also asks while that is being hidden, when there is nowhere to go."""
        ways = [each for each in (self.next, self.skip, self.back) if each.isVisible() and each.isEnabled()]
        if not ways:
            return False
        focus = self.focusWidget()
        here = ways.index(focus) if isinstance(focus, QPushButton) and focus in ways else 0
        there = ways[(here + (1 if forward else -1)) % len(ways)]
        there.setFocus(Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason)
        return True

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw the bubble with its arrow."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self.palette().color(QPalette.ColorRole.Accent), 2))
        painter.setBrush(self.palette().color(QPalette.ColorRole.Base))
        painter.drawPath(self._outline())

    def _outline(self) -> QPainterPath:
        box, arrow = QPainterPath(), QPainterPath()
        inner = QRectF(self.rect()).adjusted(_ARROW, _ARROW, -_ARROW, -_ARROW)
        box.addRoundedRect(inner, _RADIUS, _RADIUS)
        tip = QPointF(self._placement.tip - self._placement.rect.topLeft())
        along = QPointF(_ARROW, 0) if self._placement.side not in (Side.LEFT, Side.RIGHT) else QPointF(0, _ARROW)
        deep = {Side.ABOVE: QPointF(0, -1), Side.LEFT: QPointF(-1, 0), Side.RIGHT: QPointF(1, 0)}
        foot = tip + deep.get(self._placement.side, QPointF(0, 1)) * (_ARROW + 2)
        arrow.addPolygon(QPolygonF([tip, foot + along, foot - along]))
        arrow.closeSubpath()
        return box.united(arrow)

    def _button(self, text: str, meaning: str, act: Callable[[], object]) -> QPushButton:
        made = QPushButton(text, self)
        made.setObjectName("small")
        made.setToolTip(tip(meaning))
        made.clicked.connect(act)
        return made

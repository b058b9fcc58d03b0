"""From a guess that was rejected to another version of the answer, which goes on from there."""

import re
from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QMenu

from app.i18n.translation import tr
from app.system.plain_text import tip
from app.tree.picture.canvas import TreeCanvas
from app.tree.picture.picture import BONUS_NODE
from app.tree.rounds.snapshot import Snapshot
from app.tree.rounds.text import visible

_LONGEST = 40  # characters of the branch in the menu's words
# The names of special tokens, where a round of an older version does not say which of its tokens are special.
_SPECIAL_NAME = re.compile(r"<[|｜].*[|｜]>|</?s>|<(?:bos|eos|pad|unk|start_of_turn|end_of_turn)>", re.DOTALL)


def branch_text(tree: Snapshot, node: int) -> str:
    """What stands in the tree from behind the root down to `node`; what is no whole character is left out.

    Nothing where a token on the way writes no text, such as the end of an answer: no answer goes on behind it.
    """
    pieces: list[str] = []
    while node > 0:
        if _is_silent(tree, node):
            return ""
        pieces.append(tree.pieces[node])
        node = int(tree.parents[node])
    whole, _, _ = "".join(reversed(pieces)).partition("\N{REPLACEMENT CHARACTER}")
    return whole


def _is_silent(tree: Snapshot, node: int) -> bool:
    if tree.silent is None:
        return _SPECIAL_NAME.fullmatch(tree.pieces[node]) is not None
    return node in tree.silent


class Branching(QObject):
    """Offers what can be done with the node that was clicked, or chosen by key."""

    wanted = Signal(str)
    """A person wants the answer to go on with this text in place of what the round gave."""

    def __init__(self, canvas: TreeCanvas, hindrance: Callable[[], tuple[str, str]]) -> None:
        """`hindrance` tells why no branch can be begun at the moment, in few words and as a tooltip; empty: it can."""
        super().__init__(canvas)
        self._hindrance = hindrance
        self.menu: QMenu | None = None
        self._canvas = canvas
        self._pressed: QPointF | None = None
        canvas.viewport().installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """A click is a press and a release at the same place; anything else is a drag."""
        if isinstance(event, QMouseEvent) and event.button() == Qt.MouseButton.LeftButton:
            if event.type() == QEvent.Type.MouseButtonPress:
                self._pressed = event.position()
            elif event.type() == QEvent.Type.MouseButtonRelease and self._pressed is not None:
                way = event.position() - self._pressed
                self._pressed = None
                if way.manhattanLength() < QApplication.startDragDistance():
                    self._offer(self._canvas.node_at(event.position()), event.globalPosition().toPoint())
        return False

    def offer_picked(self) -> None:
        """For the node that is looked at by keys."""
        node, place = self._canvas.picked
        self._offer(node, self._canvas.viewport().mapToGlobal(place.bottomLeft()))

    def _offer(self, node: int | None, where: QPoint) -> None:
        tree = self._canvas.picture.tree if self._canvas.picture else None
        if tree is None or node is None or node == BONUS_NODE or not tree.is_verified or node in tree.accepted:
            return
        text = branch_text(tree, node)
        if not text:
            return
        menu = self.menu = QMenu(self._canvas)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.destroyed.connect(self._on_menu_gone)
        shown = visible(text, 0)
        shown = shown if len(shown) <= _LONGEST else "…" + shown[1 - _LONGEST :]
        words = tr("Continue from here: “{text}”").format(text=shown.replace("&", "&&"))
        reason, explanation = self._hindrance()
        action = menu.addAction(f"{words} ({reason})" if reason else words)
        action.setEnabled(not reason)
        action.setToolTip(tip(explanation))
        menu.setToolTipsVisible(bool(explanation))
        action.triggered.connect(lambda: self.wanted.emit(text))
        menu.popup(where)

    def _on_menu_gone(self) -> None:
        self.menu = None

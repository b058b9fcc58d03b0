"""A text browser as tall as its document: it never scrolls by itself and loads nothing."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, QSize, Qt, QUrl, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QCursor,
    QFont,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPalette,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QMenu, QSizePolicy, QTextEdit, QToolTip, QWidget

from app.chat.text.document_style import copied_block
from app.chat.text.links import follow_link, may_open, shown_address
from app.chat.text.selection import selected_text
from app.i18n.translation import tr
from app.system.plain_text import tip
from app.ui.theme import reading_font
from app.ui.widgets import SealedBrowser

if TYPE_CHECKING:
    from app.chat.text.manuscript import Manuscript


MarkedStretch = tuple[QTextCursor, QTextCharFormat]
"""Some text, selected, and how it is marked."""


class MessageText(SealedBrowser):
    """The text of one message: selectable, links open outside and only on a click."""

    copy_requested = Signal()  # by key or menu; whoever knows the other messages copies their selections too
    select_all_requested = Signal()  # the same
    menu_opened = Signal(QMenu)  # about to be shown; more can be added
    hovered = Signal(int)  # place in the document under the mouse, -1 for none
    pointed = Signal(int)  # the same of a click that neither selects nor follows a link

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._markdown: Manuscript | None = None
        self._zoom = 100
        self._layers: dict[str, list[MarkedStretch]] = {}
        self._clicked: QPointF | None = None  # while a button of the mouse is released
        self.setFont(self._wanted_font())
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.setMouseTracking(True)
        self.document().setDocumentMargin(0)
        self.setTabChangesFocus(True)
        palette = self.palette()
        palette.setColor(QPalette.ColorRole.Base, Qt.GlobalColor.transparent)
        self.setPalette(palette)
        self.anchorClicked.connect(self._on_anchor_clicked)
        self.highlighted.connect(self._on_highlighted)
        self.document().documentLayout().documentSizeChanged.connect(self._on_document_size_changed)

    def follow(self, markdown: "Manuscript") -> None:
        """Take code to copy from this text."""
        self._markdown = markdown

    def set_zoom(self, percent: int) -> None:
        """Show the text in another size."""
        self._zoom = percent
        self.setFont(self._wanted_font())

    def mark_layer(self, layer: str, stretches: Sequence[MarkedStretch]) -> None:
        """Mark stretches of the text, in the place of those that this layer had; later layers lie on earlier ones."""
        if stretches or self._layers.get(layer):
            self._layers[layer] = list(stretches)
            self.setExtraSelections([_extra(*each) for stretches in self._layers.values() for each in stretches])

    def layer(self, layer: str) -> Sequence[MarkedStretch]:
        """What a layer marks."""
        return self._layers.get(layer, ())

    @property
    def selection(self) -> str:
        """The selected text, as it is copied; empty if nothing is selected."""
        return selected_text(self.textCursor()) if self.textCursor().hasSelection() else ""

    def sizeHint(self) -> QSize:  # noqa: N802
        """As wide as its longest line, as tall as its text."""
        return QSize(math.ceil(self.document().idealWidth()), math.ceil(self.document().size().height()))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Any width will do."""
        return QSize(0, self.sizeHint().height())

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Another size of all text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self.font() != self._wanted_font():
            self.setFont(self._wanted_font())

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Leave the wheel to the list of messages."""
        event.ignore()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Copying and selecting everything by key is for the whole conversation to decide."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_requested.emit()
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_all_requested.emit()
        else:
            super().keyPressEvent(event)

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802
        """Tab goes from link to link; each says where it leads."""
        stays = super().focusNextPrevChild(forward)
        if stays and self.textCursor().hasSelection():
            place = self.textCursor().selectionStart()
            cursor = QTextCursor(self.document())
            cursor.setPosition(place + 1)
            self._show_address(QUrl(cursor.charFormat().anchorHref()), self.cursorRect().bottomLeft())
        return stays

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """The usual menu, which knows of the other messages, and of what can be done with this one."""
        menu = self.createStandardContextMenu(event.pos())
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        ours = {"edit-copy": self.copy_requested, "select-all": self.select_all_requested}
        for action in menu.actions():
            if action.objectName() in ours:
                action.triggered.disconnect()
                action.triggered.connect(ours[action.objectName()])
            elif action.objectName() == "link-copy":
                action.setVisible(action.isEnabled())
        self.menu_opened.emit(menu)
        menu.popup(event.globalPos())

    def clear_selection(self) -> None:
        """Select nothing."""
        cursor = self.textCursor()
        if cursor.hasSelection():
            cursor.clearSelection()
            self.setTextCursor(cursor)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Tell what is under the mouse."""
        super().mouseMoveEvent(event)
        if not event.buttons():
            self.hovered.emit(self.document().documentLayout().hitTest(event.position(), Qt.HitTestAccuracy.ExactHit))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Tell what was clicked."""
        self._clicked = event.position()
        super().mouseReleaseEvent(event)
        self._clicked = None
        is_plain = event.button() == Qt.MouseButton.LeftButton and not self.textCursor().hasSelection()
        if is_plain and not self.anchorAt(event.position().toPoint()):
            layout = self.document().documentLayout()
            self.pointed.emit(layout.hitTest(event.position(), Qt.HitTestAccuracy.ExactHit))

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Nothing is under the mouse any more."""
        super().leaveEvent(event)
        self.hovered.emit(-1)

    def createMimeDataFromSelection(self) -> QMimeData:  # noqa: N802
        """What is copied or dragged: plain text, formulas as they were written."""
        data = QMimeData()
        data.setText(self.selection)
        return data

    def _wanted_font(self) -> QFont:
        font = reading_font()
        if font.pointSizeF() > 0:
            font.setPointSizeF(font.pointSizeF() * self._zoom / 100)
        return font

    def _link_place(self) -> int:
        """Where in the document the link begins, or goes on, that was clicked or that the keyboard stands on."""
        if self._clicked is not None:
            return self.document().documentLayout().hitTest(self._clicked, Qt.HitTestAccuracy.FuzzyHit)
        return self.textCursor().selectionStart()

    def _on_anchor_clicked(self, url: QUrl) -> None:
        layout, words = _link_at(self.document(), self._link_place(), url)
        number = copied_block(layout)
        if number is None:
            follow_link(url, words, self)
        elif self._markdown is not None:
            QGuiApplication.clipboard().setText(self._markdown.code(number))
            QToolTip.showText(self.cursor().pos(), tr("Copied"), self)

    def _on_highlighted(self, url: QUrl) -> None:
        """The mouse has come to a link, or left it."""
        self._show_address(url, self.viewport().mapFromGlobal(QCursor.pos()))

    def _show_address(self, url: QUrl, place: QPoint) -> None:
        """Say where a link leads."""
        place = self.viewport().mapToGlobal(place)
        QToolTip.showText(place, tip(shown_address(url)) if may_open(url) else "", self)

    def _on_document_size_changed(self) -> None:
        self.setFixedHeight(math.ceil(self.document().size().height()))


def _link_at(document: QTextDocument, place: int, url: QUrl) -> tuple[QTextCharFormat, str]:
    """The format and the visible text of the link with this address that a place is in, or at the edge of."""
    block = document.findBlock(place)
    pieces = block.begin()
    layout, words, is_it = QTextCharFormat(), "", False
    while not pieces.atEnd():
        fragment = pieces.fragment()
        pieces += 1
        if QUrl(fragment.charFormat().anchorHref()) != url or not fragment.charFormat().isAnchor():
            if is_it:
                break
            words = ""
            continue
        words += fragment.text()
        if fragment.position() <= place <= fragment.position() + fragment.length():
            layout, is_it = fragment.charFormat(), True
    return layout, words if is_it else ""


def _extra(stretch: QTextCursor, look: QTextCharFormat) -> QTextEdit.ExtraSelection:
    made = QTextEdit.ExtraSelection()
    made.cursor, made.format = stretch, look
    return made

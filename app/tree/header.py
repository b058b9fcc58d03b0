"""The lines above the tree: what the round has come to, which way it is shown, and what can be done with it."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QMenu, QToolButton, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.tree.caption import Caption
from app.tree.news import News
from app.tree.picture.canvas import CHIPS, ICICLE
from app.tree.tool_button import tool_button


class Header(QWidget):
    """Figures, below them the buttons, and news for as long as they are read."""

    way_chosen = Signal(str)
    """`CHIPS` or `ICICLE`."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.caption = Caption(self)
        self.news = News(self)
        self.caption.told.connect(self.news.tell)
        self._ways = {
            CHIPS: tool_button(tr("Chips"), tr("Tokens as chips: to be read. (1)"), self, checkable=True),
            ICICLE: tool_button(
                tr("Icicle"), tr("Tokens as bands, as high as they are likely: the overview. (2)"), self, checkable=True
            ),
        }
        self.fit = tool_button(
            tr("Fit"),
            tr(
                "Show the whole tree (F). Zoom with the wheel or + and −, drag to move, "
                "Home and End show where the accepted path begins and ends."
            ),
            self,
        )
        self.follow = tool_button(
            tr("Follow"),
            tr("Move to the end of the accepted path with every round. Dragging switches it off."),
            self,
            checkable=True,
        )
        self.follow.setChecked(True)
        self.more = tool_button("⋯", tr("Recordings, pictures, texts and explanations"), self)
        self.more.setAccessibleName(tr("More"))
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.menu = QMenu(self)
        self.more.setMenu(self.menu)
        self._lay_out()

    def set_way(self, way: str) -> None:
        """Mark the way that is shown."""
        self._ways[way].setChecked(True)

    def add_action(self, text: str) -> QAction:
        """Add an entry to the menu."""
        return self.menu.addAction(text)

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(2)
        group = QButtonGroup(self)
        for way, button in self._ways.items():
            group.addButton(button)
            row.addWidget(button)
            button.clicked.connect(lambda _checked, way=way: self.way_chosen.emit(way))
        row.addStretch(1)
        for button in (self.fit, self.follow, self.more):
            row.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 6, 4, 2)
        column.setSpacing(2)
        column.addWidget(self.caption)
        column.addLayout(row)
        column.addWidget(self.news)

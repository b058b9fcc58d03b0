"""The panel that shows the speculation tree of every round as it happens."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QKeySequence, QPalette, QShortcut, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedLayout, QToolButton, QVBoxLayout, QWidget

from app.throttle import Throttle
from app.tree.canvas import ZOOM_STEP, TreeCanvas
from app.tree.caption import Caption, figures
from app.tree.palette import DARK, LIGHT
from app.tree.snapshot import MalformedTreeError, snapshot
from engine.messages import Round

_EMPTY = "The speculation tree appears here while an answer is written."
_MALFORMED = "The tree of round {number} cannot be shown: {reason}. The answer itself is not affected."


class TreePanel(QWidget):
    """Shows the newest round. Takes rounds at any rate, lays out and paints at most 30 a second, and none unseen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        dark = self.palette().color(QPalette.ColorRole.Window).lightness() < 128
        self._round: Round | None = None
        self._throttle = Throttle(self._refresh, parent=self)
        self._caption = Caption(self)
        self._message = QLabel(_EMPTY, self)
        self._canvas = TreeCanvas(DARK if dark else LIGHT, self)
        self._fit = QToolButton(self)
        self._follow = QToolButton(self)
        self._pages = QStackedLayout()
        self._lay_out()
        self._connect()
        self.set_theme(dark)
        self._refresh()

    def show_round(self, round: Round) -> None:
        """Show a round, soon; a newer one takes its place if it comes first."""
        self._round = round
        self._throttle.request()

    def clear(self) -> None:
        """Show that there is no round yet."""
        self._round = None
        self._throttle.request()
        self._throttle.flush()

    def set_theme(self, dark: bool) -> None:
        """Change between dark and light colours."""
        colours = DARK if dark else LIGHT
        palette = QPalette(self.palette())
        for role in (QPalette.ColorRole.Window, QPalette.ColorRole.Button):
            palette.setColor(role, QColor(colours.background))
        for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.ButtonText):
            palette.setColor(role, QColor(colours.text))
        self.setPalette(palette)
        self._canvas.set_palette(colours)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Catch up with the rounds that came while the panel was out of sight."""
        super().showEvent(event)
        self._throttle.request()

    def _lay_out(self) -> None:
        self.setAutoFillBackground(True)
        self._message.setWordWrap(True)
        self._message.setTextFormat(Qt.TextFormat.PlainText)
        self._message.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._message.setMargin(24)
        self._fit.setText("Fit")
        self._fit.setToolTip(
            "Show the whole tree (F). Zoom with the wheel or + and −, drag to move, "
            "Home and End show where the accepted path begins and ends."
        )
        self._follow.setText("Follow")
        self._follow.setCheckable(True)
        self._follow.setChecked(True)
        self._follow.setToolTip("Move to the end of the accepted path with every round. Dragging switches it off.")
        header = QHBoxLayout()
        header.setContentsMargins(8, 4, 4, 4)
        header.addWidget(self._caption, 1)
        for button in (self._fit, self._follow):
            button.setAutoRaise(True)
            header.addWidget(button)
        self._pages.addWidget(self._message)
        self._pages.addWidget(self._canvas)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(header)
        column.addLayout(self._pages, 1)

    def _connect(self) -> None:
        self._fit.clicked.connect(self._canvas.fit)
        self._follow.toggled.connect(self._canvas.set_following)
        self._canvas.panned.connect(self._on_panned)
        self._canvas.composed.connect(self._on_composed)
        for key, slot in (
            ("F", self._canvas.fit),
            ("+", lambda: self._canvas.zoom_by(ZOOM_STEP)),
            ("-", lambda: self._canvas.zoom_by(1 / ZOOM_STEP)),
            ("Home", self._canvas.show_root),
            ("End", self._canvas.show_bonus),
        ):
            shortcut = QShortcut(QKeySequence(key), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(slot)

    def _on_panned(self) -> None:
        self._follow.setChecked(False)

    def _refresh(self) -> None:
        if self._round is None:
            self._show_message(_EMPTY)
        elif self.isVisible():
            self._show(self._round)

    def _show(self, newest: Round) -> None:
        try:
            tree = snapshot(newest)
        except MalformedTreeError as error:
            self._show_message(_MALFORMED.format(number=newest.index + 1, reason=error))
            return
        self._pages.setCurrentWidget(self._canvas)
        self._canvas.show_tree(tree)

    def _on_composed(self) -> None:
        picture = self._canvas.picture
        if picture:
            self._caption.show_figures(figures(picture.tree, shown=len(picture.layout.places) - 1))
            self._canvas.setAccessibleDescription(self._caption.text())

    def _show_message(self, text: str) -> None:
        self._canvas.show_tree(None)
        self._caption.show_figures(())
        self._message.setText(text)
        self._pages.setCurrentWidget(self._message)

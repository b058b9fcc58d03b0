"""The generation settings as a small window below their button; every valid change holds at once."""

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.chat.generation_form import GenerationForm
from app.labels import label
from app.settings import GenerationSettings, SettingsFile
from engine.errors import InputError

_WIDTH = 360


class GenerationPopover(QFrame):
    """Closes on Esc or a click elsewhere; what is out of range is said below the fields and not kept."""

    def __init__(self, settings: SettingsFile, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._settings = settings
        self.setObjectName("popover")
        self.setAccessibleName("Generation settings")
        self.setFixedWidth(_WIDTH)
        self.form = GenerationForm(self)
        self.error = label("error", "", self)
        self.error.hide()
        self.reset = QPushButton("Reset", self)
        self.reset.setToolTip("Back to the defaults")
        self.reset.clicked.connect(self._on_reset)
        foot = QHBoxLayout()
        foot.addWidget(label("quiet-text", "Used from the next answer on.", self), 1)
        foot.addWidget(self.reset)
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 16, 18, 16)
        column.setSpacing(12)
        column.addWidget(label("popover-title", "Generation settings", self))
        column.addWidget(self.form)
        column.addWidget(self.error)
        column.addLayout(foot)
        self.form.edited.connect(self._on_edited)

    def open_below(self, button: QWidget) -> None:
        """Show the settings that hold, with the right edge at the button's."""
        self.form.show_settings(self._settings.current.generation)
        self._show_error("")
        self.adjustSize()
        corner = button.mapToGlobal(QPoint(button.width(), button.height() + 6))
        screen = button.screen().availableGeometry()
        left = max(screen.left(), min(corner.x() - self.width(), screen.right() - self.width()))
        top = max(screen.top(), min(corner.y(), screen.bottom() - self.height()))
        self.move(left, top)
        self.show()
        self.form.method.setFocus()

    def _on_edited(self) -> None:
        try:
            self._settings.change(generation=self.form.read())
        except InputError as error:
            self._show_error(str(error))
        else:
            self._show_error("")

    def _on_reset(self) -> None:
        self.form.show_settings(GenerationSettings())
        self._on_edited()

    def _show_error(self, text: str) -> None:
        self.error.setText(text)
        self.error.setVisible(bool(text))
        self.adjustSize()

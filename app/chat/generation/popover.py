"""The generation settings of a conversation as a small window below their button; valid changes hold at once."""

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.chat.generation.controller import ChatController
from app.chat.generation.form import GenerationForm
from app.chat.generation.preset_row import PresetRow
from app.chat.generation.presets import Presets
from app.i18n.known_sentences import translated
from app.i18n.translation import tr
from app.settings.store import GenerationSettings
from app.ui.widgets import label
from engine.errors import InputError

_WIDTH, _MARGIN = 360, 18


class GenerationPopover(QFrame):
    """Closes on Esc or a click elsewhere; what is out of range is said below the fields and not kept."""

    def __init__(self, chat: ChatController, presets: Presets, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._chat = chat
        self._presets = presets
        self.setObjectName("popover")
        self.setAccessibleName(tr("Generation settings"))
        self.presets = PresetRow(presets, self)
        self.form = GenerationForm(self)
        self.error = label("error", "", self)
        self.error.hide()
        self.reset = QPushButton(tr("Reset"), self)
        self.reset.setToolTip(tr("Back to what new chats begin with"))
        self.reset.clicked.connect(self._on_reset)
        foot = QHBoxLayout()
        foot.addWidget(label("quiet-text", tr("For this chat, from the next answer on."), self), 1)
        foot.addWidget(self.reset)
        self._column = column = QVBoxLayout(self)
        column.setContentsMargins(_MARGIN, 16, _MARGIN, 16)
        column.setSpacing(12)
        column.addWidget(label("popover-title", tr("Generation settings"), self))
        column.addWidget(self.presets)
        column.addWidget(self.form)
        column.addWidget(self.error)
        column.addLayout(foot)
        self.form.edited.connect(self._on_edited)
        self.presets.applied.connect(self._on_applied)
        self.presets.failed.connect(self._show_error)
        chat.settings_changed.connect(self.presets.show_settings)

    def open_below(self, button: QWidget) -> None:
        """Show the settings that hold, with the right edge at the button's."""
        self.form.show_settings(self._chat.generation)
        self.presets.show_settings(self._chat.generation)
        self._show_error("")
        self.setFixedWidth(max(_WIDTH, self.form.sizeHint().width() + 2 * _MARGIN))  # words differ with the language
        screen = button.screen().availableGeometry()
        self._fit(screen.height())
        corner = button.mapToGlobal(QPoint(button.width(), button.height() + 6))
        left = max(screen.left(), min(corner.x() - self.width(), screen.right() - self.width()))
        top = max(screen.top(), min(corner.y(), screen.bottom() - self.height()))
        self.move(left, top)
        self.show()
        self.form.method.setFocus()

    def _on_edited(self) -> None:
        try:
            self._chat.change_settings(self.form.read())
        except InputError as error:
            self._show_error(str(error))
        else:
            self._show_error("")

    def _on_applied(self, generation: GenerationSettings) -> None:
        self.form.show_settings(generation)
        self._on_edited()

    def _on_reset(self) -> None:
        self._on_applied(self._presets.beginning)

    def _show_error(self, text: str) -> None:
        self.error.setText(translated(text))
        self.error.setVisible(bool(text))
        self._fit(self.screen().availableGeometry().height())

    def _fit(self, most: int) -> None:
        """Not `adjustSize`, which leaves a third of the screen free and squeezes everything on a low one."""
        self._column.activate()  # what is hidden now does not count any more
        self.resize(self.width(), min(self.sizeHint().height(), most))

"""The generation settings of a conversation as a small window below their button; valid changes hold at once."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QFrame, QHBoxLayout, QPushButton, QScrollArea, QWidget

from app.chat.generation.controller import ChatController
from app.chat.generation.form import GenerationForm
from app.chat.generation.formal_text import read_formal_text
from app.chat.generation.presets import Presets
from app.i18n.sentences import error_text
from app.i18n.translation import tr
from app.settings.generation import GenerationSettings
from app.settings.kinds import FormalText, form_of
from app.system.background import Stop
from app.system.plain_text import tip
from app.ui.file_dialogs import ask_for_file
from app.ui.jobs import Jobs
from app.ui.widgets import fill, label, page_body, row_of
from engine.errors import CoppiceError, InputError

_WIDTH, _MARGIN = 360, 18


class PresetRow(QWidget):
    """`applied` carries the settings of the preset that was chosen, `failed` what was wrong, nothing if all is well."""

    applied = Signal(GenerationSettings)
    failed = Signal(str)

    def __init__(self, presets: Presets, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._presets = presets
        self._shown = GenerationSettings()
        self._chosen = ""  # the preset that renaming and deleting are about
        self.names = QComboBox(self)
        self.names.setEditable(True)
        self.names.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.names.setAccessibleName(tr("Preset"))
        self.names.setToolTip(tr("Settings kept under a name: choose one to use it in this chat, or write a new name."))
        field = self.names.lineEdit()
        assert field is not None, "an editable box has a field"
        field.setPlaceholderText(tr("No preset: write a name to save one"))
        field.setAccessibleName(tr("Name of the preset"))
        self.save = self._button(tr("Save"), tr("Keep these settings under this name"), self._on_save)
        self.rename = self._button(tr("Rename"), tr("Give the preset that was chosen this name"), self._on_rename)
        self.delete = self._button(tr("Delete"), tr("Forget this preset; chats keep their settings"), self._on_delete)
        self.is_default = QCheckBox(tr("New chats begin with this preset"), self)
        self.is_default.clicked.connect(self._on_default)
        self._lay_out()
        self.names.activated.connect(self._on_activated)

    def _lay_out(self) -> None:
        fill(self, (self.names, row_of((self.save, self.rename, self.delete), 6), self.is_default), 6)

    def show_settings(self, generation: GenerationSettings) -> None:
        """Show which preset these are, if any; the one that was chosen before stays the one to rename."""
        self._shown = generation
        known = self._presets.names
        self._chosen = self._presets.name_of(generation) or (self._chosen if self._chosen in known else "")
        self.names.clear()
        self.names.addItems(known)
        self.names.setCurrentIndex(self.names.findText(self._chosen) if self._chosen else -1)
        self.names.setEditText(self._chosen)
        self._show_buttons()

    def _show_buttons(self) -> None:
        self.rename.setEnabled(bool(self._chosen))
        self.delete.setEnabled(bool(self._chosen))
        self.is_default.setEnabled(bool(self._chosen))
        self.is_default.setChecked(bool(self._chosen) and self._chosen == self._presets.default)

    def _button(self, text: str, help_: str, act: Callable[[], None]) -> QPushButton:
        button = QPushButton(text, self)
        button.setObjectName("small")
        button.setToolTip(tip(help_))
        button.setAccessibleName(tr("{text} preset").format(text=text))
        button.clicked.connect(act)
        return button

    def _on_activated(self, index: int) -> None:
        self._chosen = self.names.itemText(index)
        self._try(lambda: self.applied.emit(self._presets.named(self._chosen)))

    def _on_save(self) -> None:
        if not self.names.currentText().strip():
            self.names.setFocus()  # the name is to be written there
        self._try(lambda: self._choose(self._presets.save(self.names.currentText(), self._shown)))

    def _on_rename(self) -> None:
        self._try(lambda: self._choose(self._presets.rename(self._chosen, self.names.currentText())))

    def _on_delete(self) -> None:
        self._try(lambda: self._presets.delete(self._chosen))

    def _on_default(self, wanted: bool) -> None:
        self._try(lambda: self._presets.set_default(self._chosen if wanted else ""))

    def _choose(self, name: str) -> None:
        self._chosen = name

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except InputError as error:
            self.failed.emit(error_text(error))
        else:
            self.failed.emit("")
            self.show_settings(self._shown)


class GenerationPopover(QFrame):
    """Closes on Esc or a click elsewhere; what is out of range is said below the fields and not kept."""

    def __init__(self, chat: ChatController, presets: Presets, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._chat = chat
        self._presets = presets
        self._last_seed = chat.generation.seed
        self._button: QWidget = self  # below which it was opened
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
        self._page = QScrollArea(self)
        self._body = page_body(self._page, "fields")
        fill(self._body, (self.presets, self.form, self.error), 12)
        fill(self, (label("popover-title", tr("Generation settings"), self), self._page, foot), 12, *(_MARGIN, 16) * 2)
        self.form.edited.connect(self._on_edited)
        self.form.grown.connect(self._on_grown)
        self.form.file_wanted.connect(self._on_file_wanted)
        self.presets.applied.connect(self._on_applied)
        self.presets.failed.connect(self._show_error)
        chat.settings_changed.connect(self.presets.show_settings)

    def open_below(self, button: QWidget, field: str = "method") -> None:
        """Show the settings that hold, with the right edge at the button's, and the focus in one of the fields."""
        self._button = button
        self._last_seed = self._chat.generation.seed
        self.form.show_settings(self._chat.generation)
        self.presets.show_settings(self._chat.generation)
        self._show_error("")
        screen = button.screen().availableGeometry()
        self.setFixedWidth(min(max(_WIDTH, self._width_of_body() + 2 * _MARGIN), screen.width()))
        self._fit(screen.height())
        corner = button.mapToGlobal(QPoint(button.width(), button.height() + 6))
        left = max(screen.left(), min(corner.x() - self.width(), screen.right() - self.width()))
        top = max(screen.top(), min(corner.y(), screen.bottom() - self.height()))
        self.move(left, top)
        self.show()
        self.form.field(field).setFocus()
        self._page.ensureWidgetVisible(self.form.field(field), 0)  # no margin: only up and down

    def _on_edited(self) -> None:
        try:
            self._chat.change_settings(self.form.read())
        except InputError as error:  # only a seed can be wrong: what was typed of it up to here was none that was meant
            self._chat.change_settings(replace(self._chat.generation, seed=self._last_seed))
            self._show_error(error_text(error))
        else:
            self._show_error("")

    def _on_applied(self, generation: GenerationSettings) -> None:
        self._last_seed = generation.seed
        self.form.show_settings(generation)
        self._on_edited()

    def _on_reset(self) -> None:
        self._on_applied(self._presets.beginning)

    @cached_property
    def _jobs(self) -> Jobs:
        """Made with the first file that is opened: most people open none."""
        return Jobs(1, "constraints", self)

    def _on_file_wanted(self, name: str) -> None:
        """Go while the dialog is open: a click into it would be one beside this window."""
        declared = form_of(GenerationSettings)[name]
        assert isinstance(declared, FormalText)
        self.hide()
        path = ask_for_file(
            self.parentWidget() or self, tr("Open a file: {what}").format(what=tr(declared.title)), tr(declared.files)
        )
        if path is None:
            self.open_below(self._button, name)
            return
        job = self._jobs.start(partial(_read, path))
        job.done.connect(lambda text: self._on_read(name, text))
        job.failed.connect(lambda error: self._on_unread(name, error))

    def _on_read(self, name: str, text: str) -> None:
        self.open_below(self._button, name)
        self.form.field(name).show_text(text)

    def _on_unread(self, name: str, error: CoppiceError) -> None:
        self.open_below(self._button, name)
        self._show_error(error_text(error))

    def _show_error(self, text: str) -> None:
        self.error.setText(text)
        self.error.setVisible(bool(text))
        self._fit_screen()

    def _on_grown(self, field: QWidget) -> None:
        self._fit_screen()
        if self.isVisible() and field.isVisible():
            self._page.ensureWidgetVisible(field, 0)

    def _fit_screen(self) -> None:
        """Once more, where what is shown has changed: what grows below the screen moves up."""
        screen = self.screen().availableGeometry()
        self._fit(screen.height())
        if self.isVisible():
            self.move(self.x(), max(screen.top(), min(self.y(), screen.bottom() - self.height())))

    def _width_of_body(self) -> int:
        """As wide as its widest line, which differs with the language and the text, and a bar that may scroll it."""
        return self._body.sizeHint().width() + self._page.verticalScrollBar().sizeHint().width()

    def _fit(self, most: int) -> None:
        """As high as everything in it; on a screen that is too low for that, what is between head and foot scrolls."""
        for each in (self._body, self):
            layout = each.layout()
            assert layout is not None, "it was laid out"
            layout.activate()  # what is hidden now does not count any more
        rest = self.sizeHint().height() - self._page.sizeHint().height()
        self.resize(self.width(), min(rest + self._body.sizeHint().height(), most))


def _read(path: Path, _stop: Stop) -> str:
    return read_formal_text(path)

"""The generation settings of a conversation as a small window below their button; valid changes hold at once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
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
from app.ui.widgets import fill, label, offer, page_body, row_of
from engine.errors import CoppiceError, InputError

_WIDTH, _MARGIN = 360, 18


@dataclass(frozen=True, slots=True)
class _Lost:
    """A preset as it was before it was deleted or written over; `words` say what has happened."""

    words: str
    name: str
    settings: GenerationSettings
    is_default: bool


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
        self.save = self._button(tr("Save"), self._on_save)
        self.save.setToolTip(tip(tr("Keep these settings under this name")))
        self.rename = self._button(tr("Rename"), self._on_rename)
        self.delete = self._button(tr("Delete"), self._on_delete)
        self.is_default = QCheckBox(tr("New chats begin with this preset"), self)
        self.is_default.clicked.connect(self._on_default)
        self._lost: _Lost | None = None  # by the last thing that was done
        self.told = label("quiet-text", "", self)
        self.undo = self._button(tr("Undo"), self._on_undo)
        self._lay_out()
        self.names.activated.connect(self._on_activated)

    def _lay_out(self) -> None:
        buttons = row_of((self.save, self.rename, self.delete), 6)
        told = row_of((self.told, self.undo), 6, wide=self.told)
        fill(self, (self.names, buttons, self.is_default, told), 6)

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

    def forget_lost(self) -> None:
        """Offer no longer to bring back what was lost."""
        self._lost = None
        self._show_buttons()

    def _show_buttons(self) -> None:
        lacks = "" if self._chosen else tr("Choose a preset first, or save one.")
        offer(self.rename, tr("Give the preset that was chosen this name"), lacks)
        offer(self.delete, tr("Forget this preset; chats keep their settings"), lacks)
        offer(self.is_default, tr("New chats begin with this preset"), lacks)
        self.is_default.setChecked(bool(self._chosen) and self._chosen == self._presets.default)
        self.told.setText(self._lost.words if self._lost else "")
        for each in (self.told, self.undo):
            each.setVisible(self._lost is not None)

    def _button(self, text: str, act: Callable[[], None]) -> QPushButton:
        button = QPushButton(text, self)
        button.setObjectName("small")
        button.setAccessibleName(tr("{text} preset").format(text=text))
        button.clicked.connect(act)
        return button

    def _on_activated(self, index: int) -> None:
        self._chosen = self.names.itemText(index)
        self._try(lambda: self.applied.emit(self._presets.named(self._chosen)))

    def _on_save(self) -> None:
        if not self.names.currentText().strip():
            self.names.setFocus()  # the name is to be written there
        self._try(self._save)

    def _save(self) -> None:
        before = self._presets.kept(self.names.currentText())
        self._chosen = self._presets.save(self.names.currentText(), self._shown)
        if before is not None and before != self._shown:
            words = tr("“{name}” has these settings now.").format(name=self._chosen)
            self._lost = _Lost(words, self._chosen, before, self._chosen == self._presets.default)

    def _on_rename(self) -> None:
        self._try(lambda: self._choose(self._presets.rename(self._chosen, self.names.currentText())))

    def _on_delete(self) -> None:
        self._try(self._delete)
        self.undo.setFocus()  # what was pressed is off now

    def _delete(self) -> None:
        words = tr("“{name}” was deleted.").format(name=self._chosen)
        settings, is_default = self._presets.named(self._chosen), self._chosen == self._presets.default
        self._presets.delete(self._chosen)
        self._lost = _Lost(words, self._chosen, settings, is_default)

    def _on_undo(self) -> None:
        if lost := self._lost:
            self._try(lambda: self._bring_back(lost))

    def _bring_back(self, lost: "_Lost") -> None:
        self._chosen = self._presets.save(lost.name, lost.settings)
        if lost.is_default:
            self._presets.set_default(self._chosen)

    def _on_default(self, wanted: bool) -> None:
        self._try(lambda: self._presets.set_default(self._chosen if wanted else ""))

    def _choose(self, name: str) -> None:
        self._chosen = name

    def _try(self, act: Callable[[], None]) -> None:
        self._lost = None
        try:
            act()
        except InputError as error:
            self._show_buttons()
            self.failed.emit(error_text(error))
        else:
            self.show_settings(self._shown)
            self.failed.emit("")


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
        fill(self._body, (self.presets, self.form), 12)
        title = label("popover-title", tr("Generation settings"), self)
        fill(self, (title, self._page, self.error, foot), 12, *(_MARGIN, 16) * 2)  # what is wrong never scrolls away
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
        self.presets.forget_lost()
        self._show_error("")
        screen = button.screen().availableGeometry()
        self.ensurePolished()  # else its frame has no width yet
        around = 2 * (_MARGIN + self.frameWidth())
        self.setFixedWidth(min(max(_WIDTH, self._width_of_body() + around), screen.width()))
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
        for each in (self.form, self._body, self):
            layout = each.layout()
            assert layout is not None, "it was laid out"
            layout.activate()  # what is hidden now does not count any more
        rest = self.sizeHint().height() - self._page.sizeHint().height()
        self.resize(self.width(), min(rest + self._body.sizeHint().height(), most))


def _read(path: Path, _stop: Stop) -> str:
    return read_formal_text(path)

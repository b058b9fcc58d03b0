"""What keeps the program from starting, said where a person sees it: on a terminal, or in a box where none is."""

import sys

from PySide6.QtWidgets import QApplication, QMessageBox

from app.i18n.sentences import translated
from app.i18n.translation import install, language_of, tr
from app.system.bundle import is_frozen
from app.system.paths import Folders
from app.system.plain_text import PLAIN_LABELS
from engine.errors import CoppiceError, InputError

BAD_INPUT = 2


def refuse(application: QApplication, error: CoppiceError) -> int:
    """Say why there will be no window; returns the exit code."""
    if sys.stderr is not None:  # a program without a terminal has none on Windows
        sys.stderr.write(f"error: {error}\n")
    if needs_box():
        install(application, language_of(""))
        refusal_box(error).exec()
    return BAD_INPUT


def needs_box() -> bool:
    """Whether a packaged program was started by a double click: then nobody reads what it prints."""
    return is_frozen() and not (sys.stderr is not None and sys.stderr.isatty())


def refusal_box(error: CoppiceError) -> QMessageBox:
    """The box, with what happened and what can be done."""
    box = QMessageBox(QMessageBox.Icon.Critical, tr("Coppice cannot start"), translated(error.message))
    box.setInformativeText(translated(error.hint))
    box.setStyleSheet(PLAIN_LABELS)  # there is no theme yet
    box.addButton(QMessageBox.StandardButton.Close)
    return box


def unusable(folders: Folders, error: OSError) -> InputError:
    """The folders cannot be made, or nothing can be written into them."""
    words = tr("Coppice cannot write its settings and logs: {folder}: {reason}.")
    reason = error.strerror or str(error)
    hint = tr("Make the folder writable, or start Coppice with --data-dir and another folder.")
    return InputError(words.format(folder=error.filename or folders.config, reason=reason), hint)

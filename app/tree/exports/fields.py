"""What the dialogs of pictures and animations have in common: choices by words, and the colours that were chosen."""

from collections.abc import Mapping

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.tree.exports.choices import DARK, LIGHT, WINDOW
from app.ui import colors
from app.ui.colors import TreeColors

THEMES: Mapping[str, str] = {WINDOW: mark("As the window"), LIGHT: mark("Light"), DARK: mark("Dark")}


def choice_of(name: str, entries: Mapping[str, str], parent: QWidget) -> QComboBox:
    """A choice among values, each shown as its words."""
    field = QComboBox(parent)
    field.setAccessibleName(name)
    for value, words in entries.items():
        field.addItem(tr(words), value)
    return field


def choose(field: QComboBox, value: str) -> None:
    """Select a value."""
    field.setCurrentIndex(max(0, field.findData(value)))


def halves(fields: QVBoxLayout, words: QLabel, preview: QWidget) -> QHBoxLayout:
    """The fields with up to three lines of words below them, beside the preview."""
    words.setMinimumHeight(3 * words.fontMetrics().height())
    words.setAlignment(Qt.AlignmentFlag.AlignTop)
    fields.addWidget(words)
    fields.addStretch(1)
    both = QHBoxLayout()
    both.setSpacing(16)
    both.addLayout(fields)
    both.addWidget(preview, 1)
    return both


def colors_of(theme: str, own: TreeColors) -> TreeColors:
    """Those of a theme; `own` are the window's."""
    return {LIGHT: colors.LIGHT.tree, DARK: colors.DARK.tree}.get(theme, own)

"""What the dialogs of pictures and animations have in common: choices by words, and the colours that were chosen."""

from collections.abc import Mapping

from PySide6.QtWidgets import QComboBox, QWidget

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


def colors_of(theme: str, own: TreeColors) -> TreeColors:
    """Those of a theme; `own` are the window's."""
    return {LIGHT: colors.LIGHT.tree, DARK: colors.DARK.tree}.get(theme, own)

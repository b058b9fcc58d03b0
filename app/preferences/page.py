"""A page of Preferences: the options that stand on it, read from the settings, checked, and given back."""

from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.preferences.row import OptionRow
from app.preferences.values import default_of, options_on, value_of
from app.settings.store import Settings
from app.ui.widgets import label


class OptionsPage(QScrollArea):
    """`edited` follows every change by a person. What is more than an option is added by `add`."""

    edited = Signal()

    def __init__(self, page: str, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = title
        self._loaded: dict[str, Any] = {}
        self._others: list[tuple[QWidget, str]] = []
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        body = QWidget(self)
        body.setObjectName("page")
        self.rows = {name: OptionRow(option, body) for name, option in options_on(page).items()}
        self.defaults = QPushButton(tr("Restore defaults"), body)
        self.defaults.setAccessibleName(tr("Restore the defaults of this page: {page}").format(page=title))
        self._column = QVBoxLayout(body)
        self._column.setContentsMargins(26, 20, 26, 20)
        self._column.setSpacing(20)
        heading = label("page-title", title, body)
        self._column.addWidget(heading)
        for row in self.rows.values():
            self._column.addWidget(row)
            row.edited.connect(self.edited)
        self._column.addStretch(1)
        self._column.addWidget(self.defaults, 0, Qt.AlignmentFlag.AlignLeading)
        self.defaults.setVisible(bool(self.rows))
        self.defaults.clicked.connect(self.restore_defaults)
        self.setWidget(body)

    def add(self, widget: QWidget, words: str) -> None:
        """Put something below the options; `words` are what the search finds it by."""
        self._others.append((widget, words.casefold()))
        self._column.insertWidget(self._column.count() - 2, widget)

    def load(self, settings: Settings) -> None:
        """Show what holds."""
        self._loaded = {name: value_of(settings, name) for name in self.rows}
        for name, row in self.rows.items():
            row.load(settings, self._loaded[name])

    def check(self) -> bool:
        """Whether everything on the page can be used; what cannot says so beside its field."""
        wrong = [row for row in self.rows.values() if not row.check()]
        return not wrong

    def save(self) -> dict[str, Any]:
        """The values that are others now, by the names of their options."""
        values = {name: row.editor.value() for name, row in self.rows.items()}
        return {name: value for name, value in values.items() if value != self._loaded.get(name)}

    def restore_defaults(self) -> None:
        """Show the defaults; they hold when they are applied."""
        for name, row in self.rows.items():
            row.editor.show_value(default_of(name))

    def search(self, words: str) -> int:
        """Show only what has all these words in its name or its help; returns how much that is."""
        wanted = words.casefold().split()
        everything = [(row, row.words) for row in self.rows.values()] + self._others
        title = self.title.casefold()
        found = [(widget, all(each in f"{title} {text}" for each in wanted)) for widget, text in everything]
        for widget, fits in found:
            widget.setVisible(fits)
        self.defaults.setVisible(bool(self.rows) and not wanted)
        return sum(fits for _, fits in found)

    def show_first_error(self) -> None:
        """Go to the first field that says that something is wrong."""
        for row in self.rows.values():
            if not row.error.isHidden():
                self.ensureWidgetVisible(row)
                row.editor.setFocus()
                return

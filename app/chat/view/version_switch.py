"""Which version of a message is shown, and the way to the others."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from app.chat.history.conversation import Version
from app.i18n.translation import tr
from app.system.plain_text import tip
from app.ui.theme import Colors, icon
from app.ui.widgets import label

_TOOL_SIZE = 22


class VersionSwitch(QWidget):
    """Two arrows around "2/3"; not there at all while there is one version."""

    chosen = Signal(int)  # index of the version to show

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._version = Version(0, 1)
        self._text = label("quiet-text", "", self)
        self._text.setWordWrap(False)
        self.earlier = self._arrow(tr("Earlier version"), -1)
        self.later = self._arrow(tr("Later version"), 1)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        for part in (self.earlier, self._text, self.later):
            row.addWidget(part)
        self.show_version(self._version)

    @property
    def text(self) -> str:
        """As it is read."""
        return self._text.text()

    def show_version(self, version: Version) -> None:
        """Show where one is."""
        self._version = version
        self._text.setText(f"{version.index + 1}/{version.count}")
        self._text.setAccessibleName(
            tr("Version {value} of {count}").format(value=version.index + 1, count=version.count)
        )
        self.earlier.setEnabled(version.index > 0)
        self.later.setEnabled(version.index < version.count - 1)
        self.setVisible(version.count > 1)

    def set_theme(self, colors: Colors) -> None:
        """Draw the arrows in other colours."""
        self.earlier.setIcon(icon("left", colors.muted))
        self.later.setIcon(icon("right", colors.muted))

    def _arrow(self, name: str, step: int) -> QToolButton:
        arrow = QToolButton(self)
        arrow.setObjectName("quiet")
        arrow.setFixedSize(_TOOL_SIZE, _TOOL_SIZE)
        arrow.setToolTip(tip(name))
        arrow.setAccessibleName(name)
        arrow.clicked.connect(lambda: self.chosen.emit(self._version.index + step))
        return arrow

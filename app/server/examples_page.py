"""Examples of how the server is asked, with its address and its key in them, to be copied."""

from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.server.controller import ServerController
from app.server.examples import EXAMPLES
from app.system.plain_text import marked
from app.ui.theme import code_font
from app.ui.widgets import WheellessChoice, copy_text, label

_HIDDEN = "•" * 12


class ExamplesPage(QWidget):
    """The key is shown as dots, and copied as it is."""

    def __init__(self, controller: ServerController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._url = ""
        self.kinds = WheellessChoice(self)
        self.kinds.setAccessibleName(tr("Kind of example"))
        self.kinds.addItems(list(EXAMPLES))
        self.text = QPlainTextEdit(self)
        self.text.setObjectName("example-text")
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setAccessibleName(tr("Example"))
        self.text.setFont(code_font())
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.copy = QPushButton(tr("Copy"), self)
        self.copy.setAccessibleName(tr("Copy the example"))
        self.copy.setAutoDefault(False)
        about = tr("Whatever lets you give an address for OpenAI, Anthropic, Ollama, llama.cpp or LM Studio can ask.")
        self.about = label("quiet-text", about, self)
        head = QHBoxLayout()
        head.addWidget(self.about, 1)
        head.addWidget(self.kinds)
        head.addWidget(self.copy)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 12, 20, 14)
        column.setSpacing(10)
        column.addLayout(head)
        column.addWidget(self.text, 1)
        self.kinds.currentIndexChanged.connect(self._refresh)
        self.copy.clicked.connect(lambda: copy_text(self.example(), self.copy))

    def show_url(self, url: str) -> None:
        """Show examples for a server there."""
        self._url = url
        self._refresh()

    def example(self, key: str | None = None) -> str:
        """The one that is chosen; with another key than the real one, if that is given."""
        pair = self._controller.engine.pair
        real = self._controller.wanted.api_key
        model = pair.target.name if pair else "default"  # what is loaded then
        return EXAMPLES[self.kinds.currentText()](self._url, real if key is None else key, model)

    def _refresh(self) -> None:
        hidden = _HIDDEN if self._controller.wanted.api_key else ""
        shown = marked(self.example(hidden))
        if shown != self.text.toPlainText():
            self.text.setPlainText(shown)

"""The dialog that takes the configuration of another program, and says what it would start before it does."""

from dataclasses import replace
from itertools import chain, count

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QDialog, QPlainTextEdit, QPushButton, QScrollArea, QWidget

from app.i18n.sentences import error_text
from app.i18n.translation import tr
from app.preferences.tools.words import begins, is_shown_whole, rights, too_long
from app.system.plain_text import unsteered
from app.tools.entry import ToolServer
from app.tools.snippet import Snippet, read_snippet
from app.ui.widgets import fill, fit_screen, label, offer, page_body, row_of
from engine.errors import InputError
from engine.protocol.tool_servers import ProgramServer

_SIZE = QSize(680, 560)
_EXAMPLE = """{
  "mcpServers": {
    "files": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home"]
    }
  }
}"""


class PasteDialog(QDialog):
    """`accepted_servers` carries them, and the names of those that are to be switched on."""

    accepted_servers = Signal(object, object)

    def __init__(self, taken: set[str], parent: QWidget | None = None) -> None:
        """`taken`: names of servers that are there; another name is found for one of these."""
        super().__init__(parent)
        self._taken = taken
        self.servers: tuple[ToolServer, ...] = ()
        self._gaps: set[str] = set()  # names of those that cannot be switched on yet
        self.setWindowTitle(tr("Paste configuration"))
        about = tr("The JSON in which Claude Desktop, LM Studio, Jan, Cursor or VS Code have their MCP servers.")
        self.field = QPlainTextEdit(self, placeholderText=_EXAMPLE)
        self.field.setObjectName("example-text")
        self.field.setAccessibleName(tr("Configuration"))
        self.field.setAccessibleDescription(about)
        self.field.setTabChangesFocus(True)
        self.found = label("", "", self)
        self.found.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.leave = QPushButton(tr("Cancel"), self)
        self.add = QPushButton(tr("Add"), self)
        self.start = QPushButton(tr("Add and switch on"), self)
        for button in (self.leave, self.add):
            button.setAutoDefault(False)
        self.start.setDefault(True)
        parts = (
            label("quiet-text", about, self), self.field, self._scrolled(),
            row_of((None, self.leave, self.add, self.start)),
        )  # fmt: skip
        fill(self, parts, 12, 18, 18, 18, 14, high=self.field)
        fit_screen(self, _SIZE)
        self.field.textChanged.connect(self._show)
        self.leave.clicked.connect(self.reject)
        self.add.clicked.connect(lambda: self._accept(False))
        self.start.clicked.connect(lambda: self._accept(True))
        self._show()

    def _scrolled(self) -> QWidget:
        """What was found may be long, and is read whole before anything is started."""
        self._area = QScrollArea(self)
        body = page_body(self._area)
        fill(body, (self.found, None), 0)
        return self._area

    def _show(self) -> None:
        lacks, words = tr("Paste a configuration first."), ""
        self.servers, self._gaps = (), set()
        if self.field.toPlainText().strip():
            try:
                snippet = read_snippet(self.field.toPlainText())
            except InputError as error:
                lacks = words = error_text(error)
            else:
                lacks, self.servers = "", self._renamed(snippet)
                words = self._described(snippet)
        self.found.setText(words)
        self.found.setObjectName("error" if lacks else "")
        self.found.style().unpolish(self.found)
        self.found.style().polish(self.found)
        self._area.setVisible(bool(words))
        offer(self.add, tr("Add these servers, without starting anything"), lacks)
        unready = lacks or ("" if len(self._gaps) < len(self.servers) else tr("None of these can be switched on yet."))
        offer(self.start, tr("Add these servers, and connect to them"), unready)

    def _renamed(self, snippet: Snippet) -> tuple[ToolServer, ...]:
        taken, found = set(self._taken), []
        for server in snippet.servers:
            others = (f"{server.name} {number}" for number in count(2))
            name = next(each for each in chain([server.name], others) if each not in taken)
            taken.add(name)
            found.append(replace(server, name=name))
        return tuple(found)

    def _described(self, snippet: Snippet) -> str:
        parts = []
        for server, former in zip(self.servers, snippet.servers, strict=True):
            lines = [unsteered(server.name), begins(server)]
            if former.name in snippet.gaps:
                self._gaps.add(server.name)
                lines.append(tr("Something in it is yet to be filled in. It stays off: edit it first."))
            elif not is_shown_whole(server):
                self._gaps.add(server.name)
                lines.append(too_long())
            parts.append("\n".join(lines))
        if any(isinstance(each.to, ProgramServer) for each in self.servers):
            parts.append(rights())
        if snippet.unread:
            names = ", ".join(unsteered(each) for each in snippet.unread)
            parts.append(tr("Not understood, and left out: {names}").format(names=names))
        return "\n\n".join(parts)

    def _accept(self, start: bool) -> None:
        started = tuple(each.name for each in self.servers if start and each.name not in self._gaps)
        self.accepted_servers.emit(self.servers, started)
        self.accept()


def paste_dialog(taken: set[str], parent: QWidget) -> PasteDialog:
    """A dialog that goes away when it is closed."""
    made = PasteDialog(taken, parent)
    made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return made

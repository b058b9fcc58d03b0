"""The page Tools: MCP servers, what they are, and which of their tools are called without a question."""

from functools import partial

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QShowEvent
from PySide6.QtWidgets import QLabel, QMessageBox, QPushButton, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.preferences.page import OptionsPage
from app.preferences.tools.paste_dialog import PasteDialog, paste_dialog
from app.preferences.tools.server_box import ServerBox
from app.preferences.tools.server_dialog import ServerDialog, server_dialog
from app.preferences.tools.words import begins, is_shown_whole, rights, too_long
from app.settings.preferences import TOOLS
from app.system.plain_text import tip, unsteered
from app.tools.entry import ToolServer
from app.tools.servers import ToolServers
from app.ui.notices import Notice, NoticeStack, Tone
from app.ui.widgets import fill, label, row_of

UNDO = "undo"
_PROTOCOL = "https://modelcontextprotocol.io"


class ToolsPage(OptionsPage):
    """What is done here holds at once, whatever OK and Cancel decide about."""

    def __init__(self, servers: ToolServers, parent: QWidget | None = None) -> None:
        super().__init__(TOOLS, tr("Tools"), parent)
        self._servers = servers
        self.boxes: dict[str, ServerBox] = {}
        self.dialog: ServerDialog | PasteDialog | None = None
        self.question: QMessageBox | None = None
        box = QWidget(self)
        self.about = label("quiet-text", "", box)
        self.more = QPushButton(tr("What MCP is…"), box)
        self.more.setToolTip(tip(tr("Opens {address} in the browser").format(address=_PROTOCOL)))
        self.add_ = QPushButton(tr("Add server…"), box)
        self.paste = QPushButton(tr("Paste configuration…"), box)
        self.paste.setToolTip(tr("Add servers as other programs have them in a file such as mcp.json"))
        for button in (self.more, self.add_, self.paste):
            button.setAutoDefault(False)
        self.notices = NoticeStack(box)
        self._list = QVBoxLayout()
        self._list.setSpacing(10)
        buttons = row_of((self.add_, self.paste, self.more, None), 8)
        fill(box, (self.about, buttons, self.notices, self._list), 12)
        words = tr("MCP servers: programs and addresses whose tools answers may call")
        self.add(box, f"{words} {self.add_.text()} {self.paste.text()}")
        self.allowed = self._allowed_box()
        self._connect()

    def _allowed_box(self) -> QWidget:
        """What needs no question, with a way to have it asked again."""
        box = QWidget(self)
        title = QLabel(tr("Called without a question"), box)
        title.setObjectName("option-title")
        about = tr("For these tools you have said that answers may always call them.")
        self._allowed = QVBoxLayout()
        self._allowed.setSpacing(4)
        fill(box, (title, label("quiet-text", about, box), self._allowed), 6)
        self.add(box, f"{title.text()} {about}")
        return box

    def _connect(self) -> None:
        self.add_.clicked.connect(lambda: self.open_dialog(None))
        self.paste.clicked.connect(self.open_paste)
        self.more.clicked.connect(lambda: QDesktopServices.openUrl(QUrl(_PROTOCOL)))
        self._servers.servers_changed.connect(self._show_servers)
        self._servers.state_changed.connect(self._show_server)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Show what the file holds by now, and what was allowed meanwhile."""
        super().showEvent(event)
        self._servers.refresh()
        self._show_servers()

    def search(self, words: str) -> int:
        """A list without entries stays away, whatever was searched for."""
        found = super().search(words)
        self.allowed.setVisible(self.allowed.isVisibleTo(self) and bool(self._servers.allowed))
        return found

    # ---- what is shown ----------------------------------------------------------------------------------------------

    def _show_servers(self) -> None:
        if not self.isVisible():
            return
        servers = {each.name: each for each in self._servers.servers}
        for name in [each for each in self.boxes if each not in servers]:
            gone = self.boxes.pop(name)
            gone.hide()
            gone.deleteLater()
        for place, name in enumerate(servers):
            if name not in self.boxes:
                self.boxes[name] = self._box_of(name)
            self._list.insertWidget(place, self.boxes[name])
            self._show_server(name)
        self.about.setText(_about(bool(servers)))
        self._show_allowed()

    def _show_server(self, name: str) -> None:
        server = self._servers.file.server(name)
        if server is not None and name in self.boxes:
            self.boxes[name].show_server(server, self._servers.state(name))

    def _box_of(self, name: str) -> ServerBox:
        box = ServerBox(self)
        box.switched.connect(partial(self._on_switched, name))
        box.tool_switched.connect(partial(self._servers.switch_tool, name))
        box.edit_wanted.connect(lambda: self.open_dialog(self._servers.file.server(name)))
        box.remove_wanted.connect(partial(self._on_removed, name))
        box.retry_wanted.connect(partial(self._servers.connect_to, name))
        return box

    def _show_allowed(self) -> None:
        while item := self._allowed.takeAt(0):
            if (row := item.widget()) is not None:
                row.hide()
                row.deleteLater()
        for each in self._servers.allowed:
            row = QWidget(self.allowed)
            name = unsteered(each)
            ask = QPushButton(tr("Ask again"), row)
            ask.setObjectName("small")
            ask.setAutoDefault(False)
            ask.setAccessibleName(tr("Ask again before {tool} is called").format(tool=name))
            ask.clicked.connect(partial(self._servers.forbid, each))
            words = label("", name, row)
            fill(row, (row_of((words, ask), 12, wide=words),), 0)
            self._allowed.addWidget(row)
        self.allowed.setVisible(bool(self._servers.allowed))

    # ---- what a person wants ----------------------------------------------------------------------------------------

    def open_dialog(self, server: ToolServer | None) -> None:
        """Add a server, or change this one."""
        taken = {each.name for each in self._servers.servers if server is None or each.name != server.name}
        dialog = self.dialog = server_dialog(taken, server, self)
        former = "" if server is None else server.name
        dialog.accepted_server.connect(partial(self._on_accepted, former))
        dialog.open()

    def open_paste(self) -> None:
        """Add the servers of another program's configuration."""
        dialog = self.dialog = paste_dialog({each.name for each in self._servers.servers}, self)
        dialog.accepted_servers.connect(self._on_pasted)
        dialog.open()

    def _on_accepted(self, former: str, server: ToolServer, start: bool) -> None:
        """Who saves without switching on leaves it as it was, if it may still be so."""
        stays_on = server.enabled and not server.needs_approval
        self._servers.save(server if start or stays_on else _off(server), former)
        if start:
            self._servers.switch(server.name, True)

    def _on_pasted(self, servers: tuple[ToolServer, ...], started: tuple[str, ...]) -> None:
        for server in servers:
            self._servers.save(server)
        for name in started:
            self._servers.switch(name, True)

    def _on_switched(self, name: str, is_on: bool) -> None:
        server = self._servers.file.server(name)
        if is_on and server is not None and server.needs_approval:
            self._ask(server)
        else:
            self._servers.switch(name, is_on)

    def _ask(self, server: ToolServer) -> None:
        """Before a command is first started, its owner sees all of it."""
        question = self.question = QMessageBox(self)
        question.setIcon(QMessageBox.Icon.Warning)
        question.setWindowTitle(tr("Start a program"))
        question.setText(tr("Start {name}?").format(name=unsteered(server.name)))
        is_whole = is_shown_whole(server)
        question.setInformativeText(f"{begins(server)}\n\n{rights() if is_whole else too_long()}")
        question.addButton(QMessageBox.StandardButton.Cancel)
        start = question.addButton(tr("Start"), QMessageBox.ButtonRole.AcceptRole)
        start.setEnabled(is_whole)
        question.setDefaultButton(QMessageBox.StandardButton.Cancel)
        question.setEscapeButton(QMessageBox.StandardButton.Cancel)
        start.clicked.connect(partial(self._servers.switch, server.name, True))
        question.finished.connect(lambda _result: self._show_server(server.name))  # its box was ticked already
        question.finished.connect(question.deleteLater)
        question.open()

    def _on_removed(self, name: str) -> None:
        put_back = self._servers.remove(name)
        words = tr("{name} was removed.").format(name=unsteered(name))
        self.notices.add(Notice(UNDO, words, action=tr("Undo"), tone=Tone.HINT, on_action=put_back))


def _off(server: ToolServer) -> ToolServer:
    return ToolServer(server.name, server.to, False, server.approved, server.tools_off)


def _about(has_servers: bool) -> str:
    what = tr(
        "MCP servers offer tools that answers may call: to read files, to search, to ask other services. A server is a "
        "program that Coppice starts with your rights, or an address that it asks. Nothing is started or asked before "
        "you switch it on."
    )
    if has_servers:
        return what
    how = tr("Add one by its command or address, or paste the configuration that its page offers for other programs.")
    return f"{what}\n\n{how}"

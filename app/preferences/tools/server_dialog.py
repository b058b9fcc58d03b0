"""The dialog that adds or changes a server: what it starts or asks is shown whole before it can be switched on."""

import shlex
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QFormLayout,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QWidget,
)

from app.i18n.translation import tr
from app.preferences.tools.words import begins, rights
from app.system.paths import expanded, is_file
from app.tools.entry import LONGEST_NAME, ToolServer
from app.ui.widgets import fill, label, offer, row_of
from engine.protocol.tool_servers import ProgramServer, WebServer, is_address, is_plain

_WIDTH, _LINES = 620, 4
_PROGRAM, _ADDRESS = 0, 1


class ServerDialog(QDialog):
    """`accepted_server` carries the server, and whether it is to be switched on."""

    accepted_server = Signal(ToolServer, bool)

    def __init__(self, taken: set[str], server: ToolServer | None = None, parent: QWidget | None = None) -> None:
        """`taken`: names of other servers; `server`: the one to be changed, None for a new one."""
        super().__init__(parent)
        self._taken, self._server = taken, server
        self.setWindowTitle(tr("Add a server") if server is None else tr("Edit the server"))
        self.name = self._field(tr("Name"), tr("files"))
        self.kind = QComboBox(self)
        self.kind.addItems([tr("A program on this computer"), tr("An address")])
        self.kind.setAccessibleName(tr("Kind"))
        self.command = self._field(tr("Command"), "npx")
        self.arguments = self._lines(tr("Arguments, one a line"), "-y\n@modelcontextprotocol/server-filesystem\n/home")
        self.variables = self._lines(tr("Variables, one a line"), "API_KEY=…")
        self.folder = self._field(tr("Folder"), tr("Where it starts; most need none"))
        self.address = self._field(tr("Address"), "https://tools.example/mcp")
        self.headers = self._lines(tr("Headers, one a line"), "Authorization: Bearer …")
        self.plain = QCheckBox(tr("Allow http:// to another computer: others may read along"), self)
        self.about = label("quiet-text", "", self)
        self.leave = QPushButton(tr("Cancel"), self)
        self.save = QPushButton(tr("Save"), self)
        self.start = QPushButton(tr("Save and switch on"), self)
        self._form = QFormLayout()
        self._lay_out()
        self._connect()
        self._fill()
        self._show()

    def _field(self, name: str, example: str) -> QLineEdit:
        field = QLineEdit(self, placeholderText=example)
        field.setAccessibleName(name)
        return field

    def _lines(self, name: str, example: str) -> QPlainTextEdit:
        field = QPlainTextEdit(self, placeholderText=example)
        field.setObjectName("example-text")
        field.setAccessibleName(name)
        field.setTabChangesFocus(True)
        field.setFixedHeight(field.fontMetrics().lineSpacing() * _LINES + 16)
        return field

    def _lay_out(self) -> None:
        self._form.setHorizontalSpacing(12)
        self._form.setVerticalSpacing(8)
        for field in (self.name, self.kind, self.command, self.arguments, self.variables, self.folder):
            self._form.addRow(field.accessibleName().partition(",")[0], field)
        self._form.addRow(self.address.accessibleName(), self.address)
        self._form.addRow(self.headers.accessibleName().partition(",")[0], self.headers)
        self._form.addRow("", self.plain)
        self._form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        for button in (self.leave, self.save):
            button.setAutoDefault(False)
        self.start.setDefault(True)
        parts = (self._form, self.about, None, row_of((None, self.leave, self.save, self.start)))
        fill(self, parts, 12, 18, 18, 18, 14)
        self.setMinimumWidth(_WIDTH)

    def _connect(self) -> None:
        for field in (self.name, self.command, self.folder, self.address):
            field.textChanged.connect(self._show)
        for lines in (self.arguments, self.variables, self.headers):
            lines.textChanged.connect(self._show)
        self.command.editingFinished.connect(self._divide_command)
        self.kind.currentIndexChanged.connect(self._show)
        self.plain.toggled.connect(self._show)
        self.leave.clicked.connect(self.reject)
        self.save.clicked.connect(lambda: self._accept(False))
        self.start.clicked.connect(lambda: self._accept(True))

    def _fill(self) -> None:
        if self._server is None:
            return
        to = self._server.to
        self.name.setText(self._server.name)
        if isinstance(to, ProgramServer):
            self.command.setText(to.command)
            self.arguments.setPlainText("\n".join(to.arguments))
            self.variables.setPlainText("\n".join(f"{name}={value}" for name, value in to.environment.items()))
            self.folder.setText(to.folder)
        else:
            self.kind.setCurrentIndex(_ADDRESS)
            self.address.setText(to.address)
            self.headers.setPlainText("\n".join(f"{name}: {value}" for name, value in to.headers.items()))
            self.plain.setChecked(to.may_be_plain)

    def _divide_command(self) -> None:
        """A whole command line that was pasted into the first field."""
        text = self.command.text().strip()
        if self.arguments.toPlainText().strip() or " " not in text or is_file(expanded(text)):
            return
        try:
            command, *arguments = shlex.split(text)
        except ValueError:
            return
        self.command.setText(command)
        self.arguments.setPlainText("\n".join(arguments))

    @property
    def server(self) -> ToolServer:
        """What the fields say; of a server that is changed, all that no field has stays."""
        name = self.name.text().strip()
        former = self._server or ToolServer(name, ProgramServer(""))
        return replace(former, name=name, to=self._program() if self._is_program else self._web())

    @property
    def _is_program(self) -> bool:
        return self.kind.currentIndex() == _PROGRAM

    def _program(self) -> ProgramServer:
        arguments = tuple(each for each in self.arguments.toPlainText().split("\n") if each)
        variables = dict(_pairs(self.variables, "="))
        return ProgramServer(self.command.text().strip(), arguments, variables, self.folder.text().strip())

    def _web(self) -> WebServer:
        kind = self._server.to.kind if self._server and isinstance(self._server.to, WebServer) else ""
        return WebServer(self.address.text().strip(), dict(_pairs(self.headers, ":")), kind, self.plain.isChecked())

    def _show(self) -> None:
        for field in (self.command, self.arguments, self.variables, self.folder):
            self._form.setRowVisible(field, self._is_program)
        for field in (self.address, self.headers):
            self._form.setRowVisible(field, not self._is_program)
        server = self.server
        is_open = isinstance(server.to, WebServer) and is_address(server.to.address) and is_plain(server.to.address)
        self._form.setRowVisible(self.plain, is_open)
        lacks = self._lacks(server)
        program = isinstance(server.to, ProgramServer)
        self.about.setText(lacks or "\n".join([begins(server), *([rights()] if program else [])]))
        offer(self.save, tr("Keep it, without starting anything"), lacks)
        offer(self.start, tr("Keep it, and connect to it"), lacks)
        self._make_room()

    def _lacks(self, server: ToolServer) -> str:  # noqa: PLR0911  # one for each field
        if not server.name:
            return tr("Give it a name first.")
        if len(server.name) > LONGEST_NAME or "/" in server.name:
            return tr("Give it a shorter name, without a slash.")
        if server.name in self._taken:
            return tr("Another server has this name.")
        if isinstance(server.to, ProgramServer):
            if not server.to.command:
                return tr("Give the command that starts it.")
            if server.to.folder and not Path(server.to.folder).is_absolute():
                return tr("Give the full path of the folder.")
            return "" if _are_pairs(self.variables, "=") else tr("Write variables as NAME=value.")
        if not is_address(server.to.address):
            return tr("Give an address such as https://tools.example/mcp.")
        if is_plain(server.to.address) and not server.to.may_be_plain:
            return tr("Use https://, or allow http://.")
        return "" if _are_pairs(self.headers, ":") else tr("Write headers as Name: value.")

    def _make_room(self) -> None:
        """As high as its words need; it becomes lower again for another kind."""
        layout = self.layout()
        if layout is not None:
            layout.activate()
            self.resize(self.width(), layout.totalHeightForWidth(max(self.width(), _WIDTH)))

    def _accept(self, start: bool) -> None:
        self._divide_command()
        self.accepted_server.emit(self.server, start)
        self.accept()


def _pairs(field: QPlainTextEdit, between: str) -> list[tuple[str, str]]:
    lines = (each.partition(between) for each in field.toPlainText().split("\n") if each.strip())
    return [(name.strip(), value.strip() if between == ":" else value) for name, _, value in lines if name.strip()]


def _are_pairs(field: QPlainTextEdit, between: str) -> bool:
    lines = [each for each in field.toPlainText().split("\n") if each.strip()]
    return all(between in each and each.partition(between)[0].strip() for each in lines)


def server_dialog(taken: set[str], server: ToolServer | None, parent: QWidget) -> ServerDialog:
    """A dialog that goes away when it is closed."""
    made = ServerDialog(taken, server, parent)
    made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return made

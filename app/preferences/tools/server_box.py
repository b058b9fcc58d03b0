"""One server on the page: its switch, how it stands, what it wrote when it failed, and its tools."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QFrame, QLabel, QPlainTextEdit, QPushButton, QToolButton, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.preferences.tools.words import described
from app.system.plain_text import marked, tip, unsteered
from app.tools.entry import ToolServer
from app.tools.states import Phase, ServerState
from app.ui.widgets import CutLabel, fill, label, row_of, without_signals
from engine.protocol.tool_servers import ToolFacts

_LONGEST_DESCRIPTION = 240  # characters, of which most servers need fewer
_FEWEST_LINES, _LINES_SHOWN, _AROUND_LINES = 2, 6, 28  # at most so many; pixels of what stands around them
_BELOW_NAME = 30  # pixels, from the edge of a box that is ticked to the name behind it
_DOTS = {Phase.READY: "ready", Phase.FAILED: "stopped", Phase.WAITING: "stopped"}


class ServerBox(QFrame):
    """Shows a server and tells what a person wants of it; it changes nothing itself."""

    switched = Signal(bool)
    tool_switched = Signal(str, bool)
    edit_wanted = Signal()
    remove_wanted = Signal()
    retry_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("tool-server")
        self.switch = QCheckBox(self)
        self.switch.setObjectName("server-switch")
        self._dot = QLabel(self)
        self._dot.setObjectName("dot")
        self.state = label("", "", self)
        self.state.setWordWrap(False)
        self.edit, self.remove, self.retry = (QPushButton(self) for _ in range(3))
        self.begins = CutLabel(self)
        self.begins.setObjectName("quiet-text")
        self.error = label("error", "", self)
        self.lines = QPlainTextEdit(self)
        self.fold = QToolButton(self)
        self.tools = QWidget(self)
        self._column = QVBoxLayout(self.tools)
        self._shown: tuple[tuple[ToolFacts, ...], int] = ((), 0)
        self._switches: dict[str, QCheckBox] = {}
        self._prepare()
        self._lay_out()
        self._connect()

    def _prepare(self) -> None:
        for button, words in ((self.edit, tr("Edit…")), (self.remove, tr("Remove")), (self.retry, tr("Try again"))):
            button.setText(words)
            button.setObjectName("small")
            button.setAutoDefault(False)
        self.lines.setObjectName("example-text")
        self.lines.setReadOnly(True)
        self.lines.setTabChangesFocus(True)
        self.lines.setAccessibleName(tr("What the server wrote last"))
        self.fold.setObjectName("quiet-words")
        self.fold.setCheckable(True)
        self.fold.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.fold.setArrowType(Qt.ArrowType.RightArrow)
        self.tools.hide()

    def _lay_out(self) -> None:
        head = row_of((self.switch, None, self._dot, self.state, 6, self.retry, self.edit, self.remove), 8)
        self._column.setContentsMargins(24, 0, 0, 0)
        self._column.setSpacing(2)
        parts = (head, self.begins, self.error, self.lines, row_of((self.fold, None)), self.tools)
        fill(self, parts, 6, 12, 10, 12, 10)

    def _connect(self) -> None:
        self.switch.clicked.connect(self.switched)
        self.edit.clicked.connect(self.edit_wanted)
        self.remove.clicked.connect(self.remove_wanted)
        self.retry.clicked.connect(self.retry_wanted)
        self.fold.toggled.connect(self._on_folded)

    def show_server(self, server: ToolServer, state: ServerState) -> None:
        """Show how it is and how it stands."""
        name = unsteered(server.name)
        with without_signals(self.switch):
            self.switch.setChecked(server.is_on)
        self.switch.setText(_unmarked(name))
        self.switch.setAccessibleName(tr("Server {name}").format(name=name))
        self.switch.setAccessibleDescription(described(state))
        self.switch.setToolTip(tip(tr("Switch this server on or off: while it is on, answers may call its tools")))
        self.edit.setAccessibleName(tr("Edit server {name}").format(name=name))
        self.remove.setAccessibleName(tr("Remove server {name}").format(name=name))
        self.retry.setAccessibleName(tr("Try again to connect to {name}").format(name=name))
        self.begins.setText(marked(server.described))
        self.begins.setToolTip(tip(server.described))
        self._show_state(state)
        self._show_tools(server, state)

    def _show_state(self, state: ServerState) -> None:
        self._dot.setProperty("phase", _DOTS.get(state.phase, ""))
        self._dot.style().unpolish(self._dot)
        self._dot.style().polish(self._dot)
        self.state.setText(described(state))
        self.error.setText(unsteered(f"{state.message} {state.hint}".strip()))
        self.error.setVisible(bool(state.message))
        self.lines.setPlainText("\n".join(state.lines))
        lines = min(max(len(state.lines), _FEWEST_LINES), _LINES_SHOWN)  # long ones wrap
        self.lines.setFixedHeight(self.lines.fontMetrics().lineSpacing() * lines + _AROUND_LINES)
        self.lines.setVisible(bool(state.lines) and bool(state.message))
        self.retry.setVisible(state.phase in (Phase.WAITING, Phase.FAILED))

    def _show_tools(self, server: ToolServer, state: ServerState) -> None:
        self.fold.setVisible(bool(state.tools))
        self.fold.setText(tr("Tools"))
        self.fold.setAccessibleName(tr("Tools of {name}").format(name=unsteered(server.name)))
        self.tools.setVisible(bool(state.tools) and self.fold.isChecked())
        if (shown := (state.tools, state.left_out)) != self._shown:
            self._shown = shown
            self._list_tools(state)
        for name, box in self._switches.items():
            box.setChecked(name not in server.tools_off)

    def _list_tools(self, state: ServerState) -> None:
        """Anew; the tool that had the focus has it again, if it is still there."""
        focused = next((name for name, each in self._switches.items() if each.hasFocus()), "")
        self._switches.clear()
        while item := self._column.takeAt(0):
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        for tool in state.tools:
            self._switches[tool.name] = self._add_tool(tool)
        if state.left_out:
            words = tr("%n more tools are not offered: they are too large, or too many.", n=state.left_out)
            self._column.addWidget(label("quiet-text", words, self.tools))
        if focused in self._switches:
            self._switches[focused].setFocus()

    def _add_tool(self, tool: ToolFacts) -> QCheckBox:
        box = QCheckBox(_unmarked(unsteered(tool.name)), self.tools)
        box.setObjectName("tool-switch")
        box.setToolTip(tip(tr("Offer this tool to models")))
        box.setAccessibleName(tr("Tool {name}").format(name=unsteered(tool.name)))
        box.clicked.connect(lambda is_on: self.tool_switched.emit(tool.name, is_on))
        self._column.addWidget(box)
        about = unsteered(" ".join((tool.description or tool.title).split()))
        if about:
            short = about if len(about) <= _LONGEST_DESCRIPTION else about[: _LONGEST_DESCRIPTION - 1] + "…"
            words = label("quiet-text", short, self.tools)
            words.setToolTip(tip(about))
            words.setContentsMargins(_BELOW_NAME, 0, 0, 4)
            box.setAccessibleDescription(short)
            self._column.addWidget(words)
        return box

    def _on_folded(self, is_open: bool) -> None:
        self.fold.setArrowType(Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow)
        self.tools.setVisible(is_open)


def _unmarked(name: str) -> str:
    """A name on a button, where `&` would mark a letter."""
    return name.replace("&", "&&")

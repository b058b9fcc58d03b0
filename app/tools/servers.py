"""All MCP servers that a person has entered: which are on, how they stand, and the tools of those that are ready."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from PySide6.QtCore import QElapsedTimer, QObject, QTimer, Signal

from app.engine.program import EngineProgram
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.settings.store import SettingsFile
from app.system import json_text as json
from app.system.paths import Folders
from app.system.window_thread import in_window_thread
from app.tools.entry import ToolServer, command_mark
from app.tools.link import PROGRAM, ToolsLink
from app.tools.names import function_names
from app.tools.server_file import ServerFile
from app.tools.states import Phase, ServerState
from app.tools.toolbox import OfferedTool, ToolResult
from app.ui.notices import Notice, Tone
from engine.protocol.tool_servers import (
    Answered,
    Broken,
    Call,
    Connect,
    Disconnect,
    Drop,
    Listed,
    ProgramServer,
    Progressed,
    Report,
    Unable,
)

FILE_NOTICE, SERVER_NOTICE = "tool-servers-file", "tool-server"
PAUSES_SECONDS = (1, 2, 5, 10, 30, 60, 60)
"""Before a server that has failed is tried again; after the last one it waits for a person."""
STEADY_SECONDS = 120.0  # a server that has been ready for so long begins with the first pause again


class ToolServers(QObject):
    """A `Toolbox`: see there. No process runs while no server is on.

    `state_changed` tells the name of the server. Which tools need no question is in the settings, and goes with what
    it was said of: a server that is removed, or becomes another one, has to be allowed anew.
    """

    tools_changed = Signal()
    answered = Signal(int, object)
    progressed = Signal(int, float, float, str)
    servers_changed = Signal()  # the list
    state_changed = Signal(str)
    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)
    page_wanted = Signal()

    def __init__(
        self, program: EngineProgram, settings: SettingsFile, folders: Folders, parent: QObject | None = None
    ) -> None:
        """`program`: the engine's, in whose Python the connections are held."""
        super().__init__(parent)
        self._program = program.beside(PROGRAM, folders.tool_servers_log)
        self._settings = settings
        self.file = ServerFile(folders.tool_servers_file)
        self._states: dict[str, ServerState] = {}
        self._failures: dict[str, int] = {}
        self._since: dict[str, QElapsedTimer] = {}  # when it became ready
        self._retries: dict[str, QTimer] = {}
        self._link: ToolsLink | None = None
        self._links = count(1)  # what a former process still says is not heard
        self._linked = 0
        self._numbers = count(1)
        self._open_calls: dict[int, str] = {}  # number: server
        self._tools: tuple[OfferedTool, ...] = ()
        self._has_begun = self._is_closed = False

    # ---- the list ---------------------------------------------------------------------------------------------------

    @property
    def servers(self) -> tuple[ToolServer, ...]:
        """All of them, in their order."""
        return self.file.servers

    def state(self, name: str) -> ServerState:
        """How a server stands."""
        return self._states.get(name, ServerState())

    def begin(self) -> None:
        """Connect to those that a person has switched on, and say what is wrong with their file; once."""
        if self._has_begun:
            return
        self._has_begun = True
        self._told_of_file()
        for server in self.servers:
            if server.is_on:
                self.connect_to(server.name)

    def refresh(self) -> None:
        """Take up what was written into the file meanwhile; a command that nobody has agreed to stays off."""
        before = {each.name: each for each in self.servers}
        if not self.file.refresh():
            return
        self._told_of_file()
        now = {each.name: each for each in self.servers}
        for name, former in before.items():
            if name not in now or now[name].to != former.to or not now[name].is_on:
                self._disconnect(name)
                self._forget_allowed(name, keep=name in now and now[name].to == former.to)
        self._changed()
        for name, server in now.items():
            if server.is_on and name not in self._states:
                self.connect_to(name)

    def save(self, server: ToolServer, former: str = "") -> None:
        """Add a server, or change the one of this or its `former` name; connects anew where it is on."""
        before = self.file.server(former or server.name)
        if before is not None:
            self._disconnect(before.name)
            self._forget_allowed(before.name, keep=before.name == server.name and before.to == server.to)
        self._keep(lambda: self.file.put(server, former))
        if server.is_on:
            self.connect_to(server.name)

    def remove(self, name: str) -> Callable[[], None]:
        """Take a server off the list, and end it; returns what puts it back, switched off or on as it was."""
        allowed = self._settings.current.allowed_tools
        self._disconnect(name)
        self._forget_allowed(name)
        put_back = self.file.remove(name)
        self._told_of_file()
        self._changed()

        def undo() -> None:
            put_back()
            gone = {each for each in allowed if each.startswith(f"{name}/")}
            now = self._settings.current.allowed_tools
            self._settings.change(allowed_tools=(*now, *(each for each in allowed if each in gone - set(now))))
            self._changed()
            server = self.file.server(name)
            if server is not None and server.is_on:
                self.connect_to(name)

        return undo

    def switch(self, name: str, is_on: bool) -> None:
        """Switch a server on or off; a person who switches a program on has seen what is run."""
        server = self.file.server(name)
        if server is None:
            return
        if is_on and isinstance(server.to, ProgramServer):
            server = replace(server, approved=command_mark(server.to))
        self._keep(lambda: self.file.put(replace(server, enabled=is_on)))
        if is_on:
            self.connect_to(name)
        else:
            self._disconnect(name)

    def switch_tool(self, name: str, tool: str, is_on: bool) -> None:
        """Offer a tool of a server, or not."""
        server = self.file.server(name)
        if server is not None:
            off = tuple(each for each in server.tools_off if each != tool) + (() if is_on else (tool,))
            self._keep(lambda: self.file.put(replace(server, tools_off=off)))

    @property
    def allowed(self) -> tuple[str, ...]:
        """Tools that are called without a question, as `server/tool`."""
        return self._settings.current.allowed_tools

    def forbid(self, allowed: str) -> None:
        """Have a tool ask again."""
        left = tuple(each for each in self._settings.current.allowed_tools if each != allowed)
        self._settings.change(allowed_tools=left)
        self.servers_changed.emit()

    def _forget_allowed(self, name: str, keep: bool = False) -> None:
        now = self._settings.current.allowed_tools
        if not keep:
            self._settings.change(allowed_tools=tuple(each for each in now if not each.startswith(f"{name}/")))

    def _keep(self, write: Callable[[], None]) -> None:
        write()
        self._told_of_file()
        self._changed()

    def _told_of_file(self) -> None:
        if (place := self.file.set_aside) is not None:
            self.file.set_aside = None
            words = tr("The list of tool servers could not be read, and begins anew: {reason}.")
            hint = tr("The old file is kept as {place}.").format(place=place)
            self.notice_raised.emit(Notice(FILE_NOTICE, words.format(reason=self.file.reason), hint))
        elif self.file.failure:
            words = tr("The list of tool servers cannot be saved in {file}: {reason}.")
            self.notice_raised.emit(
                Notice(FILE_NOTICE, words.format(file=self.file.path.name, reason=self.file.failure))
            )
        else:
            self.notice_withdrawn.emit(FILE_NOTICE)

    def _changed(self) -> None:
        self.servers_changed.emit()
        self._list_tools()

    # ---- connections ------------------------------------------------------------------------------------------------

    def connect_to(self, name: str) -> None:
        """Connect to a server that is on, anew if it is connected; for a person, who does not wait for a pause."""
        self._failures.pop(name, None)
        self._try(name)

    def close(self) -> None:
        """End all servers, with the windows."""
        self._is_closed = True
        for timer in self._retries.values():
            timer.stop()
        self._end_program()

    def _try(self, name: str) -> None:
        self._stop_waiting(name)
        server = self.file.server(name)
        if server is None or not server.is_on or self._is_closed:
            return
        self._become(name, ServerState(Phase.CONNECTING))
        if self._link is None:
            self._linked = number = next(self._links)
            hear, end = in_window_thread(self._on_report), in_window_thread(self._on_end)
            self._link = ToolsLink(
                self._program,
                lambda report: hear(number, report),
                lambda message, hint: end(number, message, hint),
            )
        self._link.order(Connect(name, server.to))

    def _disconnect(self, name: str) -> None:
        self._stop_waiting(name)
        self.notice_withdrawn.emit(f"{SERVER_NOTICE} {name}")
        if self._link is not None and name in self._states:
            self._link.order(Disconnect(name))
        if self._states.pop(name, None) is not None:
            self.state_changed.emit(name)
            self._list_tools()
        if not self._states:
            self._end_program()

    def _end_program(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link, self._linked = None, 0
        self._answer_all(tr("The server was switched off during the call."))

    def _stop_waiting(self, name: str) -> None:
        timer = self._retries.pop(name, None)
        if timer is not None:
            timer.stop()
            timer.deleteLater()

    def _become(self, name: str, state: ServerState) -> None:
        self._states[name] = state
        self.state_changed.emit(name)
        self._list_tools()

    # ---- what is reported -------------------------------------------------------------------------------------------

    def _on_report(self, link: int, report: Report) -> None:
        if link != self._linked:
            return
        match report:
            case Listed() if report.server in self._states:
                self._on_listed(report)
            case Broken() if report.server in self._states:
                self._on_broken(report)
            case Progressed() if report.number in self._open_calls:
                self.progressed.emit(report.number, report.done, report.total, report.words)
            case Answered() if report.number in self._open_calls:
                text = "\n".join(translated(each) for each in report.parts)
                self._answer(report.number, ToolResult(text, report.is_error, report.seconds))
            case Unable():
                for name in tuple(self._states):
                    self._fail(name, Broken(name, report.reason, report.hint, may_pass=False))

    def _on_listed(self, listed: Listed) -> None:
        self._stop_waiting(listed.server)
        if self.state(listed.server).phase is not Phase.READY:
            self._since[listed.server] = clock = QElapsedTimer()
            clock.start()
            self.notice_withdrawn.emit(f"{SERVER_NOTICE} {listed.server}")
        self._become(listed.server, ServerState(Phase.READY, tools=listed.tools, left_out=listed.left_out))

    def _on_broken(self, broken: Broken) -> None:
        name = broken.server
        was_ready = self.state(name).phase is Phase.READY
        clock = self._since.pop(name, None)
        if clock is not None and clock.elapsed() > STEADY_SECONDS * 1000:
            self._failures.pop(name, None)
        failures = self._failures.get(name, 0)
        if not broken.may_pass or failures >= len(PAUSES_SECONDS):
            self._fail(name, broken)
            return
        self._failures[name] = failures + 1
        self._become(name, ServerState(Phase.WAITING, translated(broken.reason), translated(broken.hint), broken.lines))
        timer = self._retries[name] = QTimer(self, singleShot=True)
        timer.timeout.connect(lambda: self._try(name))
        timer.start(PAUSES_SECONDS[failures] * 1000)
        if was_ready:
            words = tr("The tool server '{name}' has ended, and is started again.").format(name=name)
            self._tell(name, words, translated(broken.reason), Tone.HINT)

    def _fail(self, name: str, broken: Broken) -> None:
        message, hint = translated(broken.reason), translated(broken.hint)
        self._become(name, ServerState(Phase.FAILED, message, hint, broken.lines))
        words = tr("The tool server '{name}' cannot be used: {reason}").format(name=name, reason=message)
        self._tell(name, words, hint, Tone.ERROR)

    def _tell(self, name: str, words: str, hint: str, tone: Tone) -> None:
        key = f"{SERVER_NOTICE} {name}"
        self.notice_raised.emit(Notice(key, words, hint, tr("Tools…"), tone, on_action=self.page_wanted.emit))

    def _on_end(self, link: int, message: str, hint: str) -> None:
        """The program has ended by itself: every server has, too."""
        if link != self._linked:
            return
        self._link, self._linked = None, 0
        self._answer_all(tr("The connection to the server ended during the call."))
        said = message or tr("The program that holds the connections has ended unexpectedly.")
        for name, state in tuple(self._states.items()):
            if state.phase in (Phase.CONNECTING, Phase.READY):
                self._on_broken(Broken(name, said, hint, may_pass=not message))

    # ---- tools ------------------------------------------------------------------------------------------------------

    @property
    def tools(self) -> tuple[OfferedTool, ...]:
        """What may be called now, in the order of the servers."""
        return self._tools

    def _list_tools(self) -> None:
        offered = [
            (server.name, tool)
            for server in self.servers
            for tool in self.state(server.name).tools
            if tool.name not in server.tools_off
        ]
        names = function_names((server, tool.name) for server, tool in offered)
        tools = tuple(
            OfferedTool(
                names[server, tool.name], server, tool.name, tool.description, tool.parameters, tool.changes_nothing
            )
            for server, tool in offered
        )
        if tools != self._tools:
            self._tools = tools
            self.tools_changed.emit()

    def call(self, function: str, arguments: str) -> int:
        """Call a tool; see `Toolbox`."""
        number = next(self._numbers)
        tool = next((each for each in self._tools if each.function == function), None)
        words = _object(arguments)
        if tool is None or self._link is None:
            self._refuse(number, tr("There is no tool of this name."))
        elif words is None:
            self._refuse(number, tr("The arguments are no JSON object."))
        else:
            self._open_calls[number] = tool.server
            self._link.order(Call(number, tool.server, tool.name, words))
        return number

    def cancel(self, number: int) -> None:
        """Stop waiting for a call; see `Toolbox`."""
        if number in self._open_calls:
            if self._link is not None:
                self._link.order(Drop(number))
            self._answer(number, ToolResult(tr("The call was stopped."), is_error=True))

    def _refuse(self, number: int, words: str) -> None:
        """Later, as every other answer: who has called does not know the number yet."""
        self._open_calls[number] = ""
        QTimer.singleShot(0, self, lambda: self._answer(number, ToolResult(words, is_error=True)))

    def _answer(self, number: int, result: ToolResult) -> None:
        if self._open_calls.pop(number, None) is not None:
            self.answered.emit(number, result)

    def _answer_all(self, words: str) -> None:
        for number in tuple(self._open_calls):
            self._answer(number, ToolResult(words, is_error=True))


def _object(arguments: str) -> str | None:
    """A JSON object as it is sent; None for what is none. A model without arguments may write nothing at all."""
    try:
        value = json.loads(arguments.strip() or "{}")
    except (ValueError, RecursionError):
        return None
    return json.dumps(value) if isinstance(value, dict) else None

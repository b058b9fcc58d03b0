"""Switches the local server, and knows how it stands: what is wanted, what the engine says of it, and who asks."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from PySide6.QtCore import QObject, Signal

from app.engine.link import EngineLink
from app.engine.listener import EventListener, takes
from app.engine.state import EngineState
from app.i18n.translation import tr
from app.server.visits import VisitLog
from app.settings.preferences import web_origins
from app.settings.store import SettingsFile
from app.system.passwords import KeptSecret
from app.ui.notices import Notice
from engine.errors import InputError
from engine.protocol.messages import Event, Failed, Ready
from engine.protocol.serving import LOOPBACK, Serve, ServeOptions, Serving, ServingEnded, StopServing, Visit

SERVER_NOTICE = "server-failed"
KEY_NAME = "key of the local server"


class Phase(Enum):
    """Where the server stands between on and off."""

    OFF = "off"
    KEY = "key"  # it is looked up
    ENGINE = "engine"  # waits for one
    STARTING = "starting"
    ON = "on"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ServerState:
    """The server at one moment. `address`: its URL while it is on; `options`: what it was last started with.

    `message` and `hint` say why it failed; `lacks_key`: because others in the network could have asked without one.
    """

    phase: Phase = Phase.OFF
    address: str = ""
    options: ServeOptions | None = field(default=None, repr=False)
    message: str = ""
    hint: str = ""
    lacks_key: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether it is on, or will be."""
        return self.phase in (Phase.KEY, Phase.ENGINE, Phase.STARTING, Phase.ON)


class ServerController(QObject, EventListener):
    """`changed` follows every change of `state`, `visited` every change of the log.

    The server is a part of the engine's process: a new one is told anew.
    """

    changed = Signal(ServerState)
    visited = Signal()
    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)

    def __init__(self, link: EngineLink, settings: SettingsFile, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._settings = settings
        self._is_engine_up = False
        self._awaited = 0  # orders that the engine has not answered
        self._ordered: ServeOptions | None = None  # what the last order to start was given
        self.key = KeptSecret(KEY_NAME, self)
        self.key.changed.connect(self._on_key_changed)
        self.log = VisitLog()
        self.state = ServerState()
        self.engine = EngineState()

    # ---- what a person does -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Switch it on if it is to start with the window."""
        if self._settings.current.server_at_start:
            self.switch_on()

    def switch_on(self) -> None:
        """Start it, or start it anew with what is set now; as soon as there are an engine and the key."""
        self.notice_withdrawn.emit(SERVER_NOTICE)
        if self._settings.current.server_has_key and self.key.value is None:
            self._become(ServerState(Phase.KEY))
            self.key.look()
        elif not self._is_engine_up:
            self._become(ServerState(Phase.ENGINE))
        else:
            self._start()

    def switch_off(self) -> None:
        """End it; answers under way are cut off."""
        self.notice_withdrawn.emit(SERVER_NOTICE)
        if self._is_engine_up and self.state.phase in (Phase.STARTING, Phase.ON):
            self._become(ServerState(Phase.STOPPING))
            self._order(StopServing())
        else:
            self._become(ServerState())

    def set_key(self, key: str) -> None:
        """Have clients show this key; an empty one: none. A server that is on goes on with the one before."""
        self._settings.change(server_has_key=bool(key))
        self.key.keep(key)

    @property
    def wanted(self) -> ServeOptions:
        """What the server is started with."""
        settings = self._settings.current
        return ServeOptions(
            settings.server_host,
            settings.server_port,
            self.key.value or "" if settings.server_has_key else "",
            web_origins(settings.server_origins),
        )

    @property
    def is_outdated(self) -> bool:
        """Whether the server is on with other settings than those of now."""
        return self.state.phase is Phase.ON and self.state.options != self.wanted

    def on_settings_changed(self) -> None:
        """Settings may be others now."""
        self.changed.emit(self.state)

    def clear_log(self) -> None:
        """Forget the requests that are over."""
        self.log.clear()
        self.visited.emit()

    # ---- what the engine does ---------------------------------------------------------------------------------------

    def on_engine_state(self, state: EngineState) -> None:
        """Another pair may be loaded now, or none."""
        if (state.phase, state.pair) != (self.engine.phase, self.engine.pair):
            self.engine = state
            self.changed.emit(self.state)

    def on_engine_stopped(self, _ending: Failed) -> None:
        """The server went with its engine; the next one is told."""
        self._is_engine_up = False
        self._awaited = 0
        self.log.begin_anew()
        self.visited.emit()
        if self.state.phase is Phase.STOPPING:
            self._become(ServerState())
        elif self.state.phase in (Phase.STARTING, Phase.ON):
            self._become(ServerState(Phase.ENGINE))

    def on_events(self, events: Sequence[Event]) -> None:
        """Take what tells of the server; all visits of the list at once, as there may be many."""
        super().on_events(events)
        if visits := [each for each in events if isinstance(each, Visit)]:
            self.log.take(visits, time.time())
            self.visited.emit()

    # ---- inside -----------------------------------------------------------------------------------------------------

    @takes(Ready)
    def _on_ready(self, _event: Ready) -> None:
        self._is_engine_up = True
        if self.state.phase is Phase.ENGINE:
            self.switch_on()

    @takes(Serving, ServingEnded)
    def _on_answer(self, event: Serving | ServingEnded) -> None:
        """Only the answer to the last order tells how it stands; a server may also end by itself."""
        self._awaited = max(0, self._awaited - 1)
        if self._awaited:
            return
        if isinstance(event, Serving):
            self.notice_withdrawn.emit(SERVER_NOTICE)
            self._become(ServerState(Phase.ON, event.address, self._ordered))
        elif event.message:
            self._fail(event.message, event.hint)
        elif self.state.phase is not Phase.FAILED:  # why it failed stays to be read
            self._become(ServerState())
        self.visited.emit()

    def _start(self) -> None:
        options = self.wanted
        if self._settings.current.server_has_key and not options.api_key:
            self.key.value = None  # a keyring that was locked may be open at the next try
            message = tr("The key of the local server was not found in the keyring.")
            hint = tr("Unlock the keyring and try again, generate another key, or remove it.")
            self._refuse(message, hint, lacks_key=True)
            return
        try:
            options.check()
        except InputError as error:
            self._refuse(error.message, error.hint, options.host not in LOOPBACK and not options.api_key)
            return
        self._ordered = options
        self._become(ServerState(Phase.STARTING, options=options))
        self._order(Serve(options))

    def _refuse(self, message: str, hint: str, lacks_key: bool) -> None:
        """What is set cannot be served; a server that is on with what was set before ends."""
        if self.state.phase in (Phase.STARTING, Phase.ON):
            self._order(StopServing())
        self._fail(message, hint, lacks_key)
        self.visited.emit()

    def _order(self, command: Serve | StopServing) -> None:
        self._awaited += 1
        self._link.serve(command)

    def _fail(self, message: str, hint: str, lacks_key: bool = False) -> None:
        self.log.cut_off()
        self._become(ServerState(Phase.FAILED, message=message, hint=hint, lacks_key=lacks_key))
        self.notice_raised.emit(Notice(SERVER_NOTICE, message, hint))

    def _become(self, state: ServerState) -> None:
        if state.phase is not Phase.ON:
            self.log.cut_off()
        self.state = state
        self.changed.emit(state)

    def _on_key_changed(self) -> None:
        if self.state.phase is Phase.KEY:
            self.switch_on()
        else:
            self.changed.emit(self.state)

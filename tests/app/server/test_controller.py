"""The switch of the local server in front of a fake engine: what it is told, and how the server stands then."""

import keyring
import pytest
from pytestqt.qtbot import QtBot

from app.server.controller import KEY_NAME, Phase, ServerController
from app.settings.preferences import EVERYWHERE
from app.settings.store import SettingsFile
from app.ui.notices import Notice
from engine.protocol.messages import PROTOCOL, Failed, Ready
from engine.protocol.serving import Serve, ServeOptions, Serving, ServingEnded, StopServing, Visit
from tests.app.fake_link import FakeLink
from tests.app.hub.test_access import Memory, memory

__all__ = ["memory"]  # a fixture

ADDRESS = "http://127.0.0.1:8383"


@pytest.fixture
def server(link: FakeLink, settings: SettingsFile) -> ServerController:
    made = ServerController(link, settings, link)
    link.engine_stopped.connect(made.on_engine_stopped)
    link.events_arrived.connect(made.on_events)
    return made


def phase(server: ServerController) -> Phase:
    """Asked anew each time: it changes by itself."""
    return server.state.phase


def orders(link: FakeLink) -> list[object]:
    return [each for each in link.sent if isinstance(each, Serve | StopServing)]


def test_it_is_switched_on_and_off(server: ServerController, link: FakeLink) -> None:
    server.switch_on()
    assert (phase(server), link.sent) == (Phase.ENGINE, []), "it waits for an engine"
    link.answer(Ready(PROTOCOL, 1))
    assert orders(link) == [Serve(ServeOptions())]
    assert phase(server) is Phase.STARTING
    link.answer(Visit(1, "127.0.0.1", "curl", "/health", "answering"), Serving(ADDRESS))
    assert (phase(server), server.state.address) == (Phase.ON, ADDRESS)
    assert server.log.traffic.answering == 1, "a client may be faster than the word that it listens"
    server.switch_off()
    assert orders(link)[-1] == StopServing()
    assert phase(server) is Phase.STOPPING
    link.answer(ServingEnded())
    assert phase(server) is Phase.OFF
    assert [each.visit.state for each in server.log.entries] == ["gone"]


def test_a_new_engine_is_told_anew(server: ServerController, link: FakeLink) -> None:
    link.answer(Ready(PROTOCOL, 1))
    server.switch_on()
    link.answer(Serving(ADDRESS))
    link.engine_stopped.emit(Failed(0, "It died."))
    assert phase(server) is Phase.ENGINE
    link.answer(Ready(PROTOCOL, 2))
    assert orders(link) == [Serve(ServeOptions())] * 2
    link.answer(Serving(ADDRESS))
    assert phase(server) is Phase.ON


def test_one_that_was_switched_off_meanwhile_stays_off(server: ServerController, link: FakeLink) -> None:
    link.answer(Ready(PROTOCOL, 1))
    server.switch_on()
    server.switch_off()
    link.answer(Serving(ADDRESS))
    assert phase(server) is Phase.STOPPING, "the last word is still to come"
    link.answer(ServingEnded())
    assert phase(server) is Phase.OFF
    link.engine_stopped.emit(Failed(0, "It died."))
    link.answer(Ready(PROTOCOL, 2))
    assert len(orders(link)) == 2


def test_why_it_failed_is_told(server: ServerController, link: FakeLink) -> None:
    told = list[Notice]()
    server.notice_raised.connect(told.append)
    link.answer(Ready(PROTOCOL, 1))
    server.switch_on()
    link.answer(ServingEnded("The server cannot listen.", "Choose another port."))
    assert (phase(server), server.state.message) == (Phase.FAILED, "The server cannot listen.")
    assert [each.text for each in told] == ["The server cannot listen. Choose another port."]
    assert not server.state.lacks_key
    server.switch_on()
    assert phase(server) is Phase.STARTING, "it can be tried again"


def test_the_network_is_never_served_without_a_key(
    server: ServerController, link: FakeLink, settings: SettingsFile, memory: Memory
) -> None:
    settings.change(server_host=EVERYWHERE, server_origins="http://a.example/, *")
    link.answer(Ready(PROTOCOL, 1))
    server.switch_on()
    assert phase(server) is Phase.FAILED
    assert server.state.lacks_key
    assert not orders(link)
    server.set_key("secret")
    server.switch_on()
    assert orders(link) == [Serve(ServeOptions(EVERYWHERE, 8383, "secret", ("http://a.example", "*")))]
    assert "secret" not in settings.path.read_text("utf-8"), "it is in the keyring alone"
    link.answer(Serving("http://0.0.0.0:8383"))
    assert not server.is_outdated
    server.set_key("other")
    assert server.is_outdated, "it is on with the first one"


def test_a_restart_that_is_refused_ends_the_server_that_is_on(
    server: ServerController, link: FakeLink, settings: SettingsFile
) -> None:
    """Nobody must believe that it is off while it serves with what was set before."""
    link.answer(Ready(PROTOCOL, 1))
    server.switch_on()
    link.answer(Serving(ADDRESS), Visit(7, "127.0.0.1", "curl", "/v1/models", "answering"))
    settings.change(server_host=EVERYWHERE)
    server.switch_on()
    assert orders(link) == [Serve(ServeOptions()), StopServing()]
    link.answer(ServingEnded(), Visit(7, "127.0.0.1", "curl", "/v1/models", "gone"))
    assert phase(server) is Phase.FAILED
    assert server.state.lacks_key, "why it failed stays to be read"
    assert [each.visit.state for each in server.log.entries] == ["gone"]


def test_a_restart_is_on_with_its_own_settings_though_the_one_before_broke(
    server: ServerController, link: FakeLink, settings: SettingsFile
) -> None:
    link.answer(Ready(PROTOCOL, 1))
    server.switch_on()
    link.answer(Serving(ADDRESS))
    settings.change(server_port=9000)
    server.switch_on()
    link.answer(ServingEnded("It broke.", "Start it again."), Serving("http://127.0.0.1:9000"))
    assert (phase(server), server.state.address, server.state.message) == (Phase.ON, "http://127.0.0.1:9000", "")
    assert not server.is_outdated


def test_a_keyring_that_was_locked_is_asked_again(
    server: ServerController, link: FakeLink, settings: SettingsFile, memory: Memory, qtbot: QtBot
) -> None:
    settings.change(server_has_key=True)
    link.answer(Ready(PROTOCOL, 1))
    with qtbot.waitSignal(server.key.changed):
        server.switch_on()
    assert phase(server) is Phase.FAILED
    keyring.set_password("coppice", KEY_NAME, "kept")
    with qtbot.waitSignal(server.key.changed):
        server.switch_on()
    assert orders(link) == [Serve(ServeOptions(api_key="kept"))]


def test_a_key_that_was_set_is_looked_up_before_the_server_starts(
    link: FakeLink, settings: SettingsFile, memory: Memory, qtbot: QtBot
) -> None:
    keyring.set_password("coppice", KEY_NAME, "kept")
    settings.change(server_has_key=True, server_at_start=True)
    server = ServerController(link, settings, link)
    link.events_arrived.connect(server.on_events)
    link.answer(Ready(PROTOCOL, 1))
    with qtbot.waitSignal(server.key.changed):
        server.begin()
        assert phase(server) is Phase.KEY
    assert orders(link) == [Serve(ServeOptions(api_key="kept"))]


def test_without_its_key_it_does_not_start_open(
    server: ServerController, link: FakeLink, settings: SettingsFile, memory: Memory, qtbot: QtBot
) -> None:
    settings.change(server_has_key=True)
    link.answer(Ready(PROTOCOL, 1))
    with qtbot.waitSignal(server.key.changed):
        server.switch_on()
    assert server.state.message == "The key of the local server was not found in the keyring."
    assert not orders(link)
    server.set_key("")
    server.switch_on()
    assert orders(link) == [Serve(ServeOptions())]


def test_it_does_not_start_with_the_window_unless_that_is_wanted(server: ServerController, link: FakeLink) -> None:
    server.begin()
    link.answer(Ready(PROTOCOL, 1))
    assert phase(server) is Phase.OFF

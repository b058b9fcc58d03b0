"""The window of the local server, opened from the main window, in front of a fake engine."""

import ast
import json
import re
import shlex

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.engine.state import EngineState, Phase
from app.server.addresses import own_addresses, reachable
from app.server.dialog import ServerDialog
from app.server.examples import EXAMPLES, SHELLS, curl, powershell
from app.server.settings_page import new_key
from app.shell.window import MainWindow
from engine.errors import InputError
from engine.protocol.messages import Queued
from engine.protocol.serving import Serve, ServeOptions, Serving, ServingEnded, Visit
from tests.app.fake_link import FakeLink
from tests.app.hub.test_access import Memory, memory

__all__ = ["memory"]  # a fixture


@pytest.fixture
def dialog(window: MainWindow, qtbot: QtBot) -> ServerDialog:
    with qtbot.waitExposed(window.server.dialog):
        window.actions_.server.trigger()
    return window.server.dialog


def test_the_server_is_switched_on_watched_and_switched_off(
    window: MainWindow, dialog: ServerDialog, link: FakeLink, qtbot: QtBot
) -> None:
    head, indicator = dialog.head, window.server_indicator
    assert (head.title.text(), head.switch.text()) == ("The server is off", "Switch on")
    assert not indicator.isVisible()
    head.switch.click()
    link.answer(Serving("http://127.0.0.1:8383"))
    assert (head.title.text(), head.url.text()) == ("The server is on", "http://127.0.0.1:8383/v1")
    assert head.about.text() == "Every program on this computer can ask the models."
    assert not head.warning.isVisible()
    head.copy.click()
    assert QGuiApplication.clipboard().text() == head.url.text()
    link.answer(
        Visit(1, "127.0.0.1", "curl", "/v1/models", "answering"),
        Visit(2, "127.0.0.1", "curl", "/v1/models", "waiting"),
    )
    qtbot.waitUntil(lambda: dialog.log.model.rowCount() == 2)
    qtbot.waitUntil(lambda: "1 waiting" in indicator.text())
    dialog.log.copy.click()
    assert QGuiApplication.clipboard().text().count("/v1/models") == 2
    head.switch.click()
    link.answer(ServingEnded())
    assert not indicator.isVisible()
    qtbot.waitUntil(dialog.log.clear.isEnabled)
    dialog.log.clear.click()
    qtbot.waitUntil(dialog.log.empty.isVisible)

    head.switch.click()
    dialog.close()
    link.answer(ServingEnded("The port is taken."))
    assert [each.message for each in window.notices.notices] == ["The port is taken."], "the dialog is closed"
    window.notices.act(window.notices.notices[0].key)
    assert dialog.isVisible()
    head.switch.click()
    link.answer(Serving("http://127.0.0.1:8383"))
    window.server.controller.on_engine_state(EngineState(Phase.EMPTY))
    assert "503" in head.warning.text()


def test_settings_are_kept_and_a_missing_key_is_made_with_one_click(
    window: MainWindow, dialog: ServerDialog, link: FakeLink, memory: Memory, qtbot: QtBot
) -> None:
    dialog.head.switch.click()
    link.answer(Serving("http://127.0.0.1:8383"))
    rows = dialog.options.rows
    rows["server_port"].editor.show_value(9000)
    rows["server_origins"].editor.show_value("nonsense")
    dialog.options.keep()
    assert window.settings.current.server_port == 9000
    assert window.settings.current.server_origins == "", "what cannot be used is not kept"
    assert not rows["server_origins"].error.isHidden()
    assert dialog.head.restart.isVisible()
    dialog.head.restart.click()
    assert link.sent[-1] == Serve(ServeOptions(port=9000))
    link.answer(Serving("http://127.0.0.1:9000"))

    dialog.head.switch.click()
    link.answer(ServingEnded())
    window.settings.change(server_host="0.0.0.0")
    window.server.controller.on_settings_changed()
    dialog.head.switch.click()
    assert dialog.head.title.text() == "The server is not running"
    assert not window.notices.notices, "the dialog says it"
    dialog.head.remedy.click()
    sent = link.sent[-1]
    assert isinstance(sent, Serve)
    key = sent.options.api_key
    assert key == dialog.options.key.field.text()
    dialog.examples.copy.click()
    assert f"Bearer {key}" in QGuiApplication.clipboard().text()
    assert key not in dialog.examples.text.toPlainText()
    qtbot.waitUntil(lambda: key in memory.kept.values())
    box = dialog.options.key
    box.field.setText("not a key")
    box.field.editingFinished.emit()
    assert "cannot be used" in box.error.text()
    assert window.server.controller.key.value == key
    box.field.setModified(True)  # as by typing
    window.server.controller.on_settings_changed()
    assert "cannot be used" in box.error.text()
    assert box.field.text() == "not a key", "what is wrong stays to be mended"
    box.remove.click()
    assert not window.settings.current.server_has_key


def test_preferences_lead_to_it_and_a_question_says_how_many_clients_wait_before_it(
    window: MainWindow, link: FakeLink, qtbot: QtBot
) -> None:
    window.actions_.preferences.trigger()
    preferences = window.program.preferences.dialog
    assert preferences is not None
    page = next(each for each in preferences.pages if each.title == "Local server")
    QTest.keyClicks(preferences.search, "server own window")
    assert page.open.isVisible()  # type: ignore[attr-defined]
    page.open.click()  # type: ignore[attr-defined]
    qtbot.waitUntil(window.server.dialog.isVisible)
    assert not preferences.isVisible()

    window.chat.ask("Hello")
    link.answer(Queued(link.last_question.id, 2))
    figures = window.chat_panel.view.answers[-1].figures
    qtbot.waitUntil(lambda: figures.text == "Waiting: 2 requests before this one")
    link.answer(Queued(link.last_question.id, 0))
    qtbot.waitUntil(lambda: figures.text == "Reading the question")


def test_examples_survive_any_name_and_every_key_can_stand_in_a_header() -> None:
    name = 'it\'s "a" \\ modèle'
    on_unix = shlex.split(curl("http://h:1", "", name, is_windows=False))
    assert json.loads(on_unix[-1])["model"] == name
    quoted = curl("http://h:1", "", name, is_windows=True).split("-d ")[1].strip()
    assert quoted[0] == quoted[-1] == '"'
    halved = re.sub(r'(\\*)"', lambda found: "\\" * (len(found[1]) // 2) + '"', quoted[1:-1])  # as its rules read it
    assert json.loads(halved)["model"] == name
    command = powershell("http://h:1", "k", name)
    (body,) = re.findall(r"-Body '((?:[^']|'')+)'\n", command)
    assert json.loads(body.replace("''", "'"))["model"] == name
    assert body.isascii(), "Windows PowerShell sends nothing else as it is"
    assert "'Bearer k'" in command
    assert "Authorization" not in powershell("http://h:1", "", name)
    for example in list(EXAMPLES.values())[len(SHELLS) :]:
        assert "http://h:1" in example("http://h:1", "k", name)
        assert repr(name) in ast.unparse(ast.parse(example("http://h:1", "k", name)))
    assert "Authorization" not in curl("http://h:1", "", name)
    assert new_key() != new_key()
    assert new_key().isascii()


def test_no_name_and_no_key_can_command_the_shell_that_an_example_is_pasted_into() -> None:
    name, key = 'x" & calc & "%PATH% ^ a', "k'$(x)\"'"
    body = curl("http://h:1", "", name, is_windows=True).split("-d ")[1].strip()
    assert not re.search(r"[&|<>^%!]|\\\\", body), "a quote behind a backslash ends what cmd.exe takes as it is"
    assert json.loads(body[1:-1].replace('\\"', '"'))["model"] == name
    assert f"Authorization: Bearer {key}" in shlex.split(curl("http://h:1", key, "m", is_windows=False))
    assert f"'Bearer {key.replace(chr(39), 2 * chr(39))}' }}" in powershell("http://h:1", key, "m")
    for example in list(EXAMPLES.values())[len(SHELLS) :]:
        tree = ast.walk(ast.parse(example("http://h:1", key, "m")))
        assert any(str(node.value).endswith(key) for node in tree if isinstance(node, ast.Constant))


def test_addresses_that_lead_here() -> None:
    assert reachable("http://0.0.0.0:80", ("192.168.1.2", "172.17.0.1")) == "http://192.168.1.2:80"
    assert reachable("http://[::]:80", ()) == "http://127.0.0.1:80"
    assert reachable("http://127.0.0.1:80", ("192.168.1.2",)) == "http://127.0.0.1:80"
    assert all(each.count(".") == 3 for each in own_addresses())
    with pytest.raises(InputError):
        ServeOptions(host="0.0.0.0").check()

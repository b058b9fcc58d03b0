"""Engines elsewhere in the window: connect, chat, stop, what went wrong, and who answered."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import keyring
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QInputDialog
from pytestqt.qtbot import QtBot

from app.chat.archive.conversion import conversation_of, records_of
from app.chat.archive.exchange.formats import exported_json, exported_markdown, from_json, from_markdown
from app.chat.history.message import AnswerEnding
from app.engine.remote.addresses import Place
from app.engine.remote.servers import Server, look_at
from app.engine.remote.wire import Wire
from app.engine.state import Phase
from app.library.picker.engines_page import EnginesPage
from app.library.picker.page import Page
from app.library.remote.connect_dialog import ConnectDialog
from app.library.remote.engines import KEY_NOTICE, SavedEngine, saved_engines, unused_name
from app.settings.store import SettingsFile
from app.shell.window import MainWindow
from app.system.background import Stop
from app.ui.notices import Tone
from engine.protocol.messages import PROTOCOL, Generate, Load, Ready
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink
from tests.app.library.picker.conftest import Ring
from tests.app.remote.fake_servers import Body, another, chunk, free_address, ollama, serving, vllm
from tests.app.remote.listener import PATIENCE_MS
from tests.app.test_accessibility import controls, described, heard, reachable


@pytest.fixture(autouse=True)
def ring() -> Iterator[Ring]:
    """The keyring of this test alone."""
    before, made = keyring.get_keyring(), Ring()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


class Person:
    """Uses the engines of a window."""

    def __init__(self, window: MainWindow, qtbot: QtBot) -> None:
        self.window, self._qtbot = window, qtbot
        window.models.open(Page.ENGINES)

    @property
    def page(self) -> EnginesPage:
        """The page of engines."""
        return self.window.models.dialog.engines

    @property
    def dialog(self) -> ConnectDialog:
        """The dialog that connects."""
        assert self.page.dialog is not None
        return self.page.dialog

    def test(self, address: str, key: str = "") -> None:
        """Fill in an address and test it."""
        self.page.connect_.click()
        QTest.keyClicks(self.dialog.address, address)
        QTest.keyClicks(self.dialog.key, key)
        self.dialog.test.click()
        self.wait(lambda: not self.dialog.progress.isVisibleTo(self.dialog))

    def connect(self, address: str, key: str = "") -> None:
        """Connect to an engine and use it."""
        self.test(address, key)
        self.dialog.use.click()
        self.wait(lambda: self.window.engines.state.ready)

    def ask(self, question: str = "Tell me of a fox.") -> None:
        """Ask, and wait for the end."""
        self.window.chat.ask(question)
        self.wait(lambda: not self.window.chat.is_answering)

    def wait(self, until: Callable[[], bool]) -> None:
        """Let things happen."""
        self._qtbot.waitUntil(until, timeout=PATIENCE_MS)

    @property
    def answer(self) -> tuple[str, AnswerEnding, str]:
        """The last one: text, ending, and who wrote it."""
        answer = self.window.chat.conversation.last_answer
        assert answer is not None
        return answer.text, answer.ending, answer.answerer

    @property
    def notices(self) -> list[str]:
        """What the window says."""
        return [each.text for each in self.window.notices.notices]


@pytest.fixture
def person(window: MainWindow, qtbot: QtBot) -> Person:
    """A person with the page of engines open."""
    return Person(window, qtbot)


def test_from_an_address_to_an_answer(person: Person, link: FakeLink, settings: SettingsFile, ring: Ring) -> None:
    script = replace(vllm(), key="secret")
    window = person.window
    with serving(script) as address:
        host = address.removeprefix("http://")
        loads = sum(isinstance(each, Load) for each in link.sent)
        person.connect(address, "secret")
        assert not window.models.is_open, "what was asked for is there"
        assert window.status_area.words.text() == f"Ready: demo @ {host}"
        asked = next(link.ids)
        person.ask()
        assert person.answer == ("There was a fox.", AnswerEnding.COMPLETE, f"demo @ {host}")
        assert not any(isinstance(each, Generate) for each in link.sent)
        assert sum(isinstance(each, Load) for each in link.sent) == loads, "nothing was loaded here"
        assert settings.current.engines == {
            "127.0.0.1": {
                "address": address,
                "model": "demo",
                "kind": "vLLM",
                "context_tokens": 1024,
                "draft": "",
                "reads_pictures": True,
                "has_key": True,
            }
        }
        window.engines.use_local()
        window.chat.ask("And here?")
        assert link.last_question.id > asked, "numbers grow over all engines"
        window.chat.stop()
        assert "secret" not in Path(settings.path).read_text(encoding="utf-8")
        assert "secret" in str(ring.__dict__)


def test_the_engine_of_last_time_is_taken_up_without_a_request(
    open_window: OpenWindow, settings: SettingsFile, qtbot: QtBot
) -> None:
    script = ollama()
    with serving(script) as address:
        record = {"address": address, "model": "demo:latest", "kind": "Ollama", "context_tokens": 0}
        settings.change(engines={"Box": record}, engine="Box")
        link = FakeLink()
        person = Person(open_window(link), qtbot)
        link.engine_starting.emit()
        link.answer(Ready(PROTOCOL, 4711))
        assert not any(isinstance(each, Load) for each in link.sent), "no model is loaded for an engine elsewhere"
        assert person.window.engines.state.ready
        assert script.asked == []
        person.ask()
        assert person.answer[:2] == ("<think>\nHm.\n</think>\n\nThere was a fox.", AnswerEnding.COMPLETE)


def test_the_dialog_is_heard_and_walked_through(person: Person) -> None:
    person.page.connect_.click()
    found = list(controls(person.dialog))
    assert {"Address", "Key", "Name", "Model", "Test the connection"} <= {heard(each) for each in found}
    assert [described(each) for each in found if not heard(each).strip()] == []
    assert [described(each) for each in found if each.isEnabled() and not reachable(each)] == []
    person.dialog.reject()


def test_stop_and_a_broken_connection_keep_what_was_written(person: Person) -> None:
    release, mode = threading.Event(), ["hang"]

    def answer(_body: Body) -> Iterator[bytes]:
        yield chunk({"content": "Once upon"})
        while mode[0] == "hang" and not release.wait(0.01):
            yield b": alive\n\n"

    script = replace(another(), answer=answer)
    with serving(script) as address:
        person.connect(address)
        window = person.window
        window.chat.ask("?")
        person.wait(lambda: person.answer[0] != "")
        window.chat.stop()
        assert person.answer[:2] == ("Once upon", AnswerEnding.STOPPED)
        assert script.left.wait(PATIENCE_MS / 1000)
        mode[0] = "cut"
        person.ask()
        assert person.answer[:2] == ("Once upon", AnswerEnding.LOST)
        assert window.chat.can_continue
        assert any("The connection to 127.0.0.1" in each and "broke" in each for each in person.notices)
        release.set()


def test_an_engine_that_is_gone_is_told_of_and_connected_to_again(person: Person) -> None:
    gone = free_address()
    window = person.window
    window.engines.save(SavedEngine("Gone", Place(gone, "demo")))
    window.engines.use("Gone")
    person.wait(lambda: window.engines.state.phase is Phase.STOPPED)
    assert any("Nothing listens at" in each for each in person.notices)
    assert "Not connected" in window.status_area.words.text()
    with serving(replace(another(), models=[{"id": "other"}])) as address:
        window.engines.save(SavedEngine("Gone", Place(address, "demo")))
        window.engines.use("Gone")
        person.wait(lambda: any("has no model demo any more" in each for each in person.notices))
    window.engines.use_local()
    assert window.engines.state.ready
    assert not any("no model demo" in each for each in person.notices)


def test_a_test_says_what_is_wrong_and_can_be_cancelled(person: Person) -> None:
    person.test("http://a b")
    assert "cannot be used" in person.dialog.words.text()
    assert not person.dialog.use.isEnabled()
    person.dialog.reject()
    person.test(free_address())
    assert "Nothing listens" in person.dialog.words.text()
    words = person.dialog.words
    person.wait(lambda: words.height() >= words.heightForWidth(words.width()) > words.fontMetrics().height() * 1.5)
    person.dialog.reject()
    with serving(replace(another(), key="secret")) as address:
        person.test(address, "wrong")
        assert person.dialog.words.text().endswith("does not accept the key. Give another key.")
        person.dialog.reject()
    person.page.connect_.click()
    dialog = person.dialog
    QTest.keyClicks(dialog.address, "192.168.0.7:8000")
    assert "not encrypted" in dialog.warning.text()
    dialog.address.clear()
    with serving(another()) as address:
        QTest.keyClicks(dialog.address, address)
        dialog.test.click()
        assert dialog.progress.isVisibleTo(dialog)
        dialog.stop.click()
        assert not dialog.progress.isVisibleTo(dialog)
        assert dialog.words.text() == ""
    dialog.reject()


def test_a_cancelled_test_that_still_connects_does_not_hold_up_the_next(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, release = threading.Event(), threading.Event()

    def look(wire: Wire, stop: Stop) -> Server:
        if "silent" in wire.host:
            begun.set()
            release.wait(2 * PATIENCE_MS / 1000)
        return look_at(wire, stop)

    monkeypatch.setattr("app.library.remote.connect_dialog.look_at", look)
    person.page.connect_.click()
    dialog = person.dialog
    QTest.keyClicks(dialog.address, "http://silent.example")
    dialog.test.click()
    person.wait(begun.is_set)
    dialog.stop.click()
    with serving(vllm()) as address:
        dialog.address.clear()
        QTest.keyClicks(dialog.address, address)
        dialog.test.click()
        person.wait(lambda: dialog.model.count() > 0)
    release.set()
    dialog.reject()


def test_engines_are_renamed_removed_and_put_back(person: Person, ring: Ring, settings: SettingsFile) -> None:
    with serving(another()) as address:
        person.connect(address, "secret")
        person.window.models.open(Page.ENGINES)
        page = person.page
        page.view.choose("127.0.0.1")
        QTest.keyClick(page.view, Qt.Key.Key_F2)
        page.ask_for_name()
        box = page.findChild(QInputDialog)
        assert box is not None
        box.setTextValue("Cluster")
        box.accept()
        assert [each.name for each in person.window.engines.saved] == ["Cluster"]
        assert settings.current.engine == "Cluster"
        page.view.choose("Cluster")
        QTest.keyClick(page.view, Qt.Key.Key_Delete)
        assert not person.window.engines.saved
        assert person.window.engines.chosen is None
        page.notices.act("undo")
        assert [each.name for each in person.window.engines.saved] == ["Cluster"]
        person.wait(lambda: person.window.engines.state.ready)
        page.view.choose("Cluster")
        page.remove.click()
        person.window.models.dialog.hide()
        person.wait(lambda: "secret" not in str(ring.__dict__))


def test_a_key_that_no_keyring_takes_is_told_of(person: Person, ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.remote.keys.keep_secret", lambda _name, _secret: False)
    with serving(replace(another(), key="secret")) as address:
        person.connect(address, "secret")
        person.wait(lambda: any(each.key == KEY_NOTICE for each in person.window.notices.notices))
        assert [each.tone for each in person.window.notices.notices if each.key == KEY_NOTICE] == [Tone.HINT]
        person.ask()
        assert person.answer[0] == "There was a fox.", "it holds for this run"


def test_who_answered_is_kept_and_exported(person: Person) -> None:
    with serving(another()) as address:
        person.connect(address)
        person.ask()
    conversation = person.window.chat.conversation
    wrote = person.answer[2]
    record, messages = records_of(conversation, "")
    again = conversation_of(record, messages)
    assert again.messages[-1].answerer == wrote
    markdown = exported_markdown("Fox", conversation.messages)
    assert f"Answered by {wrote}" in markdown
    assert from_markdown(markdown)[0][1].messages[-1].text == "There was a fox."
    written = exported_json(record, conversation)
    assert json.loads(written)["messages"][1]["model"] == wrote
    assert from_json(written)[0][1].messages[-1].answerer == wrote


def test_what_the_settings_hold_is_looked_at_with_care() -> None:
    kept: dict[str, dict[str, object]] = {
        "good": {"address": "http://host:1", "model": "m", "kind": "vLLM", "context_tokens": 5},
        "no address": {"model": "m"},
        "no model": {"address": "http://host:1"},
        "odd": {"address": "file:///etc/passwd", "model": "m"},
        "numbers": {"address": "host:2", "model": "m", "context_tokens": -4},
    }
    found = saved_engines(kept)
    assert [(each.name, each.described, each.place.context_tokens) for each in found] == [
        ("good", "m @ host:1", 5),
        ("numbers", "m @ host:2", 0),
    ]
    assert unused_name("good", kept) == "good 2"
    assert unused_name("good", kept | {"good 2": {}}) == "good 3"

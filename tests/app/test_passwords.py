"""The password of a proxy or of a mirror: in the keyring, in no file, and told to the clients of this run."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeyring
from keyring.errors import KeyringLocked
from pytestqt.qtbot import QtBot

from app.engine.state import EngineState
from app.settings.store import SettingsFile
from app.shell.diagnostics import diagnostics
from app.shell.faults.crash import hide_secrets
from app.shell.preferences import UNKEPT_NOTICE
from app.system.addresses import join_password, split_password
from app.system.passwords import Passwords
from app.system.paths import Folders
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink
from tests.app.hub.test_access import Memory, memory

__all__ = ["memory"]  # a fixture

PROXY, BARE = "http://me:s3cret@proxy.example:3128", "http://me@proxy.example:3128"
KEY = ("coppice", f"password for {BARE}")
VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "HF_ENDPOINT")


@pytest.fixture
def stored() -> dict[str, Any]:
    """What the settings' file holds at the start."""
    return {}


@pytest.fixture
def settings(folders: Folders, stored: dict[str, Any]) -> SettingsFile:
    """The settings of this test, read from such a file."""
    folders.settings_file.write_text(json.dumps(stored))
    return SettingsFile(folders.settings_file)


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is set outside."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def no_keyring() -> Iterator[None]:
    """A system without one."""
    before = keyring.get_keyring()
    keyring.set_keyring(NoKeyring())  # type: ignore[no-untyped-call]
    yield
    keyring.set_keyring(before)


def files_with(word: str, folders: Folders) -> list[str]:
    """The files of the application in which this stands."""
    found = [path for path in folders.config.parent.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]
    return [path.name for path in found]


@pytest.mark.parametrize(
    ("address", "bare", "password"),
    [
        (PROXY, BARE, "s3cret"),
        ("http://me:a@b:c@host:1/", "http://me@host:1/", "a@b:c"),
        ("http://:only@host", "http://@host", "only"),
        ("http://me@host", "http://me@host", ""),
        ("https://host:8", "https://host:8", ""),
        ("http://me:x@[::1]:3128", "http://me@[::1]:3128", "x"),
        ("http://[", "http://[", ""),
        ("", "", ""),
    ],
)
def test_passwords_are_taken_out_and_put_in_again(address: str, bare: str, password: str) -> None:
    assert split_password(address) == (bare, password)
    assert join_password(bare, password) == address


@pytest.mark.parametrize("stored", [{"version": 1, "proxy": PROXY, "target": "/a"}])
def test_a_password_of_an_earlier_version_moves_to_the_keyring(
    folders: Folders, open_window: OpenWindow, link: FakeLink, memory: Memory, no_proxy: None, qtbot: QtBot,
    settings: SettingsFile,
) -> None:  # fmt: skip
    assert files_with("s3cret", folders) == []
    window = open_window(link)
    assert os.environ["HTTPS_PROXY"] == PROXY
    qtbot.waitUntil(lambda: memory.kept == {KEY: "s3cret"})
    assert (settings.current.proxy, settings.current.target) == (BARE, "/a")
    assert "s3cret" not in diagnostics(EngineState(), settings.current, folders)
    window.close()
    assert "HTTPS_PROXY" not in os.environ
    assert files_with("s3cret", folders) == []


def test_the_next_start_finds_it_again(
    folders: Folders, open_window: OpenWindow, link: FakeLink, memory: Memory, no_proxy: None, qtbot: QtBot,
    settings: SettingsFile,
) -> None:  # fmt: skip
    memory.kept[KEY] = "s3cret"
    settings.change(proxy=BARE)
    open_window(link)
    qtbot.waitUntil(lambda: os.environ.get("HTTPS_PROXY") == PROXY)
    assert files_with("s3cret", folders) == []


def test_without_a_keyring_it_holds_for_this_run_and_that_is_said(
    folders: Folders, open_window: OpenWindow, link: FakeLink, no_keyring: None, no_proxy: None, qtbot: QtBot,
    settings: SettingsFile,
) -> None:  # fmt: skip
    settings.change(proxy=PROXY)
    window = open_window(link)
    qtbot.waitUntil(lambda: any(each.key == UNKEPT_NOTICE for each in window.notices.notices))
    assert os.environ["HTTPS_PROXY"] == PROXY
    assert files_with("s3cret", folders) == []


def test_a_copy_of_another_versions_settings_holds_no_password(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"version": 9, "proxy": PROXY, "endpoint": "https://me:0ther@hub", "new": 1}))
    settings = SettingsFile(path)
    assert settings.take_passwords() == {BARE: "s3cret", "https://me@hub": "0ther"}
    assert settings.take_passwords() == {}
    texts = [each.read_text("utf-8") for each in tmp_path.iterdir()]
    assert len(texts) == 2
    assert not any("s3cret" in text or "0ther" in text for text in texts)
    assert all(json.loads(text)["new"] == 1 for text in texts)


def test_an_address_that_is_not_used_any_more_leaves_no_password(qtbot: QtBot, memory: Memory) -> None:
    passwords = Passwords()
    passwords.follow({"proxy": BARE}, {BARE: "s3cret"})
    qtbot.waitUntil(lambda: memory.kept == {KEY: "s3cret"})
    passwords.follow({"proxy": "http://me@other:1"}, {})
    qtbot.waitUntil(lambda: memory.kept == {})
    assert passwords.complete("http://me@other:1") == "http://me@other:1", "a password goes to its own host alone"


def test_a_new_password_for_the_same_address_replaces_the_old_one(qtbot: QtBot, memory: Memory) -> None:
    passwords = Passwords()
    passwords.follow({"proxy": BARE}, {BARE: "old"})
    passwords.follow({"proxy": BARE}, {BARE: "new"})
    qtbot.waitUntil(lambda: memory.kept == {KEY: "new"})
    assert passwords.complete(BARE) == "http://me:new@proxy.example:3128"


def test_a_keyring_that_fails_in_its_own_way_does_not_end_the_thread(
    qtbot: QtBot, memory: Memory, thread_errors: list[BaseException | None]
) -> None:
    def fail(*_: str) -> None:
        raise KeyError("a back end of somebody")

    passwords = Passwords()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "set_password", fail)
        passwords.follow({"proxy": BARE}, {BARE: "s3cret"})
        qtbot.waitUntil(lambda: len(thread_errors) == 1)
    passwords.follow({"proxy": BARE}, {BARE: "again"})
    qtbot.waitUntil(lambda: memory.kept == {KEY: "again"})


def test_a_locked_keyring_is_no_error(qtbot: QtBot, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_: str) -> None:
        raise KeyringLocked

    monkeypatch.setattr(memory, "set_password", locked)
    passwords = Passwords()
    with qtbot.waitSignal(passwords.not_kept):
        passwords.follow({"proxy": BARE}, {BARE: "s3cret"})
    assert passwords.complete(BARE) == PROXY


@pytest.mark.parametrize("line", [f"through {PROXY}", "proxy http://me:a@s3cret@host:1", "https://s3cret@host/x"])
def test_logs_and_reports_do_not_show_it(line: str) -> None:
    assert "s3cret" not in hide_secrets(line)

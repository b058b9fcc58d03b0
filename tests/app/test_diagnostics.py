"""Diagnostics: they tell what helps, and neither a token nor a word of a chat."""

from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from unittest.mock import Mock

import pytest

from app.chat.archive.store import Store
from app.chat.history.records import ConversationRecord, MessageRecord
from app.engine.state import EngineState, Phase
from app.settings.generation import GenerationSettings
from app.settings.store import Settings
from app.shell.diagnostics import diagnostics
from app.shell.faults import crash
from app.shell.faults.crash import hide_secrets
from app.system.paths import Folders
from tests.app.fake_engine import loaded

TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQr"
SAID = "My grandmother's pancake recipe needs seven eggs"


@pytest.fixture
def chats(folders: Folders) -> None:
    """A conversation on disk: a long question, a short one, and an answer that still grows."""
    store = Store(folders.chats_file)
    texts = (
        ("user", SAID, "complete"),
        ("user", "burgundy walrus", "complete"),
        ("assistant", "The cipher is plum tart", "open"),
    )
    record = ConversationRecord(1, title="Pancakes")
    store.save(record, [MessageRecord(n, 1, 0, role, text, ending) for n, (role, text, ending) in enumerate(texts, 2)])  # type: ignore[arg-type]
    store.close()


def told(folders: Folders, settings: Settings | None = None, state: EngineState | None = None) -> str:
    """The text as it would be copied."""
    return diagnostics(state or EngineState(), settings or Settings(), folders)


def test_versions_hardware_and_where_layers_are_are_told(folders: Folders) -> None:
    text = told(folders, state=EngineState(Phase.READY, pair=loaded(1, "embedded")))
    for part in ("coppice", "Python", "Qt", "torch", "RAM", "threads", "demo-target", "layers:", "theme: system"):
        assert part in text


@pytest.mark.usefixtures("chats")
@pytest.mark.parametrize(
    "line",
    [
        "2026-01-01 10:00:00,000 ERROR cannot encode needs seven eggs here",
        "Traceback: ValueError: MY GRANDMOTHER'S PANCAKE is not valid",
        "2026-01-01 10:00:00,000 INFO asked burgundy walrus, answered",
        "2026-01-01 10:00:00,000 INFO so far: cipher is plum",
    ],
)
def test_no_line_that_repeats_a_chat(folders: Folders, line: str) -> None:
    folders.application_log.write_text(f"2026-01-01 09:00:00,000 INFO The engine was started\n{line}\n")
    folders.engine_log.write_text(line + "\n")
    text = told(folders)
    assert line not in text
    for word in ("eggs", "PANCAKE", "walrus", "plum"):
        assert word not in text
    assert "The engine was started" in text


def test_every_line_and_every_message_is_taken_apart_a_few_times_alone(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(folders.chats_file)
    store.save(ConversationRecord(1), [MessageRecord(n, 1, 0, "user", f"short {n}", "complete") for n in range(2, 502)])
    store.close()
    folders.application_log.write_text("".join(f"INFO line {number} of a log\n" for number in range(40)))
    words = Mock(side_effect=crash._words)
    monkeypatch.setattr(crash, "_words", words)
    assert "[hidden]" not in crash.log_excerpt(folders.application_log, folders.chats_file)
    assert 500 < words.call_count <= 2 * 40 + 500


def test_without_knowing_the_chats_no_line_is_told(folders: Folders) -> None:
    folders.chats_file.write_bytes(b"no database at all")
    folders.application_log.write_text("2026-01-01 09:00:00,000 INFO The engine was started\n")
    assert "The engine was started" not in told(folders)


@pytest.mark.parametrize(
    "line",
    [
        f"GET with {TOKEN} failed",
        f"Authorization: Bearer {TOKEN}",
        f"token={TOKEN[3:]}",
        f"https://user:{TOKEN[3:]}@hub.example/x",
        f"https://cdn.example/file?X-Amz-Signature={TOKEN[3:]}&part=1",
        f'{{"api_key": "{TOKEN[3:]}"}}',
    ],
)
def test_no_token_from_the_log(folders: Folders, line: str) -> None:
    folders.application_log.write_text(line + "\n")
    assert TOKEN[3:] not in told(folders)


def test_no_secret_from_the_settings(folders: Folders) -> None:
    generation = GenerationSettings(system_prompt="You are my diary", json_schema='{"title": "my diary"}')
    settings = Settings(proxy="http://me:pass@proxy:3128", endpoint="https://me:pass@hub", generation=generation)
    text = told(folders, settings)
    assert "pass" not in text
    assert "diary" not in text
    assert "proxy: set" in text


def test_names_in_quotes_stay_and_sentences_go() -> None:
    assert hide_secrets("The settings in '/home/x/settings.json' cannot be read") == (
        "The settings in '/home/x/settings.json' cannot be read"
    )
    assert "dear" not in hide_secrets("bad prompt 'my dear diary, today'")


@pytest.mark.parametrize(
    ("home", "written"),
    [
        (PurePosixPath("/home/somebody"), "/home/somebody/line"),
        (PureWindowsPath(r"C:\Users\somebody"), r"c:\Users\somebody/line"),
        (PureWindowsPath(r"C:\Users\somebody"), r"C:\\Users\\somebody/line"),  # as an error quotes it
        (PureWindowsPath(r"C:\Users\somebody"), "file:///C:/Users/somebody/line"),
    ],
)
def test_only_the_last_lines_and_no_home(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, home: PurePath, written: str
) -> None:
    monkeypatch.setattr(Path, "home", lambda: home)
    folders.application_log.write_text("".join(f"INFO {written}{n}\n" for n in range(500)))
    text = told(folders)
    assert "~/line499" in text
    assert "line400" not in text
    assert "somebody" not in text

"""Killed at any moment, the application and its engine lose nothing that was on the screen for a second."""

import os
from pathlib import Path

import pytest

from app.chat.archive.store import Store
from app.chat.history.records import ConversationRecord, MessageRecord
from tests.app.crashes.journal import SHOWN_LOOKS, Entry, holds, losses, read
from tests.app.crashes.killing import Place, kill_application, kill_engines
from tests.campaigns.extent import choose, for_the_proofs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a matter of POSIX")


SEEDS = choose([1], [0, 1])  # of the two, this one waits for the engine and then for seconds


@pytest.fixture
def place(engine_python: Path, tmp_path: Path) -> Place:
    """A folder, and a fake engine."""
    return Place(tmp_path, engine_python)


def test_the_application_killed_again_and_again_loses_nothing(place: Place) -> None:
    lost = {seed: kill_application(place, seed) for seed in SEEDS}
    assert lost == {seed: [] for seed in lost}
    noted = [each for seed in lost for each in read(place.folder / f"application-{seed}.jsonl")]
    assert any("answer" in each for each in noted), "nothing was ever on the screen"


@for_the_proofs
def test_engines_killed_one_after_the_other_take_nothing_with_them(place: Place) -> None:
    assert kill_engines(place, seed=11, times=2) == []
    noted = read(place.folder / "engines-11.jsonl")
    assert len({each["engine"] for each in noted if each.get("engine")}) == 3
    assert any("answer" in each and each["answer"][3] for each in noted)


# ---- that a loss would be seen -----------------------------------------------------------------------------------


def shown(at: int, text: str) -> list[Entry]:
    """A conversation in the list, and an answer of it, seen at this look."""
    return [{"at": at, "list": [[1, "Trees", False, ""]]}, {"at": at, "answer": [1, 3, "Which tree?", text]}]


def keep(database: Path, text: str, title: str = "Trees") -> None:
    """The same conversation in a database."""
    store = Store(database)
    question = MessageRecord(2, 1, 0, "user", "Which tree?")
    store.save(ConversationRecord(1, title=title), [question, MessageRecord(3, 1, 2, "assistant", text)])
    store.close()


@pytest.mark.parametrize(
    ("text", "title", "lost"),
    [
        ("An *oak*, a larch", "Trees", []),
        ("An oak", "Trees", ["a text"]),
        ("An oak, a larch", "Bushes", ["a conversation"]),
    ],
)
def test_what_was_shown_for_a_second_is_missed(tmp_path: Path, text: str, title: str, lost: list[str]) -> None:
    keep(tmp_path / "chats.sqlite3", text, title)
    entries = shown(10, "An oak, a larch")
    assert [each.what for each in losses(tmp_path / "chats.sqlite3", [*entries, {"at": 10 + SHOWN_LOOKS}])] == lost
    assert losses(tmp_path / "chats.sqlite3", [*entries, {"at": 9 + SHOWN_LOOKS}]) == []


def test_a_conversation_that_is_gone_is_missed(tmp_path: Path) -> None:
    Store(tmp_path / "chats.sqlite3").close()
    entries, last = shown(10, "An oak"), 10 + SHOWN_LOOKS
    assert [each.what for each in losses(tmp_path / "chats.sqlite3", [*entries, {"at": last}])] == ["a conversation"]
    assert losses(tmp_path / "chats.sqlite3", [*entries, {"at": last, "list": []}]) == []
    assert [each.what for each in losses(tmp_path / "none.sqlite3", [*entries, {"at": last}])] == ["the file"]


def test_letters_are_looked_for_in_order() -> None:
    assert holds("1. **Apple**\n2. Pear", "Apple Pear")
    assert not holds("Pear, apple", "apple Pear")

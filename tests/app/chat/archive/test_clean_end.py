"""The whole file is read only after an end that was not orderly."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.chat.archive.store import Store
from app.chat.history.records import ConversationRecord, MessageRecord, RoundPlace
from tests.campaigns.extent import choose

CHAT = ConversationRecord(1, title="Trees")
MARK = "chats.sqlite3-clean"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.sqlite3"


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What SQLite is asked from now on, by whatever connection."""
    asked: list[str] = []
    connect = sqlite3.connect

    def tracing(*given: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **named)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", tracing)
    return asked


def checks(statements: list[str]) -> bool:
    """Whether every page was asked for since the last time."""
    found = any("quick_check" in each or "integrity" in each for each in statements)
    statements.clear()
    return found


def keep(store: Store, rounds: int = 0) -> None:
    store.save(CHAT, [MessageRecord(2, 1, 0, "user", "Which tree?")])
    places = [RoundPlace(2, 1, number, 0, 0, 0) for number in range(rounds)]
    store.save_rounds(1, [(place, os.urandom(1 << 20)) for place in places])


def test_nothing_is_checked_after_an_orderly_end(path: Path, statements: list[str]) -> None:
    store = Store(path)
    keep(store)
    store.close()
    checks(statements)
    for _ in range(2):
        store = Store(path)
        assert [each.id for each in store.conversations()] == [1]
        store.close()
        assert not checks(statements)


def test_no_statement_of_an_orderly_start_reads_all_messages(path: Path, statements: list[str]) -> None:
    store = Store(path)
    keep(store)
    store.close()
    statements.clear()
    store = Store(path)
    asked = [each for each in statements if each.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))]
    plans = [" ".join(row[3] for row in store._connection.execute(f"EXPLAIN QUERY PLAN {each}")) for each in asked]
    assert plans
    assert not [plan for plan in plans if "SCAN messages" in plan and "INDEX" not in plan]
    store.close()


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="counts the bytes that this process reads")
def test_an_orderly_start_reads_little_of_a_large_file(path: Path) -> None:
    store = Store(path)
    keep(store, rounds=16)
    store.close()
    assert bytes_read(lambda: Store(path).close()) < path.stat().st_size // 10
    Path(path.with_name(MARK)).unlink()
    assert bytes_read(lambda: Store(path).close()) > path.stat().st_size, "that is what a check reads"


def bytes_read(work: Callable[[], None]) -> int:
    def so_far() -> int:
        return int(Path("/proc/self/io").read_text(encoding="utf-8").split("rchar: ")[1].split()[0])

    before = so_far()
    work()
    return so_far() - before


_DIES = """
import os, sys
from pathlib import Path
from app.chat.history.records import ConversationRecord, MessageRecord
from app.chat.archive.store import Store

store = Store(Path(sys.argv[1]))
if sys.argv[2] == "after saving":
    store.save(ConversationRecord(1, title="Trees"), [MessageRecord(2, 1, 0, "user", "Which tree?")])
if sys.argv[2] == "while closing":
    store.save(ConversationRecord(1, title="Trees"), [MessageRecord(2, 1, 0, "user", "Which tree?")])
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
os._exit(9)
"""


@pytest.mark.parametrize("when", ["after saving", *choose([], ["after opening", "while closing"])])
def test_everything_is_checked_after_a_kill(path: Path, statements: list[str], when: str) -> None:
    Store(path).close()
    killed = subprocess.run([sys.executable, "-c", _DIES, str(path), when], check=False)
    assert killed.returncode == 9
    checks(statements)
    Store(path).close()
    assert checks(statements)
    Store(path).close()
    assert not checks(statements)


def _restored(path: Path) -> None:
    """A backup comes in the place of the file, with all its times."""
    copy = path.with_name("backup")
    shutil.copy2(path, copy)
    copy.replace(path)


def _grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\0" * 4096)


@pytest.mark.parametrize(
    "change",
    [
        _restored,
        _grown,
        os.utime,
        lambda path: path.with_name(MARK).write_text("{"),
        lambda path: path.with_name(MARK).write_bytes(b"\xff"),
        lambda path: path.with_name(MARK).unlink(),
        lambda path: path.with_name(f"{path.name}-wal").write_bytes(b"somebody's log"),
    ],
)
def test_a_file_that_was_changed_since_is_checked(
    path: Path, statements: list[str], change: Callable[[Path], object]
) -> None:
    Store(path).close()
    change(path)
    checks(statements)
    Store(path).close()
    assert checks(statements)


def test_a_file_in_which_damage_was_met_is_checked(path: Path, statements: list[str]) -> None:
    store = Store(path)
    keep(store)
    store._connection.execute("UPDATE texts_data SET block = randomblob(40)")
    store.search("tree")
    store.close()
    checks(statements)
    Store(path).close()
    assert checks(statements)


def test_a_second_program_that_still_uses_the_file_leaves_no_mark_behind_its_back(
    path: Path, statements: list[str]
) -> None:
    first, second = Store(path), Store(path)
    first.close()
    keep(second)
    second._connection.close()  # as if it were killed: no mark of its own
    checks(statements)
    Store(path).close()
    assert checks(statements)

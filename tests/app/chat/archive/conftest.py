"""What tests of the archive leave open is closed behind them: later Pythons warn of a database that nobody closed."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from app.chat.archive import schema


@pytest.fixture(autouse=True)
def closed_behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every store that a test opened, also one that stands for a program which died."""
    opened: list[sqlite3.Connection] = []
    connect = schema.connect

    def remembered(path: Path) -> sqlite3.Connection:
        opened.append(connect(path))
        return opened[-1]

    monkeypatch.setattr(schema, "connect", remembered)
    yield
    for connection in opened:
        with suppress(sqlite3.ProgrammingError):  # of another thread, which closes its own
            connection.close()

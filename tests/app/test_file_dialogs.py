"""Dialogs that ask for files begin in the folder used last, first in the person's documents; also after a restart."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QStandardPaths
from PySide6.QtWidgets import QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from app.settings.store import SettingsFile
from app.ui.file_dialogs import ask_for_file, ask_for_files, ask_for_folder, ask_where, first_folder, remember_folder
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink

KINDS = {"Markdown (*.md)": ".md"}


@pytest.fixture(autouse=True)
def documents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, qtbot: QtBot) -> Iterator[Path]:
    """The person's documents; nothing has been asked for yet."""
    place = tmp_path / "Documents"
    place.mkdir()
    monkeypatch.setattr(QStandardPaths, "writableLocation", lambda _kind: str(place))
    remember_folder("")
    yield place
    remember_folder("")


@pytest.fixture
def parent(qtbot: QtBot) -> QWidget:
    """What the dialogs belong to."""
    made = QWidget()
    qtbot.addWidget(made)
    return made


ASKED: dict[str, tuple[str, Callable[[QWidget], object]]] = {
    "save": ("getSaveFileName", lambda parent: ask_where(parent, "Save", "start.md", KINDS)),
    "open": ("getOpenFileName", lambda parent: ask_for_file(parent, "Open", "")),
    "open several": ("getOpenFileNames", lambda parent: ask_for_files(parent, "Open")),
}


@pytest.mark.parametrize(("function", "ask"), ASKED.values(), ids=ASKED)
def test_a_dialog_begins_where_the_last_one_ended(
    function: str,
    ask: Callable[[QWidget], object],
    parent: QWidget,
    documents: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    file = tmp_path / "elsewhere" / "chosen.md"
    file.parent.mkdir()
    answer = [str(file)] if function == "getOpenFileNames" else str(file)
    nothing: object = [] if function == "getOpenFileNames" else ""

    def asked(_parent: QWidget, _title: str, start: str, _kinds: str) -> tuple[object, str]:
        begun.append(start)
        return (answer if len(begun) == 1 else nothing), ""

    monkeypatch.setattr(QFileDialog, function, asked)
    name = ("start.md",) if function == "getSaveFileName" else ()
    for _ in range(3):
        ask(parent)
    assert begun == [str(Path(each, *name)) for each in (documents, file.parent, file.parent)], (
        "giving up moves nothing"
    )


def test_a_folder_that_is_gone_is_not_begun_in(documents: Path, tmp_path: Path) -> None:
    remember_folder(str(tmp_path / "stick"))
    assert first_folder() == str(documents)
    documents.rmdir()
    assert first_folder() == str(Path.home())


def test_a_folder_is_looked_for_there_too(parent: QWidget, documents: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda _parent, _title, start: start)
    assert ask_for_folder(parent, "Folder") == str(documents)


def test_it_outlives_the_session(open_window: OpenWindow, settings: SettingsFile, tmp_path: Path) -> None:
    window = open_window(FakeLink())
    remember_folder(str(tmp_path))
    window.close()
    assert settings.current.files_folder == str(tmp_path)
    remember_folder("")
    open_window(FakeLink()).program.begin()
    assert first_folder() == str(tmp_path)

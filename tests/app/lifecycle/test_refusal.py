"""A program that cannot start says why, where somebody reads it."""

import errno
import sys
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.shell.faults import crash
from app.shell.instance import Instance
from app.system.paths import folders_below
from engine.errors import InputError

ERROR = InputError("Something is in the way.", "Take it away.")


class Box:
    """Instead of the box: somebody reads it and closes it."""

    def __init__(self) -> None:
        self.errors: list[object] = []

    def __call__(self, error: object) -> "Box":
        self.errors.append(error)
        return self

    def exec(self) -> None:
        """Closed at once."""


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Box:
    """What would be shown."""
    made = Box()
    monkeypatch.setattr(crash, "refusal_box", made)
    monkeypatch.setattr(crash, "install", lambda *_: ())
    return made


@pytest.mark.parametrize(
    ("frozen", "terminal", "shown"), [(True, False, 1), (True, True, 0), (False, False, 0), (False, True, 0)]
)
def test_a_box_is_shown_where_nobody_reads_the_terminal(
    qapp: QApplication,
    box: Box,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    frozen: bool,
    terminal: bool,
    shown: int,
) -> None:
    monkeypatch.setattr(crash, "is_frozen", lambda: frozen)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert crash.refuse(qapp, ERROR) == 2
    assert len(box.errors) == shown
    assert capsys.readouterr().err == "error: Something is in the way. Take it away.\n"


@pytest.mark.parametrize("frozen", [True, False])  # a checkout, too: its shortcut on Windows starts pythonw
def test_a_program_without_standard_error_still_says_it(
    qapp: QApplication, box: Box, monkeypatch: pytest.MonkeyPatch, frozen: bool
) -> None:
    monkeypatch.setattr(crash, "is_frozen", lambda: frozen)
    monkeypatch.setattr(sys, "stderr", None)
    assert crash.refuse(qapp, ERROR) == 2
    assert box.errors == [ERROR]


def test_the_box_says_what_happened_and_what_to_do(qtbot: QtBot) -> None:
    shown = crash.refusal_box(ERROR)
    qtbot.addWidget(shown)
    assert (shown.text(), shown.informativeText()) == (ERROR.message, ERROR.hint)


def test_the_box_is_in_the_language_that_is_installed_behind_the_error(
    qtbot: QtBot, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    errors = [crash.unusable(folders_below(tmp_path), OSError("odd"))]
    with pytest.raises(InputError) as raised:
        Instance(tmp_path).hand_over("")
    request.getfixturevalue("german")
    for error in (*errors, raised.value):
        shown = crash.refusal_box(error)
        qtbot.addWidget(shown)
        assert shown.text() != error.message
        assert shown.informativeText() != error.hint
        assert str(tmp_path) in shown.text()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folders = folders_below(tmp_path)
    error = crash.unusable(folders, OSError(errno.EROFS, "Read-only file system", "/home/anna/.config"))
    assert "/home/anna/.config: Read-only file system." in error.message
    assert "--data-dir" in error.hint
    assert str(folders.config) in crash.unusable(folders, OSError("odd")).message

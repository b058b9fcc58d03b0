"""A file is never replaced unasked, also where its suffix was added after the dialog's own question."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from app.ui.file_dialogs import ask_where

KINDS = {"Markdown (*.md)": ".md", "JSON (*.json)": ".json"}
YES, CANCEL = QMessageBox.StandardButton.Yes, QMessageBox.StandardButton.Cancel


@pytest.mark.parametrize(
    ("typed", "kind", "answer", "wanted"),
    [
        ("", "", None, None),
        ("new", "Markdown (*.md)", None, "new.md"),
        ("new", "JSON (*.json)", None, "new.json"),
        ("new", "", None, "new.md"),
        ("notes.md", "", None, "notes.md"),  # the dialog has asked
        ("new.MD", "JSON (*.json)", None, "new.MD"),
        ("new.txt", "Markdown (*.md)", None, "new.txt"),
        ("Qwen2.5 tree", "Markdown (*.md)", None, "Qwen2.5 tree.md"),
        ("Llama 3.1", "JSON (*.json)", None, "Llama 3.1.json"),
        ("rounds of 28.11.", "Markdown (*.md)", None, "rounds of 28.11..md"),
        ("notes", "Markdown (*.md)", YES, "notes.md"),
        ("notes", "Markdown (*.md)", CANCEL, None),
        ("notes", "JSON (*.json)", None, "notes.json"),
    ],
)
def test_what_is_there_is_asked_about(
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    kind: str,
    answer: QMessageBox.StandardButton | None,
    wanted: str | None,
) -> None:
    (tmp_path / "notes.md").touch()
    parent = QWidget()
    qtbot.addWidget(parent)
    asked: list[str] = []

    def question(_parent: QWidget, _title: str, words: str, *_: object) -> QMessageBox.StandardButton:
        asked.append(words)
        assert answer is not None, "nothing is there"
        return answer

    monkeypatch.setattr(QMessageBox, "warning", question)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / typed) if typed else "", kind))
    found = ask_where(parent, "Export", "start.md", KINDS)
    assert found == (tmp_path / wanted if wanted else None)
    assert bool(asked) == (answer is not None)
    assert all("notes.md" in each for each in asked)

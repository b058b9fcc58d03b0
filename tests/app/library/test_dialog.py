"""Choosing a pair in the Models dialog."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.engine_state import EngineState, Phase
from app.library.dialog import ModelsDialog
from engine.messages import Failed
from engine.options import LoadOptions
from tests.app.fake_engine import loaded


@pytest.fixture
def dialog(qtbot: QtBot) -> ModelsDialog:
    """The dialog, with the demo loaded."""
    made = ModelsDialog()
    qtbot.addWidget(made)
    made.show_pair(LoadOptions())
    made.show_engine_state(EngineState(Phase.READY, pair=loaded(1)))
    made.open()
    return made


@pytest.fixture
def asked(dialog: ModelsDialog) -> list[LoadOptions]:
    """What was asked for."""
    options: list[LoadOptions] = []
    dialog.load_requested.connect(options.append)
    return options


def choose(dialog: ModelsDialog, target: str, draft: str) -> None:
    """Fill both fields as a person would."""
    for field, words in ((dialog.target, target), (dialog.draft, draft)):
        kind, _, place = words.partition(": ")
        field.kind.setCurrentIndex(field.kind.findText(kind))
        field.place.setText(place)


@pytest.mark.parametrize(
    ("target", "draft", "options"),
    [
        ("Embedded demo", "Automatic", LoadOptions()),
        ("Embedded demo", "Embedded demo", LoadOptions("embedded", "embedded")),
        ("Embedded demo", "None (no speculation)", LoadOptions("embedded", "none")),
        ("Folder: /models/big", "Folder: /models/small", LoadOptions("/models/big", "/models/small")),
        ("Local hub cache: org/big", "Automatic", LoadOptions("org/big", "auto")),
    ],
)
def test_every_choice_is_a_source(
    dialog: ModelsDialog, asked: list[LoadOptions], target: str, draft: str, options: LoadOptions
) -> None:
    choose(dialog, target, draft)
    dialog.load.click()
    assert asked == [options]


@pytest.mark.parametrize(
    "options",
    [LoadOptions(), LoadOptions("/models/big", "none"), LoadOptions("org/big", "org/small"), LoadOptions("./a", "~/b")],
)
def test_what_is_loaded_is_shown_as_it_was_chosen(
    dialog: ModelsDialog, asked: list[LoadOptions], options: LoadOptions
) -> None:
    dialog.show_pair(options)
    dialog.load.click()
    assert asked == [options]


def test_a_choice_without_a_place_cannot_be_loaded(dialog: ModelsDialog) -> None:
    choose(dialog, "Folder", "Automatic")
    assert not dialog.load.isEnabled()
    dialog.target.place.setText("/models/big")
    assert dialog.load.isEnabled()
    choose(dialog, "Embedded demo", "Local hub cache")
    assert not dialog.load.isEnabled()


def test_only_what_is_needed_is_shown(dialog: ModelsDialog) -> None:
    assert not dialog.target.place.isVisible()
    choose(dialog, "Folder", "Local hub cache")
    assert dialog.target.place.isVisible()
    assert dialog.target.browse.isVisible()
    assert not dialog.draft.browse.isVisible()
    assert dialog.target.place.height() >= dialog.target.place.minimumSizeHint().height()


def test_browse_fills_in_the_folder(dialog: ModelsDialog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    choose(dialog, "Folder", "Automatic")
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(tmp_path))
    dialog.target.browse.click()
    assert dialog.target.source == str(tmp_path)
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "")
    dialog.target.browse.click()
    assert dialog.target.source == str(tmp_path)


def test_a_failure_stands_in_the_dialog_until_the_next_try(dialog: ModelsDialog) -> None:
    choose(dialog, "Folder: /nowhere", "Automatic")
    dialog.load.click()
    dialog.on_load_failed(Failed(2, "There is no model folder '/nowhere'.", "Check the path."))
    assert dialog.error.text() == "There is no model folder '/nowhere'. Check the path."
    dialog.on_pair_loaded()  # the pair before, which took its place
    assert dialog.isVisible()
    dialog.load.click()
    assert not dialog.error.isVisible()
    dialog.on_pair_loaded()
    assert not dialog.isVisible()


def test_loading_shows_its_progress(dialog: ModelsDialog) -> None:
    dialog.show_engine_state(EngineState(Phase.LOADING, "Loading big", 1, 2))
    assert dialog.progress.isVisible()
    assert (dialog.progress.value(), dialog.progress.maximum()) == (1, 2)
    assert dialog.state.text() == "Loading big (2 of 2)"
    dialog.show_engine_state(EngineState(Phase.READY, pair=loaded(1)))
    assert not dialog.progress.isVisible()
    assert dialog.state.text() == "Loaded: demo-target + demo-draft on cpu, float32"

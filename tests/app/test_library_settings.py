"""What the model library keeps in the settings: a draft per target, and folders that hold models."""

import json

import pytest

from app.settings.store import SettingsFile
from app.system.paths import Folders


def test_drafts_and_folders_are_kept(settings: SettingsFile, folders: Folders) -> None:
    settings.remember_draft("org/large", "org/small")
    settings.remember_draft("/models/other", "none")
    settings.change(model_folders=("/models", "/more"))
    again = SettingsFile(folders.settings_file).current
    assert again == settings.current
    assert again.drafts == {"org/large": "org/small", "/models/other": "none"}
    assert again.model_folders == ("/models", "/more")


def test_only_the_newest_drafts_are_kept(settings: SettingsFile) -> None:
    settings.change(drafts={f"org/m{number}": "org/d" for number in range(100, 400)})
    for number in (150, 151, 400):
        settings.remember_draft(f"org/m{number}", "org/e")
    drafts = settings.current.drafts
    assert len(drafts) == 300
    assert drafts["org/m150"] == "org/e"
    assert drafts["org/m400"] == "org/e"
    assert "org/m100" not in drafts
    assert "org/m101" in drafts


@pytest.mark.parametrize("junk", [7, "x", [], {"a": 7}, [7], None])
def test_junk_is_nothing(junk: object, settings: SettingsFile, folders: Folders) -> None:
    folders.settings_file.write_text(json.dumps({"drafts": junk, "model_folders": junk, "target": "org/x"}))
    read = SettingsFile(folders.settings_file).current
    assert (read.drafts, read.model_folders, read.target) == ({}, (), "org/x")

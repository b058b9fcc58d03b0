"""Presets: saved, chosen, renamed, deleted, marked; and what cannot be done, in words."""

import pytest

from app.chat.generation.controller import ChatController
from app.chat.generation.popover import GenerationPopover
from app.chat.generation.presets import Presets
from app.settings.generation import GenerationSettings
from app.settings.store import SettingsFile
from engine.errors import InputError

SHORT = GenerationSettings(max_new_tokens=3, system_prompt="Be brief.")


def test_presets_outlive_the_window(presets: Presets, settings: SettingsFile) -> None:
    assert presets.save("  For\tcode ", SHORT) == "For code"
    presets.set_default("For code")
    again = SettingsFile(settings.path)
    assert again.current.presets == {"For code": SHORT}
    assert again.current.beginning == SHORT


def test_presets_are_renamed_and_deleted_with_their_mark(presets: Presets) -> None:
    presets.save("a", SHORT)
    presets.save("b", GenerationSettings())
    presets.set_default("a")
    assert presets.rename("a", "c") == "c"
    assert (presets.names, presets.default, presets.name_of(SHORT)) == (["b", "c"], "c", "c")
    presets.delete("c")
    assert (presets.names, presets.default) == (["b"], "")


@pytest.mark.parametrize("name", ["", "  ", "\n", "x" * 61])
def test_a_name_that_is_none_is_refused(presets: Presets, name: str) -> None:
    with pytest.raises(InputError):
        presets.save(name, SHORT)


def test_a_name_is_given_once_and_settings_must_be_legal(presets: Presets) -> None:
    presets.save("a", SHORT)
    presets.save("b", SHORT)
    with pytest.raises(InputError, match="already"):
        presets.rename("a", "b")
    with pytest.raises(InputError, match="no preset"):
        presets.delete("nobody")
    with pytest.raises(InputError):
        presets.save("c", GenerationSettings(temperature=-1.0))


@pytest.mark.parametrize("stored", [5, [], {"a": 5}, {"": {}}, {"a": {"temperature": -1}}])
def test_damaged_presets_are_defaults_or_none(settings: SettingsFile, stored: object) -> None:
    settings.path.write_text(f'{{"presets": {stored!r}}}'.replace("'", '"'))
    kept = SettingsFile(settings.path).current.presets
    assert all(each == GenerationSettings() for each in kept.values())
    assert "" not in kept


# ---- through the widgets --------------------------------------------------------------------------------------------


def test_settings_are_saved_and_chosen_by_name(popover: GenerationPopover, chat: ChatController) -> None:
    row = popover.presets
    popover.form.field("max_new_tokens").setValue(3)
    row.names.setEditText("Short")
    row.save.click()
    popover.form.field("max_new_tokens").setValue(99)
    assert chat.generation.max_new_tokens == 99
    row.names.setCurrentIndex(row.names.findText("Short"))
    row.names.activated.emit(row.names.currentIndex())
    assert chat.generation.max_new_tokens == 3
    assert popover.form.field("max_new_tokens").value() == 3
    assert row.names.currentText() == "Short"


def test_the_chosen_one_is_renamed_marked_and_deleted(
    popover: GenerationPopover, chat: ChatController, presets: Presets
) -> None:
    row = popover.presets
    assert not row.rename.isEnabled()
    assert not row.is_default.isEnabled()
    row.names.setEditText("Short")
    row.save.click()
    row.names.setEditText("Brief")
    row.rename.click()
    assert presets.names == ["Brief"]
    row.is_default.click()
    assert presets.default == "Brief"
    row.delete.click()
    assert presets.names == []
    assert row.names.currentText() == ""
    assert "Brief" in row.told.text()
    row.undo.click()
    assert (presets.names, presets.default) == (["Brief"], "Brief")
    assert not row.undo.isVisible()


def test_a_preset_that_is_written_over_can_be_brought_back(popover: GenerationPopover, presets: Presets) -> None:
    presets.save("Short", SHORT)
    popover.presets.names.setEditText("Short")
    popover.presets.save.click()
    assert presets.named("Short") == GenerationSettings()
    popover.presets.undo.click()
    assert presets.named("Short") == SHORT
    popover.presets.save.click()
    popover.open_below(popover, "method")
    assert not popover.presets.undo.isVisible(), "it is another day"


def test_buttons_that_are_off_say_why(popover: GenerationPopover) -> None:
    row = popover.presets
    assert all("Choose a preset" in each.toolTip() for each in (row.rename, row.delete, row.is_default))
    row.names.setEditText("Short")
    row.save.click()
    assert not any("Choose a preset" in each.toolTip() for each in (row.rename, row.delete, row.is_default))


def test_what_cannot_be_done_is_said(popover: GenerationPopover) -> None:
    popover.presets.save.click()
    assert popover.error.isVisible()
    assert not popover._page.isAncestorOf(popover.error), "it would be out of sight on a low screen"
    assert "needs a name" in popover.error.text()
    popover.presets.names.setEditText("a")
    popover.presets.save.click()
    assert not popover.error.isVisible()

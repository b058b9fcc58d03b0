"""Answers that are held to a form: the settings, their field, what is sent, and what is said of a wrong one."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPlainTextEdit
from pytestqt.qtbot import QtBot

from app.chat.composer.composer import Composer
from app.chat.generation import popover as popover_module
from app.chat.generation.constraint_state import ConstraintState, constraint_state
from app.chat.generation.context_fit import summary_options
from app.chat.generation.controller import FAILED_NOTICE, ChatController
from app.chat.generation.formal_text import FormalTextField, read_formal_text
from app.chat.generation.popover import GenerationPopover
from app.engine.state import EngineState, Phase
from app.settings.generation import GenerationSettings
from app.settings.store import SettingsFile, read_generation
from app.ui.theme import LIGHT
from engine.errors import InputError
from engine.protocol.messages import Failed, Generate
from engine.protocol.options import MOST_CONSTRAINT, Constraint
from tests.app.chat.generation.test_controller import Room, room

__all__ = ["room"]

SCHEMA = '{"type": "object", "properties": {"name": {"type": "string"}}}'
HELD = GenerationSettings(constraint="json_schema", json_schema=SCHEMA)
WRONG = replace(HELD, json_schema='{\n  "type": "object",\n3}')


def choose(popover: GenerationPopover, kind: str) -> None:
    box = popover.form.field("constraint")
    box.setCurrentIndex(box.findData(kind))


# ---- settings -------------------------------------------------------------------------------------------------------


def test_each_kind_is_what_the_engine_knows_it_as() -> None:
    texts = GenerationSettings(json_schema=SCHEMA, regex="a+\n", grammar='start: "a"')
    found = {kind: replace(texts, constraint=kind).options().constraint for kind in ("json", "regex", "grammar")}
    assert found == {
        "json": Constraint("json"),
        "regex": Constraint("regex", "a+"),
        "grammar": Constraint("gbnf", 'start: "a"'),
    }
    assert HELD.options().constraint == Constraint("json_schema", SCHEMA)
    assert texts.options().constraint is None, "what is switched off stays, and is not sent"


def test_a_wrong_schema_is_kept_with_all_else(settings: SettingsFile) -> None:
    kept = replace(WRONG, temperature=0.25)
    settings.change(generation=kept, presets={"Wrong": kept})
    again = SettingsFile(settings.path).current
    assert (again.generation, again.presets) == (kept, {"Wrong": kept})


def test_a_kind_of_another_version_is_not_taken() -> None:
    assert read_generation({"constraint": "xml", "temperature": 0.3}) == GenerationSettings()
    with pytest.raises(InputError, match="Constraint 'xml' is out of range"):
        GenerationSettings(constraint="xml").check()


def test_a_summary_is_held_to_nothing() -> None:
    assert summary_options(HELD.options(), 1000).constraint is None


# ---- the field ------------------------------------------------------------------------------------------------------


def test_only_the_text_of_the_chosen_kind_is_shown_and_each_is_kept(
    popover: GenerationPopover, chat: ChatController
) -> None:
    fields = {name: popover.form.field(name) for name in ("json_schema", "regex", "grammar")}
    assert not any(each.isVisible() for each in fields.values())
    choose(popover, "json_schema")
    fields["json_schema"].text.setPlainText(SCHEMA)
    choose(popover, "regex")
    assert [name for name, each in fields.items() if each.isVisible()] == ["regex"]
    fields["regex"].text.setPlainText("a+")
    choose(popover, "json")
    assert not any(each.isVisible() for each in fields.values())
    assert chat.generation == GenerationSettings(constraint="json", json_schema=SCHEMA, regex="a+")


def test_it_is_checked_when_typing_pauses_and_not_with_every_key(popover: GenerationPopover, qtbot: QtBot) -> None:
    choose(popover, "json_schema")
    field = popover.form.field("json_schema")
    field.text.setPlainText(SCHEMA)
    field.judge()
    assert not field.fault.isVisible()
    height = popover.height()
    field.text.clear()
    QTest.keyClicks(field.text, '{"type" 1')
    assert not field.fault.isVisible(), "nobody has finished writing"
    qtbot.waitUntil(field.fault.isVisible)
    assert field.fault.text().startswith("Line 1, column 9:")
    assert "colon" in field.fault.text()
    assert field.text.accessibleDescription() == field.fault.text()
    assert popover.height() >= height
    assert popover.rect().contains(popover.reset.geometry())


def test_every_part_has_a_name_and_is_reached_by_tab(popover: GenerationPopover) -> None:
    choose(popover, "json_schema")
    field = popover.form.field("json_schema")
    assert field.text.accessibleName() == "JSON schema"
    assert len(field.text.toolTip()) > 20
    assert "JSON schema" in field.open.accessibleName()
    assert '"required"' in field.text.placeholderText()
    field.text.setFocus()
    QTest.keyClick(field.text, Qt.Key.Key_Tab)
    assert field.open.hasFocus()


def test_a_file_is_read_into_the_field(
    popover: GenerationPopover, chat: ChatController, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "person.json"
    path.write_bytes(b"\xef\xbb\xbf" + SCHEMA.encode())
    monkeypatch.setattr(popover_module, "ask_for_file", lambda *_: path)
    choose(popover, "json_schema")
    popover.form.field("json_schema").open.click()
    qtbot.waitUntil(lambda: chat.generation.json_schema == SCHEMA)
    assert popover.isVisible()
    path.write_bytes(b"\xff\xfe\xff")
    popover.form.field("json_schema").open.click()
    qtbot.waitUntil(popover.error.isVisible)
    assert "person.json" in popover.error.text()
    assert chat.generation.json_schema == SCHEMA, "what was there stays"


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_bytes(b" " * (4 * MOST_CONSTRAINT + 1))
    with pytest.raises(InputError, match="larger than 1 MB"):
        read_formal_text(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_formal_text(tmp_path / "none.json")


def test_what_grows_stays_on_the_screen_and_is_seen(popover: GenerationPopover, qtbot: QtBot) -> None:
    screen = popover.screen().availableGeometry()
    popover.move(popover.x(), screen.bottom() - popover.height())
    choose(popover, "json_schema")
    assert screen.contains(popover.geometry())
    field = popover.form.field("json_schema")
    qtbot.waitUntil(lambda: not field.open.visibleRegion().isEmpty())


def test_a_text_that_is_shown_again_leaves_the_caret(popover: GenerationPopover) -> None:
    field = popover.form.field("json_schema")
    assert isinstance(field, FormalTextField)
    assert isinstance(field.text, QPlainTextEdit)
    field.show_text(SCHEMA)
    cursor = field.text.textCursor()
    cursor.setPosition(5)
    field.text.setTextCursor(cursor)
    field.show_text(SCHEMA)
    assert field.text.textCursor().position() == 5


# ---- what is sent, and what is said ---------------------------------------------------------------------------------


def test_it_goes_with_every_question_and_with_another_answer(room: Room) -> None:
    room.controller.change_settings(HELD)
    room.controller.ask("Who?")
    assert room.link.last_question.options.constraint == Constraint("json_schema", SCHEMA)
    room.link.say("{}")
    room.link.finish()
    room.controller.regenerate()
    assert room.link.last_question.options.constraint == Constraint("json_schema", SCHEMA)
    assert room.controller.next_options.constraint == Constraint("json_schema", SCHEMA), "comparisons ask with these"


def test_a_wrong_schema_is_not_sent_and_a_button_leads_to_it(room: Room) -> None:
    wanted: list[str] = []
    room.controller.setting_wanted.connect(wanted.append)
    room.controller.change_settings(WRONG)
    room.controller.ask("Who?")
    assert not any(isinstance(each, Generate) for each in room.link.sent)
    assert room.answer.ending.name == "FAILED"
    notice = room.notices[FAILED_NOTICE]
    assert "Line 3, column 1" in notice.message
    assert notice.on_action is not None
    notice.on_action()
    assert wanted == ["json_schema"]
    room.controller.change_settings(HELD)
    room.controller.regenerate()
    room.link.say("{}")
    room.link.finish()
    assert room.answer.ending.name == "COMPLETE"


@pytest.mark.parametrize(("kind", "leads"), [("input", True), ("memory", False)])
def test_what_only_the_engine_finds_leads_there_too(room: Room, kind: str, leads: bool) -> None:
    room.controller.change_settings(HELD)
    room.controller.ask("Who?")
    failed = Failed(room.link.last_question.id, "Unimplemented keys.", "Change the schema.", kind)  # type: ignore[arg-type]
    room.controller.on_events([failed])
    assert (room.notices[FAILED_NOTICE].on_action is not None) is leads
    assert room.controller.generation == HELD


def test_the_state_tells_whether_answers_are_held() -> None:
    here = EngineState(Phase.READY)
    assert constraint_state(GenerationSettings(json_schema=SCHEMA), here) == ConstraintState()
    assert (constraint_state(HELD, here).words, constraint_state(HELD, here).is_wrong) == ("JSON schema", False)
    wrong = constraint_state(WRONG, here)
    assert wrong.is_wrong
    assert "Line 3" in wrong.explanation
    elsewhere = EngineState(Phase.READY, host="cluster:8000", unheld=("regex",))
    unsent = constraint_state(replace(HELD, constraint="regex", regex="a+"), elsewhere)
    assert unsent.is_wrong
    assert "cluster:8000" in unsent.explanation
    assert not constraint_state(HELD, elsewhere).is_wrong


def test_the_composer_shows_it_only_while_it_is_on(qtbot: QtBot) -> None:
    composer = Composer(LIGHT)
    qtbot.addWidget(composer)
    composer.show()
    assert not composer.constraint.isVisible()
    composer.show_constraint(constraint_state(HELD, EngineState(Phase.READY)))
    assert composer.constraint.isVisible()
    assert composer.constraint.text() == "JSON schema"
    assert "held to" in composer.constraint.toolTip()
    assert "held to" in composer.constraint.accessibleName()


def test_it_widens_no_narrow_window_by_its_words(qtbot: QtBot) -> None:
    composer = Composer(LIGHT)
    qtbot.addWidget(composer)
    composer.show()
    free = composer.minimumSizeHint().width()
    composer.show_constraint(ConstraintState("Constraint not sent, with many words", "Why not."))
    assert composer.minimumSizeHint().width() - free < 60
    composer.resize(900, composer.height())
    qtbot.waitUntil(lambda: composer.constraint.width() >= composer.constraint.sizeHint().width())

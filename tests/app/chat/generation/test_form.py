"""The generation settings: every field, its range, and what is kept."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.generation.controller import ChatController
from app.chat.generation.popover import GenerationPopover
from app.settings.generation import GenerationSettings
from app.settings.store import SettingsFile
from app.ui.theme import Theme
from engine.protocol.options import SamplingOptions

STOPS = "User:\n\\n\\n"
FULL = GenerationSettings("specexec", 128, 0.8, 0.95, 40, 0.05, 1.1, 7, 64, "Be brief.", 0.5, False, "drop", STOPS)


def test_every_field_is_kept_at_once(popover: GenerationPopover, chat: ChatController) -> None:
    form = popover.form
    form.field("method").setCurrentIndex(form.field("method").findData("specexec"))
    form.field("budget").setValue(128)
    form.field("temperature").setValue(0.8)
    form.field("top_p").setValue(0.95)
    form.field("top_k").setValue(40)
    form.field("min_p").setValue(0.05)
    form.field("repetition_penalty").setValue(1.1)
    form.field("seed").setText("7")
    form.field("max_new_tokens").setValue(64)
    form.field("system_prompt").setPlainText("Be brief.")
    form.field("presence_penalty").setValue(0.5)
    form.field("stop_strings").setPlainText(STOPS)
    form.field("speculates").setChecked(False)
    form.field("when_full").setCurrentIndex(form.field("when_full").findData("drop"))
    assert chat.generation == FULL


def test_what_refines_dry_and_xtc_is_shown_while_they_are_on(popover: GenerationPopover, chat: ChatController) -> None:
    form = popover.form
    refinements = {
        "dry_multiplier": ("dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers"),
        "xtc_probability": ("xtc_threshold",),
    }
    for name, refining in refinements.items():
        assert form.field(name).text() == "Off"
        assert not any(form.field(each).isVisible() for each in refining)
        form.field(name).setValue(0.8)
        for each in refining:
            assert form.field(each).isVisible()
            assert len(form.field(each).toolTip()) > 20
    assert form.field("dry_penalty_last_n").text() == "All"
    form.field("dry_sequence_breakers").setPlainText("\\n\nBob:")
    form.field("dry_penalty_last_n").setValue(400)
    form.field("xtc_threshold").setValue(0.2)
    sampling = chat.generation.options().sampling
    assert (sampling.dry_multiplier, sampling.dry_base, sampling.dry_allowed_length) == (0.8, 1.75, 2)
    assert (sampling.dry_penalty_last_n, sampling.dry_sequence_breakers) == (400, ("\n", "Bob:"))
    assert (sampling.xtc_probability, sampling.xtc_threshold) == (0.8, 0.2)
    form.field("dry_multiplier").setValue(0)
    assert not form.field("dry_base").isVisible()
    assert chat.generation.options().sampling.dry_multiplier == 0


def test_the_window_grows_with_what_is_shown(popover: GenerationPopover) -> None:
    for name in ("stop_strings", "system_prompt", "method", "budget", "top_k"):  # all else has room on the screen
        popover.form.field(name).hide()
    popover.open_below(popover.reset)
    before = popover.height()
    popover.form.field("xtc_probability").setValue(0.5)
    assert popover.height() > before
    popover.open_below(popover.reset)
    assert popover._body.height() <= popover._page.viewport().height()


def test_they_are_off_in_new_chats_as_the_engine_has_them() -> None:
    sampling = GenerationSettings(temperature=0.0, top_p=1.0, seed=0).options().sampling
    assert sampling == SamplingOptions()


def test_a_breaker_that_is_too_long_is_told_and_not_kept(popover: GenerationPopover, chat: ChatController) -> None:
    popover.form.field("dry_multiplier").setValue(1)
    popover.form.field("dry_sequence_breakers").setPlainText("x" * 41)
    assert "1 to 40 characters" in popover.error.text()
    assert chat.generation.dry_sequence_breakers == GenerationSettings().dry_sequence_breakers


def test_an_answer_stops_at_every_line_of_its_field() -> None:
    assert FULL.options().stop == ("User:", "\n\n")
    assert GenerationSettings(stop_strings="\n\n").options().stop == ()
    assert GenerationSettings(stop_strings=" a \n").options().stop == (" a ",), "spaces count"


def test_what_is_kept_is_shown(popover: GenerationPopover, chat: ChatController) -> None:
    popover.form.show_settings(FULL)
    assert popover.form.read() == FULL
    assert chat.generation == GenerationSettings(), "showing is not editing"


@pytest.mark.parametrize("seed", ["abc", "-1", "1.5", str(2**63)])
def test_a_seed_that_is_none_is_told_and_not_kept(popover: GenerationPopover, chat: ChatController, seed: str) -> None:
    popover.form.field("seed").setText(seed)
    assert popover.error.isVisible()
    assert "eed" in popover.error.text()
    assert chat.generation.seed == GenerationSettings().seed
    popover.form.field("seed").setText("12")
    assert not popover.error.isVisible()
    assert chat.generation.seed == 12


def test_a_seed_that_became_too_long_leaves_no_part_of_it(popover: GenerationPopover, chat: ChatController) -> None:
    chat.change_settings(GenerationSettings(seed=7))
    popover.open_below(popover.reset)
    field = popover.form.field("seed")
    field.selectAll()
    QTest.keyClicks(field, "9" * 25)
    assert popover.error.isVisible()
    assert chat.generation.seed == 7
    popover.open_below(popover.reset)
    assert (field.text(), popover.error.isVisible()) == ("7", False)


@pytest.mark.parametrize("factor", [1.0, 1.75])
def test_nothing_stands_beyond_its_edges(popover: GenerationPopover, qapp: QApplication, factor: float) -> None:
    font = popover.font()
    font.setPointSizeF(font.pointSizeF() * factor)
    popover.setFont(font)
    popover.presets.is_default.setText("Neue Chats beginnen mit dieser Voreinstellung, und zwar immer")
    button = QPushButton()
    popover.open_below(button, "seed")
    qapp.processEvents()
    body, page = popover._body, popover._page
    assert body.width() <= page.viewport().width()
    assert page.horizontalScrollBar().value() == 0
    assert body.x() == 0


def test_saving_without_a_name_leads_to_the_field_for_it(popover: GenerationPopover) -> None:
    popover.presets.save.click()
    assert "needs a name" in popover.error.text()
    assert popover.presets.names.hasFocus()


def test_numbers_stay_in_their_range(popover: GenerationPopover) -> None:
    form = popover.form
    form.field("budget").setValue(10**6)
    form.field("top_p").setValue(7)
    form.field("max_new_tokens").setValue(-3)
    assert (form.field("budget").value(), form.field("top_p").value(), form.field("max_new_tokens").value()) == (
        4096,
        1.0,
        1,
    )


def test_automatic_and_random_are_words(popover: GenerationPopover) -> None:
    popover.form.show_settings(GenerationSettings())
    assert popover.form.field("budget").text() == "Automatic"
    assert popover.form.field("seed").text() == ""
    assert popover.form.field("seed").placeholderText() == "Random"


def test_reset_goes_back_to_the_defaults(popover: GenerationPopover, chat: ChatController) -> None:
    chat.change_settings(FULL)
    popover.form.show_settings(FULL)
    popover.reset.click()
    assert chat.generation == GenerationSettings()
    assert popover.form.read() == GenerationSettings()


def test_escape_closes(popover: GenerationPopover) -> None:
    QTest.keyClick(popover, Qt.Key.Key_Escape)
    assert not popover.isVisible()


def test_every_field_has_a_name_and_an_explanation(popover: GenerationPopover) -> None:
    form = popover.form
    for field in (
        form.field("method"),
        form.field("budget"),
        form.field("temperature"),
        form.field("top_p"),
        form.field("top_k"),
        form.field("min_p"),
        form.field("seed"),
    ):
        assert field.accessibleName()
        assert len(field.toolTip()) > 20


def test_scrolling_over_a_number_leaves_it(popover: GenerationPopover) -> None:
    before = popover.form.field("temperature").value()
    where = popover.form.field("temperature").mapTo(popover, QPoint(5, 5))
    QTest.wheelEvent(popover.windowHandle(), where, QPoint(0, 240))
    assert popover.form.field("temperature").value() == before


def test_it_stays_as_high_as_its_fields_want_when_one_is_changed(
    theme: Theme, settings: SettingsFile, popover: GenerationPopover, qtbot: QtBot
) -> None:
    theme.follow(settings.current)
    button = QPushButton("Settings")
    qtbot.addWidget(button)
    for name in ("stop_strings", "system_prompt"):  # all else has room on the screen
        popover.form.field(name).hide()
    popover.open_below(button)
    before = popover.height()
    popover.form.field("budget").setValue(128)
    assert popover.height() == before
    popover.form.field("seed").setText("none")
    assert popover.error.isVisible()
    assert popover.height() > before
    popover.form.field("seed").setText("1")
    assert popover.height() == before


def test_a_bar_that_scrolls_the_fields_covers_none_of_them(
    theme: Theme, settings: SettingsFile, popover: GenerationPopover, qtbot: QtBot
) -> None:
    settings.change(text_size=200)
    theme.follow(settings.current)
    button = QPushButton("Settings")
    qtbot.addWidget(button)
    popover.open_below(button)
    qtbot.waitUntil(popover._page.verticalScrollBar().isVisible)
    assert popover._body.width() <= popover._page.viewport().width()


def test_on_a_screen_that_is_too_low_the_fields_scroll_and_the_button_stays(
    popover: GenerationPopover, qtbot: QtBot
) -> None:
    large = popover.font()
    large.setPointSizeF(3 * large.pointSizeF())
    popover.setFont(large)
    button = QPushButton("Settings")
    qtbot.addWidget(button)
    button.show()
    popover.open_below(button, "system_prompt")
    room = popover.screen().availableGeometry()
    assert popover.height() <= room.height()
    assert popover.rect().contains(popover.reset.geometry())
    prompt = popover.form.field("system_prompt")
    qtbot.waitUntil(lambda: not prompt.visibleRegion().isEmpty())

"""Numbers in the window: written, and read again, as the language that is shown has them; stored as ever."""

import json

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDoubleSpinBox, QLabel
from pytestqt.qtbot import QtBot

from app.chat.composer.composer import ContextMeter
from app.chat.generation.context_use import ContextUse
from app.chat.generation.form import GenerationForm
from app.chat.history.message import AnswerEnding, Message
from app.chat.view.answer_figures import FiguresRow, TimePopup
from app.i18n import units
from app.i18n.number_text import Number, localised, share_text, size_text
from app.i18n.translation import tr
from app.library.estimates import Terms
from app.library.picker.entry import parameters_text
from app.library.picker.terms_form import TermsForm
from app.preferences.page import OptionRow, options_on, refusal
from app.settings.generation import GenerationSettings
from app.settings.kinds import Decimal
from app.settings.preferences import APPEARANCE, MEMORY
from app.settings.store import Settings, SettingsFile
from app.system.paths import Folders
from app.telemetry.charts.chart import SpanAxis, ValueAxis
from app.telemetry.figures import numbers
from app.ui.colors import LIGHT
from engine.protocol.messages import Seconds, Statistics

STATISTICS = Statistics(
    method="specexec",
    new_tokens=398,
    passes=120,
    first_token_seconds=0.123,
    seconds=Seconds(prefill=1.6, decode=10.0, draft=2.4, target=7.6),
)
ANSWER = Message("assistant", "a", AnswerEnding.COMPLETE, STATISTICS)


def test_in_english_a_number_is_written_as_python_does() -> None:
    for number, form in ((39.84, ".1f"), (32768, ","), (1234567.5, ",.1f"), (0.84, ".0%"), (2.0, "g"), (7, "")):
        assert f"{Number(number):{form}}" == f"{number:{form}}"
    assert (share_text(0.843), size_text(6.64e9), size_text(12)) == ("84%", "6.6 GB", "12 bytes")


@pytest.mark.usefixtures("german")
def test_small_sizes_are_words_of_the_language() -> None:
    assert (size_text(28), size_text(6.64e9)) == ("28 Byte", "6,6 GB")


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize(
    ("number", "form", "shown"),
    [
        (39.84, ".1f", "39,8"),
        (32768, ",", "32.768"),
        (np.int64(1234567), ",", "1.234.567"),
        (1234567.5, ",.1f", "1.234.567,5"),
        (0.25, "g", "0,25"),
        (-0.5, ".2f", "-0,50"),
        (7, "", "7"),
    ],
)
def test_in_german_points_and_commas_are_exchanged(number: float, form: str, shown: str) -> None:
    assert f"{Number(number):{form}}" == shown
    assert localised(f"{number:{form}}") == shown


@pytest.mark.usefixtures("german")
def test_translated_sentences_and_units_are_german() -> None:
    assert tr("{rate:.1f} tokens/s").format(rate=Number(39.84)) == "39,8 Token/s"
    assert (share_text(0.843), size_text(6.64e9)) == ("84 %", "6,6 GB")
    assert parameters_text(7_500_000) == "7,5 M"
    assert units.size_text(6.64e9) == "6.6 GB", "a command line speaks English"


@pytest.mark.usefixtures("german")
def test_telemetry_is_german() -> None:
    assert numbers.count(1234.0) == "1.234"
    assert (numbers.milliseconds(0.0034), numbers.clock(3.42)) == ("3,4 ms", "3,42 s")
    assert (numbers.rate(12.34e9), numbers.percent(0.5)) == ("12,3 GB/s", "50 %")
    axis = ValueAxis(numbers.count)
    assert axis.tickStrings([0.0, 2.5, 5000.0], 1.0, 2.5) == ["0", "2,5", "5.000"]


@pytest.mark.usefixtures("german")
def test_the_figures_of_an_answer_are_german(qtbot: QtBot) -> None:
    row = FiguresRow(LIGHT)
    qtbot.addWidget(row)
    row.show()
    row.show_message(ANSWER)
    assert row.text == "39,8 Token/s · 3,3 Token je Durchlauf · 12 s"
    popup = TimePopup(STATISTICS, LIGHT, row)
    shown = [each.text() for each in popup.findChildren(QLabel)]
    assert {"1,60 s", "14 %", "7,60 s", "66 %"} <= set(shown)
    assert any("120 Durchläufe" in each and "398 Token" in each for each in shown)


@pytest.mark.usefixtures("german")
def test_the_context_meter_is_german(qtbot: QtBot) -> None:
    meter = ContextMeter()
    qtbot.addWidget(meter)
    meter.show_use(ContextUse(1200, 32768, 2048))
    assert meter.words.text() == "1.200 von 32.768 Token"
    assert "32.768; " in meter.toolTip()
    assert "2.048" in meter.toolTip()


def _type(field: QDoubleSpinBox, text: str) -> None:
    field.selectAll()
    QTest.keyClicks(field, text)
    QTest.keyClick(field, Qt.Key.Key_Return)


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize("typed", ["0,6", "0.6", ",6", ".6"])
def test_a_german_decimal_is_read_with_a_comma_or_a_point(qtbot: QtBot, typed: str) -> None:
    form = GenerationForm()
    qtbot.addWidget(form)
    form.show_settings(GenerationSettings(temperature=1.25))
    assert form.field("temperature").text() == "1,25"
    _type(form.field("temperature"), typed)
    assert form.field("temperature").text() == "0,60"
    assert form.read().temperature == 0.6


def test_an_english_decimal_has_a_point(qtbot: QtBot) -> None:
    form = GenerationForm()
    qtbot.addWidget(form)
    _type(form.field("temperature"), "0.6")
    assert (form.field("temperature").text(), form.read().temperature) == ("0.60", 0.6)


@pytest.mark.usefixtures("german")
def test_how_a_model_is_loaded_is_shown_and_read_in_german(qtbot: QtBot) -> None:
    form = TermsForm()
    qtbot.addWidget(form)
    form.show_terms(Terms(context_tokens=32768, vram_limit_bytes=6_600_000_000))
    assert (form.context.text(), form.vram.text()) == ("32.768 Token", "6,6 GB")
    assert form.terms == Terms(context_tokens=32768, vram_limit_bytes=6_600_000_000)
    _type(form.vram, "7.5")
    assert form.terms.vram_limit_bytes == 7_500_000_000


@pytest.mark.usefixtures("german")
def test_preferences_are_shown_and_read_in_german(qtbot: QtBot) -> None:
    row = OptionRow(options_on(MEMORY)["vram_limit_gb"])
    qtbot.addWidget(row)
    row.load(Settings(), 6.5)
    assert (row.editor.field.property("text"), row.editor.value()) == ("6,5 GB", 6.5)
    assert refusal(Decimal(page="", title="", help="", smallest=0.5, largest=2.5), 3.0).count(",5") == 2
    size = OptionRow(options_on(APPEARANCE)["text_size"])
    qtbot.addWidget(size)
    size.load(Settings(), 110)
    assert size.editor.field.property("text") == "110 %"


@pytest.mark.usefixtures("german")
def test_what_is_stored_knows_no_language(qtbot: QtBot, settings: SettingsFile, folders: Folders) -> None:
    form = GenerationForm()
    qtbot.addWidget(form)
    _type(form.field("temperature"), "0,6")
    settings.change(presets={"calm": form.read()})
    stored = json.loads(folders.settings_file.read_text(encoding="utf-8"))
    assert stored["presets"]["calm"]["temperature"] == 0.6
    assert SettingsFile(folders.settings_file).current.presets["calm"].temperature == 0.6


@pytest.mark.parametrize(
    ("times", "step", "shown"),
    [
        ((0.0, 0.5, 1.0, 1.5, 2.0), 0.5, ["0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s"]),
        ((0.0, 0.05, 0.1), 0.05, ["0.00 s", "0.05 s", "0.10 s"]),
        ((0.2, 0.30000000000000004), 0.1, ["0.2 s", "0.3 s"]),
        ((0.0, 1.0, 2.0), 1.0, ["0:00", "0:01", "0:02"]),
        ((59.5, 60.0, 67.5), 0.5, ["0:59.5", "1:00.0", "1:07.5"]),
        ((3600.0, 7200.0), 3600.0, ["1:00:00", "2:00:00"]),
        ((59.999, 60.0), 0.001, ["0:59.999", "1:00.000"]),
    ],
)
def test_an_axis_of_time_has_one_form(times: tuple[float, ...], step: float, shown: list[str]) -> None:
    assert numbers.clocks(times, step) == shown
    axis = SpanAxis(numbers.clocks, lambda _value: step)
    assert axis.tickStrings(list(times), 1.0, step) == shown


def test_a_moment_after_the_beginning_is_told_in_hundredths() -> None:
    assert [numbers.clock(each) for each in (0.000118, 0.447, 3.42, 12.7, 3700.0)] == [
        "0:00",
        "0.45 s",
        "3.42 s",
        "0:12",
        "1:01:40",
    ]

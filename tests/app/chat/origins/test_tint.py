"""The ground of tokens shows whose guess they were, or how likely the target found them; never in code."""

import math
from array import array
from dataclasses import replace

import pytest
from PySide6.QtGui import QColor, QTextBlock
from pytestqt.qtbot import QtBot

from app.chat.history.message import AnswerEnding, Message
from app.chat.history.token_origins import TokenOrigins
from app.chat.history.token_probabilities import TokenProbabilities, level_of
from app.chat.origins.tint import ProbabilityPlaces, TokenTint
from app.chat.panel import ChatPanel
from app.chat.text.document_style import Look
from app.chat.view.answer_view import AnswerView
from app.chat.view_options import ViewOptions
from app.settings.preferences import TINT_CHANCE, TINT_OFF, TINT_ORIGIN
from app.settings.store import SettingsFile
from app.ui.notices import NoticeStack
from app.ui.theme import LIGHT
from engine.protocol.messages import Round
from tests.app.chat.history.test_token_origins import round_
from tests.app.chat.typesetting.test_formulas import Drawer


def probabilities_of(*pieces: tuple[str, float]) -> TokenProbabilities:
    probabilities = TokenProbabilities()
    for text, probability in pieces:
        probabilities = probabilities.put(len(text), level_of(math.log(probability)))
    return probabilities


PIECES = (("A ", 0.99), ("🙂 ", 0.6), ("**fox**", 0.3), (" ran ", 0.05), ("`x = 1`", 0.01), (" end.\n", 1.0))
TEXT = "".join(text for text, _ in PIECES)


def answer(qtbot: QtBot, kind: str, probabilities: TokenProbabilities | None) -> AnswerView:
    view = AnswerView(Message("assistant", TEXT, probabilities=probabilities), Look(LIGHT, tint=kind, smooth=False))
    qtbot.addWidget(view)
    return view


def grounds(view: AnswerView) -> dict[str, int]:
    """Every piece of the first paragraph that has a ground, as it is read, and how strong the ground is."""
    found: dict[str, int] = {}
    block: QTextBlock = view.text.document().begin()
    while block.isValid():
        text = block.text().encode("utf-16-le")
        for each in block.layout().formats():
            color: QColor = each.format.background().color()
            piece = text[2 * each.start : 2 * (each.start + each.length)].decode("utf-16-le")
            found[piece] = color.alpha()
        block = block.next()
    return found


def test_unlikely_tokens_have_a_stronger_ground_and_code_has_none(qtbot: QtBot) -> None:
    found = grounds(answer(qtbot, TINT_CHANCE, probabilities_of(*PIECES)))
    assert list(found) == ["🙂", "fox", "ran"]
    assert found["🙂"] < found["fox"] < found["ran"]


@pytest.mark.parametrize("probabilities", [probabilities_of(*PIECES), None])
def test_nothing_is_tinted_unasked_or_unknown(qtbot: QtBot, probabilities: TokenProbabilities | None) -> None:
    assert grounds(answer(qtbot, TINT_OFF, probabilities)) == {}
    assert grounds(answer(qtbot, TINT_CHANCE, None)) == {}


def test_the_tint_goes_and_comes_with_the_setting(qtbot: QtBot) -> None:
    view = answer(qtbot, TINT_OFF, probabilities_of(*PIECES))
    view.set_look(Look(LIGHT, tint=TINT_CHANCE))
    assert grounds(view)
    view.set_look(Look(LIGHT, tint=TINT_OFF))
    assert not grounds(view)


def test_an_answer_is_tinted_while_it_grows(qtbot: QtBot) -> None:
    message = Message("assistant", "", AnswerEnding.OPEN)
    view = AnswerView(message, Look(LIGHT, tint=TINT_CHANCE, smooth=False))
    qtbot.addWidget(view)
    text, probabilities = "", TokenProbabilities()
    for number in range(4):
        text, probabilities = f"{text}w{number} ", probabilities.put(3, level_of(math.log(0.1)))
        message = replace(message, text=text, probabilities=probabilities)
        view.change(message, f"w{number} ")
    view.change(replace(message, ending=AnswerEnding.COMPLETE), "")
    qtbot.waitUntil(lambda: list(grounds(view)) == ["w0", "w1", "w2", "w3"])


def test_the_tint_stays_on_its_words_when_formulas_come(qtbot: QtBot) -> None:
    pieces = (
        ("As $a_1 + b_2$ says, the ", 0.99),
        ("fox", 0.1),
        (" ran.\n\nNo ", 0.99),
        ("hen", 0.1),
        (" did.\n\nend", 1.0),
    )
    message = Message("assistant", "".join(text for text, _ in pieces), probabilities=probabilities_of(*pieces))
    formulas = Drawer()
    view = AnswerView(message, Look(LIGHT, tint=TINT_CHANCE, smooth=False), formulas)
    qtbot.addWidget(view)
    qtbot.waitUntil(lambda: list(grounds(view)) == ["fox", "hen"])
    formulas.finish("a_1 + b_2")
    qtbot.waitUntil(lambda: "\ufffc" in view.text.document().toPlainText() and not view.body.is_behind)
    assert list(grounds(view)) == ["fox", "hen"]


def test_reasoning_before_the_answer_is_counted_but_not_tinted(qtbot: QtBot) -> None:
    text = "<think>hm</think>\n\nSo it is."
    probabilities = probabilities_of(
        ("<think>", 1.0), ("hm", 0.01), ("</think>\n\n", 1.0), ("So", 0.01), (" it is.", 1.0)
    )
    view = AnswerView(Message("assistant", text, probabilities=probabilities), Look(LIGHT, tint=TINT_CHANCE))
    qtbot.addWidget(view)
    assert list(grounds(view)) == ["So"]


def test_tips_tell_figures_only_where_there_is_a_tint(qtbot: QtBot) -> None:
    view = answer(qtbot, TINT_CHANCE, probabilities_of(*PIECES))
    place = view.text.toPlainText().index("fox")
    view.text.hovered.emit(place + 1)  # the smiley counts twice
    assert "30 %" in view.text.toolTip()
    view.text.hovered.emit(-1)
    assert view.text.toolTip() == ""
    view.set_look(Look(LIGHT, tint=TINT_OFF))
    view.text.hovered.emit(place)
    assert view.text.toolTip() == ""


def test_words_say_what_is_known() -> None:
    tint = TokenTint()
    assert "not known" in tint.words(3, TINT_CHANCE)
    tint.probabilities.follow(probabilities_of(("sure", 0.9999), ("rare", 0.0004), ("some", 0.034)))
    assert "more than 99" in tint.words(1, TINT_ORIGIN)
    assert "less than 0.1" in tint.words(5, TINT_ORIGIN)
    assert "3.4 %" in tint.words(9, TINT_ORIGIN)


def test_places_are_found_while_they_come() -> None:
    places, whole = ProbabilityPlaces(), probabilities_of(("ab", 0.5), ("c", 0.25), ("def", 0.125))
    for count in range(4):
        places.follow(TokenProbabilities(0, whole.lengths[:count], whole.levels[:count]))
    assert [places.at(place) for place in range(7)] == [16, 16, 32, 48, 48, 48, 255]
    assert list(places.between(1, 5)) == [(1, 2, 16), (2, 3, 32), (3, 5, 48)]
    places.follow(probabilities_of(("x", 0.5)).fit(3))
    assert [places.at(place) for place in range(3)] == [16, 255, 255]


def test_origins_count_what_was_really_written() -> None:
    """A control token has a piece but writes nothing; an engine that says so is believed."""
    drafted: Round = round_(0, ["<|channel|>", "hm"], " so", text="<think>hm so")
    known = replace(drafted, lengths=array("I", [7, 2, 3]).tobytes(), log_probs=array("f", [0.0] * 3).tobytes())
    tint = TokenTint()
    tint.origins = TokenOrigins()
    tint.origins.add(known)
    assert (tint.origins.end, tint.origins.bonus) == (12, 9)


def test_the_setting_the_actions_and_the_legend_agree(settings: SettingsFile, qtbot: QtBot) -> None:
    panel = ChatPanel(LIGHT, NoticeStack())
    qtbot.addWidget(panel)
    view_options = ViewOptions(panel, settings, panel)
    assert settings.current.token_tint == TINT_OFF
    assert panel.legend.isHidden()
    view_options.tint(TINT_CHANCE)
    assert (settings.current.token_tint, panel.view.look.tint) == (TINT_CHANCE, TINT_CHANCE)
    assert "below 20 %" in panel.legend.text
    assert panel.legend.toolTip()
    view_options.tint(TINT_ORIGIN)
    assert "added by the target" in panel.legend.text
    panel.legend.closed.emit()
    assert settings.current.token_tint == TINT_OFF
    assert panel.legend.isHidden()

"""The figures of engines elsewhere: measured where text arrives, told at the end, or not told at all."""

import math

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.engine.steps import LONGEST
from app.telemetry.dock import TelemetryDock
from app.telemetry.elsewhere_page import ARRIVED, LATER, NO_FIGURES, WRITING, ElsewherePage, describe
from app.telemetry.figures.acceptance import DEPTHS
from app.telemetry.figures.elsewhere import ElsewhereFigures
from app.ui.theme import DARK, LIGHT
from engine.protocol.messages import Failed, Finished, Seconds, Statistics, Steps, Wrote
from engine.protocol.options import GenerateOptions
from tests.app.fake_link import FakeLink
from tests.app.telemetry.rounds import round_of


def told(**figures: object) -> Finished:
    return Finished(1, "stop", "", Statistics(**figures))  # type: ignore[arg-type]


@pytest.fixture
def figures() -> ElsewhereFigures:
    made = ElsewhereFigures()
    made.ask(1, 10.0)
    return made


def test_what_arrives_is_measured_until_the_engine_says_it_better(figures: ElsewhereFigures) -> None:
    figures.take([Wrote(1, "a", 1)], 12.0)
    assert figures.is_newest
    assert figures.tokens_per_second == 0.0, "the first had to wait for the question to be read"
    figures.take([Wrote(1, "b", 3), Wrote(1, "c", 3)], 13.0)
    figures.take([Wrote(1, "d", 2)], 13.0)
    assert (figures.tokens, figures.tokens_per_second) == (9, 8.0)
    assert figures.arrivals.rows["seconds"].tolist() == [2.0, 1.0, 0.0]
    figures.take([Steps(1, (4, 4), (3, 0)), told(new_tokens=9, passes=3, seconds=Seconds(decode=0.5))], 14.0)
    assert describe(figures) == "18.0 tokens/s · 2.50 tokens per step · 38% of the drafted tokens accepted · 9 tokens"
    assert figures.acceptance.deepest == 4
    assert figures.acceptance.rate_by_depth().tolist() == [0.5, 1.0, 1.0, 0.0]


def test_totals_alone_are_enough_for_most_figures(figures: ElsewhereFigures) -> None:
    figures.take([Wrote(1, "all"), told(new_tokens=30, passes=10, drafted_nodes=40, first_token_seconds=0.25)], 11.0)
    words = "3.00 tokens per step · 50% of the drafted tokens accepted · first token 0.25 s · 30 tokens"
    assert describe(figures) == words


def test_an_engine_without_figures_and_one_with_impossible_ones(figures: ElsewhereFigures) -> None:
    figures.take([Wrote(1, "a")], 11.0)
    assert describe(figures) == WRITING
    figures.take([Finished(1, "stop")], 11.0)
    assert describe(figures) == NO_FIGURES
    figures.ask(3, 12.0)
    figures.take([Wrote(3, "a"), Failed(3, "The connection broke.")], 13.0)
    assert describe(figures) == NO_FIGURES
    figures.ask(2, math.inf)
    figures.take([Wrote(2, "a", 10**30), Wrote(2, "a", -5)], 1.0)
    strange = Statistics(new_tokens=10**30, passes=1, drafted_nodes=1, seconds=Seconds(decode=math.nan))
    figures.take([Steps(2, (10**30, -1), (10**30, 5)), Finished(2, "stop", "", strange)], -3.0)
    assert "tokens per step" in describe(figures)
    assert LONGEST == DEPTHS


def test_a_round_of_our_own_takes_the_place_back(figures: ElsewhereFigures) -> None:
    figures.take([Wrote(1, "a", 1)], 11.0)
    figures.ask(2, 12.0)
    assert figures.is_newest, "who writes the next one is not known yet"
    figures.take([round_of(0, request=2)], 13.0)
    assert not figures.is_newest


def test_the_panel_shows_them_in_place_of_the_charts_of_rounds(qapp: QApplication, qtbot: QtBot) -> None:
    room = TelemetryDock(FakeLink(), LIGHT)
    qtbot.addWidget(room.dock)
    room.dock.resize(900, 400)
    with qtbot.waitExposed(room.dock):
        room.dock.show()
    room.on_asked(1, (), GenerateOptions())
    room.on_events([Wrote(1, "a"), Wrote(9, "other", 5)])
    room.panel.refresh()
    page = room.panel.findChildren(ElsewherePage)[0]
    assert page.isVisible()
    assert (room.panel.caption, page.arrived.reading) == (WRITING, ARRIVED.empty)
    assert page.by_place.reading == LATER
    room.on_events([Wrote(1, "a", 2), Wrote(1, "a", 10**30), Steps(1, (4,) * 12, (2,) * 12), told(new_tokens=36)])
    room.set_theme(DARK)
    room.panel.refresh()
    assert "3.00 tokens per step" in room.panel.caption
    assert page.by_place.reading.endswith("100 %")
    assert "mean" in page.arrived.reading
    room.clear()
    room.panel.refresh()
    assert not page.isVisible()

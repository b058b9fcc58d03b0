"""The comparison in front of a fake link: what it asks, what it refuses, what it says."""

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.engine.side_run import CANCELLED
from app.engine.state import EngineState, Phase
from app.telemetry import comparison as words
from app.telemetry.comparison import Comparison, KeptAnswer, Outcome, Stage
from app.telemetry.comparison_bar import ComparisonBar, describe
from engine.protocol.messages import Cancel, ChatMessage, Event, Failed, Finished, Generate, Seconds, Statistics
from engine.protocol.options import GenerateOptions, SamplingOptions
from tests.app.fake_link import FakeLink
from tests.app.telemetry.rounds import loaded, round_of

CHAT = (ChatMessage("user", "Hello"),)
OPTIONS = GenerateOptions(SamplingOptions(temperature=0.7, seed=4711), max_new_tokens=512)
FAST = Statistics("specexec", 64, new_tokens=40, passes=10, drafted_nodes=300, seconds=Seconds(decode=1.0))
SLOW = Statistics("none", new_tokens=40, passes=40, seconds=Seconds(decode=2.5))
READY = EngineState(Phase.READY, pair=loaded())


@pytest.fixture
def link() -> FakeLink:
    return FakeLink()


@pytest.fixture
def comparison(link: FakeLink) -> Comparison:
    made = Comparison(link)
    link.events_arrived.connect(made.on_events)
    made.on_engine_state(READY)
    return made


@pytest.fixture
def bar(comparison: Comparison, qtbot: QtBot) -> ComparisonBar:
    made = ComparisonBar(comparison)
    qtbot.addWidget(made)
    made.show()
    return made


def answer(link: FakeLink, comparison: Comparison, statistics: Statistics = FAST) -> None:
    """The conversation asks, and is answered."""
    request = link.generate(CHAT, OPTIONS)
    comparison.on_asked(request, CHAT, OPTIONS)
    link.answer(replace(round_of(0, request=request), text="A larch"), Finished(request, "stop", ".", statistics))


def end(link: FakeLink, *events: Event) -> None:
    link.answer(*events)


def test_the_same_question_is_asked_without_speculation(link: FakeLink, comparison: Comparison) -> None:
    answer(link, comparison)
    comparison.start()
    asked = link.last_question
    assert asked.chat == CHAT
    assert asked.options.speculation.method == "none"
    assert asked.options.sampling == OPTIONS.sampling
    assert asked.options.max_new_tokens == FAST.new_tokens


def test_both_speeds_and_the_speed_up_are_shown(
    link: FakeLink, comparison: Comparison, bar: ComparisonBar, qtbot: QtBot
) -> None:
    answer(link, comparison)
    qtbot.waitUntil(bar.button.isEnabled)
    bar.button.click()
    assert bar.button.text() == "Cancel"
    end(link, replace(round_of(0, request=link.last_question.id), text="A larch."))
    qtbot.waitUntil(lambda: bar.text == "Answering without speculation: 2 of 40 tokens")
    end(link, Finished(link.last_question.id, "length", "", SLOW))
    wanted = "2.50 times as fast: 40.0 tokens/s with specexec, 16.0 tokens/s without speculation."
    qtbot.waitUntil(lambda: bar.text == f"{wanted} Both wrote the same text.")
    assert bar.button.text() == "Compare"


def test_nothing_asked_is_refused_in_words(link: FakeLink, bar: ComparisonBar) -> None:
    assert bar.button.isEnabled()
    bar.button.click()
    assert bar.text == words.NOTHING_ASKED
    assert not link.sent


@pytest.mark.parametrize(
    ("statistics", "refusal"),
    [(Statistics(), words.NOT_MEASURED), (SLOW, words.NOT_SPECULATED)],
)
def test_an_answer_without_figures_is_refused_in_words(
    link: FakeLink, comparison: Comparison, statistics: Statistics, refusal: str
) -> None:
    answer(link, comparison, statistics)
    comparison.start()
    assert comparison.words == refusal
    assert comparison.stage is Stage.NONE


def test_it_is_not_offered_while_an_answer_is_under_way(
    link: FakeLink, comparison: Comparison, bar: ComparisonBar, qtbot: QtBot
) -> None:
    comparison.on_asked(link.generate(CHAT, OPTIONS), CHAT, OPTIONS)
    qtbot.waitUntil(lambda: not bar.button.isEnabled())
    comparison.start()
    assert comparison.words == words.STILL_ANSWERING
    end(link, Failed(link.last_question.id, "No."))
    qtbot.waitUntil(bar.button.isEnabled)


def test_without_a_model_it_is_not_offered(comparison: Comparison) -> None:
    comparison.on_engine_state(EngineState(Phase.LOADING))
    assert not comparison.may_be_asked_for


def test_cancelling_ends_it_once(link: FakeLink, comparison: Comparison) -> None:
    answer(link, comparison)
    comparison.start()
    comparison.cancel()
    assert link.sent[-1] == Cancel(link.last_question.id)
    end(link, Finished(link.last_question.id, "cancelled", "", SLOW))
    assert (comparison.stage, comparison.words, comparison.outcome) == (Stage.NONE, CANCELLED, None)
    comparison.cancel()
    assert sum(isinstance(each, Cancel) for each in link.sent) == 1


def test_an_answer_goes_first(link: FakeLink, comparison: Comparison) -> None:
    answer(link, comparison)
    comparison.start()
    own = link.last_question.id
    comparison.on_asked(link.generate(CHAT, OPTIONS), CHAT, OPTIONS)
    assert Cancel(own) in link.sent
    end(link, Finished(own, "length", "", SLOW))  # it was through before the engine heard of it
    assert comparison.stage is Stage.DONE
    assert comparison.outcome == Outcome(FAST, SLOW, ("A larch.", ""), 0.7)


def test_a_failure_is_told(link: FakeLink, comparison: Comparison) -> None:
    answer(link, comparison)
    comparison.start()
    end(link, Failed(link.last_question.id, "The engine was killed.", "Restart it."))
    assert (comparison.stage, comparison.words) == (Stage.NONE, "The engine was killed. Restart it.")


def test_another_conversation_forgets_it(link: FakeLink, comparison: Comparison) -> None:
    answer(link, comparison)
    comparison.start()
    own = link.last_question.id
    comparison.forget()
    end(link, Finished(own, "length", "", SLOW))
    assert (comparison.outcome, comparison.refusal) == (None, words.NOTHING_ASKED)
    assert [each for each in link.sent if isinstance(each, Generate)][-1].id == own


def test_slower_is_said_as_well() -> None:
    slow = Outcome(Statistics("chain", new_tokens=10, seconds=Seconds(decode=2)), SLOW)
    assert describe(slow).startswith("Slower, 0.31 times the speed")
    assert "too little" in describe(Outcome(FAST, Statistics("none")))


def test_it_is_said_whether_the_texts_are_the_same_and_why_not() -> None:
    same = Outcome(FAST, SLOW, ("A larch.", "A larch.\ufffd"), 0.7)
    assert describe(same).endswith("Both wrote the same text.")
    drawn = Outcome(FAST, SLOW, ("A larch.", "A birch."), 0.7)
    assert "as they may at temperature 0.7" in describe(drawn)
    greedy = Outcome(FAST, SLOW, ("A larch.", "A birch."), 0.0)
    assert "about equally likely" in describe(greedy)


def test_both_texts_can_be_read(link: FakeLink, comparison: Comparison, bar: ComparisonBar, qtbot: QtBot) -> None:
    answer(link, comparison)
    comparison.start()
    own = link.last_question.id
    end(link, replace(round_of(0, request=own), text="A <birch>"), Finished(own, "length", "", SLOW))
    assert comparison.outcome is not None
    assert comparison.outcome.texts == ("A larch.", "A <birch>")
    qtbot.waitUntil(lambda: "A <birch>" in bar.findChildren(QLabel)[0].toolTip())


def kept(answerer: str = "", statistics: Statistics = FAST) -> KeptAnswer:
    """An answer of another day."""
    return KeptAnswer(statistics, "A larch.", answerer, lambda: (CHAT, OPTIONS))


def test_an_answer_of_another_day_is_compared_as_it_was_kept(
    link: FakeLink, comparison: Comparison, bar: ComparisonBar
) -> None:
    comparison.kept = lambda: kept(READY.answerer)
    assert comparison.can_be_shown
    bar.button.click()
    asked = link.last_question
    assert (asked.chat, asked.options.speculation.method, asked.options.max_new_tokens) == (CHAT, "none", 40)
    end(link, replace(round_of(0, request=asked.id), text="A birch"), Finished(asked.id, "length", "", SLOW))
    assert comparison.outcome == Outcome(FAST, SLOW, ("A larch.", "A birch"), None)
    assert describe(comparison.outcome).endswith("16.0 tokens/s without speculation."), "nobody knows why they differ"
    assert describe(replace(comparison.outcome, texts=("A", "A"))).endswith("Both wrote the same text.")
    answer(link, comparison)
    comparison.start()
    assert comparison.total == FAST.new_tokens
    assert link.last_question.options.sampling == OPTIONS.sampling


@pytest.mark.parametrize(
    ("of", "refusal"),
    [
        (kept("another target"), words.OTHERS_WROTE),
        (kept("", Statistics()), words.NOT_MEASURED),
        (kept("", SLOW), words.NOT_SPECULATED),
        (kept("", Statistics(new_tokens=76, passes=10)), ""),  # broken off, by a version that kept no method
    ],
)
def test_an_answer_of_another_day_that_says_too_little_is_refused(
    comparison: Comparison, of: KeptAnswer, refusal: str
) -> None:
    comparison.kept = lambda: of
    assert comparison.refusal == refusal

"""How much of the context is taken: counted behind the keys, shown, and what gives way when it is full."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.composer.composer import ContextMeter
from app.chat.generation.context_fit import answer_reserve, first_turn_that_fits
from app.chat.generation.context_use import ContextUse, Level
from app.chat.generation.controller import COUNT_NOTICE, ChatController
from app.chat.generation.counter import TokenCounter
from app.chat.history.calls import Decision
from app.chat.history.conversation import Conversation
from app.chat.history.message import Attachment
from app.engine.state import EngineState, Phase
from app.settings.generation import DROP, STOP, SUMMARISE, GenerationSettings
from app.settings.store import SettingsFile
from app.ui.notices import Notice
from engine.protocol.messages import Counted, Finished, Prefilled
from engine.protocol.tools import ToolCall, WrittenCall
from tests.app.fake_engine import finished, loaded, round_of
from tests.app.fake_link import FakeLink
from tests.app.fake_toolbox import FakeToolbox
from tests.campaigns.extent import choose

READY = EngineState(Phase.READY, pair=loaded(1))  # 2048 tokens


class Desk:
    """A counter in front of a fake link, and what it says."""

    def __init__(self, link: FakeLink, settings: SettingsFile) -> None:
        self.link = link
        self.chat = ChatController(link, settings)
        self.counter = TokenCounter(link, self.chat)
        self.uses: list[ContextUse] = []
        self.costs: list[tuple[int, ...]] = []
        self.counter.use_changed.connect(self.uses.append)
        self.counter.costs_changed.connect(self.costs.append)
        link.events_arrived.connect(self.chat.on_events)
        link.events_arrived.connect(self.counter.on_events)
        for receiver in (self.chat, self.counter):
            receiver.on_engine_state(READY)


@pytest.fixture
def desk(qapp: QApplication, link: FakeLink, settings: SettingsFile) -> Desk:
    return Desk(link, settings)


def wait_for_count(desk: Desk, qtbot: QtBot, number: int = 1) -> None:
    qtbot.waitUntil(lambda: len(desk.link.counts) >= number)


def test_what_is_written_is_counted_once_however_many_keys(desk: Desk, qtbot: QtBot) -> None:
    for text in ("W", "Wh", "Why", "Why?"):
        desk.counter.follow_draft(text, ())
    assert desk.link.counts == [], "nobody waits for a count"
    wait_for_count(desk, qtbot)
    assert [[each.content for each in count.chat] for count in desk.link.counts] == [["Why?"]]
    desk.link.tell_count(17)
    assert desk.uses[-1] == ContextUse(17, 2048, 512)


def test_what_was_counted_of_another_chat_is_not_shown_for_one_that_takes_long(desk: Desk, qtbot: QtBot) -> None:
    desk.counter.follow_draft("Why?", ())
    wait_for_count(desk, qtbot)
    desk.link.tell_count(17)
    desk.counter._unknown.setInterval(1)
    desk.chat.show_conversation(Conversation())
    qtbot.waitUntil(lambda: desk.uses[-1] == ContextUse())
    wait_for_count(desk, qtbot, 2)
    desk.link.tell_count(12)
    assert desk.uses[-1] == ContextUse(12, 2048, 512)


def test_one_count_at_a_time_and_the_last_word_is_counted(desk: Desk, qtbot: QtBot) -> None:
    desk.counter.follow_draft("one", ())
    wait_for_count(desk, qtbot)
    desk.counter.follow_draft("two", ())
    desk.counter.follow_draft("three", ())
    assert len(desk.link.counts) == 1
    desk.link.tell_count(5)
    wait_for_count(desk, qtbot, 2)
    assert desk.link.counts[-1].chat[-1].content == "three"


def test_the_draft_comes_behind_what_was_said(desk: Desk, qtbot: QtBot) -> None:
    desk.chat.change_settings(GenerationSettings(system_prompt="Be kind."))
    desk.chat.ask("one")
    desk.link.say("eins")
    desk.link.finish()
    desk.counter.follow_draft("two", (Attachment("a.txt", "words"),))
    wait_for_count(desk, qtbot)
    count = desk.link.counts[-1]
    assert [each.role for each in count.chat] == ["system", "user", "assistant", "user"]
    assert count.chat[-1].content == "File a.txt:\n```\nwords\n```\n\ntwo"
    assert count.texts == ("File a.txt:\n```\nwords\n```",)
    desk.link.tell_count(90, texts=(11,))
    assert desk.costs == [(11,)]


def test_a_growing_answer_tells_by_its_own_figures(desk: Desk) -> None:
    desk.chat.ask("one")
    desk.link.answer(Prefilled(desk.link.last_question.id, 100, 0, 0.1))
    desk.link.say("a", "b")
    assert desk.uses[-1] == ContextUse(104, 2048, 0)


def test_what_was_counted_before_the_end_of_an_answer_is_not_shown_behind_it(desk: Desk, qtbot: QtBot) -> None:
    desk.chat.ask("one")
    desk.link.answer(Prefilled(desk.link.last_question.id, 100, 0, 0.1))
    desk.counter.follow_draft("", ())
    wait_for_count(desk, qtbot)
    desk.link.say("a", "b")
    desk.link.finish()
    shown = desk.uses[-1]
    desk.link.tell_count(17)
    assert desk.uses[-1] == shown
    wait_for_count(desk, qtbot, 2)
    desk.link.tell_count(105)
    assert desk.uses[-1].tokens == 105


def test_a_growing_answer_of_an_engine_elsewhere_that_counts(desk: Desk, qtbot: QtBot) -> None:
    desk.counter.on_engine_state(EngineState(Phase.READY, host="elsewhere"))
    desk.counter.follow_draft("one", ())
    wait_for_count(desk, qtbot)
    desk.link.answer(Counted(desk.link.counts[-1].id, 12, 4096))
    desk.chat.ask("one")
    desk.link.answer(Prefilled(desk.link.last_question.id, 100, 0, 0.1))
    desk.link.say("a", "b")
    assert desk.uses[-1] == ContextUse(104, 4096, 0)


def test_without_a_model_nothing_is_counted_or_shown(desk: Desk, qtbot: QtBot) -> None:
    desk.counter.follow_draft("one", ())
    wait_for_count(desk, qtbot)
    desk.counter.on_engine_state(EngineState(Phase.STOPPED))
    assert desk.uses[-1] == ContextUse()
    desk.counter.follow_draft("two", ())
    desk.counter.on_engine_state(READY)
    wait_for_count(desk, qtbot, 2)
    assert desk.link.counts[-1].chat[-1].content == "two"


@pytest.mark.parametrize(
    ("use", "words", "tone"),
    [
        (ContextUse(1200, 4096, 512), "1,200 of 4,096 tokens", ""),
        (ContextUse(3700, 4096, 512), "3,700 of 4,096 tokens · nearly full: the next answer may be cut off", "near"),
        (ContextUse(3200, 4096, 512), "3,200 of 4,096 tokens", ""),
        (ContextUse(3200, 4096, 512, DROP),
         "3,200 of 4,096 tokens · nearly full: soon the oldest turns will be left out", "near"),
        (ContextUse(3700, 4096, 512, DROP, ("one", "two"), 2, 2000),
         "3,700 of 4,096 tokens · 2 oldest turns will be left out", "warning"),
        (ContextUse(3700, 4096, 512, SUMMARISE, ("one", "two"), 2, 3700),
         "3,700 of 4,096 tokens · 2 oldest turns will be summarised; the answer may still be cut off", "warning"),
        (ContextUse(5000, 4096, 512, DROP, ("one",), 1, 4100),
         "5,000 of 4,096 tokens · this question alone is too long to be answered", "error"),
        (ContextUse(4096, 4096, 512), "4,096 of 4,096 tokens · too long to be answered", "error"),
        (ContextUse(4096, 4096, 0, DROP), "4,096 of 4,096 tokens · full", "error"),
    ],
)  # fmt: skip
def test_the_meter_says_it_in_words(use: ContextUse, words: str, tone: str, qtbot: QtBot) -> None:
    meter = ContextMeter()
    qtbot.addWidget(meter)
    meter.show()
    meter.show_use(use)
    assert (meter.words.text(), meter.words.property("tone")) == (words, tone)
    assert meter.bar.value() == round(min(1.0, use.tokens / 4096) * 1000)
    meter.show_use(ContextUse())
    assert not meter.isVisible()


@given(
    turns=st.lists(st.integers(1, 400), min_size=1, max_size=12),
    extra=st.integers(0, 100),
    context=st.integers(64, 2000),
    wanted=st.integers(1, 2000),
    now=st.integers(0, 12),
)
def test_what_is_read_fits_and_no_more_is_dropped_than_needs_be(
    turns: list[int], extra: int, context: int, wanted: int, now: int
) -> None:
    reserve = answer_reserve(wanted, context)
    prompt = sum(turns) + extra
    first = first_turn_that_fits(prompt, turns, context, reserve, now)
    assert 0 <= first < len(turns)
    if first < len(turns) - 1:
        assert prompt - sum(turns[:first]) + reserve <= context
    if prompt + reserve <= context:
        assert first == 0


def test_reading_stays_where_it_began_as_long_as_that_will_do() -> None:
    turns = [100] * 8
    first = first_turn_that_fits(800, turns, 800, 200, 0)
    assert first == 4, "a good step, so that the next question need not move it again"
    assert first_turn_that_fits(900, [100] * 9, 800, 200, first) == first
    assert first_turn_that_fits(1100, [100] * 11, 800, 200, first) > first


def full(desk: Desk) -> None:
    """A chat whose oldest turns may have to go."""
    desk.chat.change_settings(GenerationSettings(when_full=DROP))


@pytest.mark.parametrize("answer", ["never", "failed"])
def test_an_answer_does_not_wait_for_a_count_that_failed(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    notices: list[Notice] = []
    desk.chat.notice_raised.connect(notices.append)
    full(desk)
    desk.chat._counting.setInterval(1 if answer == "never" else 10_000)
    desk.chat.ask("Why?")
    if answer == "failed":
        desk.link.tell_count(0, context_tokens=0)
    qtbot.waitUntil(lambda: bool(desk.link.sent))
    assert [each.content for each in desk.link.last_question.chat] == ["Why?"]
    assert [each.key for each in notices] == [COUNT_NOTICE]
    desk.link.tell_count(17)
    assert len(desk.link.sent) == 1, "a late count asks nothing again"


def test_a_question_that_is_stopped_while_it_is_counted_is_not_asked(desk: Desk, qtbot: QtBot) -> None:
    full(desk)
    desk.chat.ask("Why?")
    desk.chat.stop()
    assert not desk.chat._counting.isActive()
    desk.link.tell_count(17)
    assert desk.link.sent == []


def test_what_is_written_is_counted_again_after_a_count_that_never_came(desk: Desk, qtbot: QtBot) -> None:
    desk.counter._timeout.setInterval(1)
    desk.counter.follow_draft("Why", ())
    wait_for_count(desk, qtbot)
    desk.counter.follow_draft("Why?", ())
    wait_for_count(desk, qtbot, 2)
    assert [each.content for each in desk.link.counts[-1].chat] == ["Why?"]


class Teller:
    """Counts as an engine would: a token for every letter, and four around every message."""

    def __init__(self, desk: Desk, context_tokens: int) -> None:
        self.desk, self.context_tokens, self.told = desk, context_tokens, 0

    def tell(self) -> None:
        """Answer every count that was asked for, also those that are asked for then."""
        while self.told < len(self.desk.link.counts):
            asked = self.desk.link.counts[self.told]
            self.told += 1
            tokens = sum(len(each.content) + 4 for each in asked.chat)
            self.desk.link.answer(Counted(asked.id, tokens, self.context_tokens, tuple(map(len, asked.texts))))

    def use(self) -> ContextUse:
        """What the meter would show by now."""
        self.desk.counter._timer.stop()
        self.desk.counter._ask()
        self.tell()
        return self.desk.uses[-1]

    def ask(self, question: str, answer: str) -> None:
        """Send what is being written, and have it answered."""
        self.desk.counter.follow_draft("", ())
        self.desk.chat.ask(question)
        self.tell()
        if self.desk.chat._summariser.is_at_work:
            self.desk.link.say("In short.")
            self.desk.link.finish()
        self.desk.link.say(answer)
        self.desk.link.finish()


@pytest.mark.parametrize("when_full", [STOP, DROP, SUMMARISE])
@pytest.mark.parametrize("seed", range(choose(3, 40)))
def test_what_is_foretold_is_what_is_done(desk: Desk, when_full: str, seed: int) -> None:
    random = Random(seed)
    desk.chat.change_settings(GenerationSettings(when_full=when_full, max_new_tokens=60, system_prompt="Be kind."))
    teller = Teller(desk, 400)
    for turn in range(10):
        question = f"{turn} " + "q" * random.choice((10, 40, 100, 390))
        desk.counter.follow_draft(question + " ", ())
        use, before = teller.use(), desk.chat.conversation.first_read
        teller.ask(question, random.choice(("a" * 30, "a" * 90, "")))
        done = desk.chat.conversation.first_read
        messages = desk.chat.conversation.messages
        lost = [messages[2 * each].text for each in range(before, done) if messages[2 * each + 1].text]
        assert [each[:2] for each in use.left_out] == [each[:2] for each in lost]
        assert use.first == done or not lost
        sent = sum(len(each.content) + 4 for each in desk.link.last_question.chat)
        if use.level is Level.FULL:
            assert sent >= 400 or when_full == SUMMARISE
        elif use.level is Level.OK:
            assert sent + 60 <= 400


def test_turns_are_counted_once_and_only_if_some_may_have_to_go(desk: Desk) -> None:
    full(desk)
    teller = Teller(desk, 500)
    teller.ask("one" * 20, "a" * 100)
    teller.ask("two" * 20, "a" * 60)
    desk.link.counts.clear()
    teller.told = 0
    desk.counter.follow_draft("short", ())
    assert teller.use().level is Level.OK
    assert len(desk.link.counts) == 1
    desk.counter.follow_draft("long" * 30, ())
    use = teller.use()
    assert (use.level, use.left_out, use.first) == (Level.CUT, ("one" * 16 + "…",), 1)
    assert [len(each.texts) for each in desk.link.counts] == [0, 0, 2]
    desk.counter.follow_draft("long" * 31, ())
    teller.use()
    assert [len(each.texts) for each in desk.link.counts] == [0, 0, 2, 0], "lengths of turns are known by now"


def test_nothing_is_foretold_of_a_conversation_that_is_no_longer_shown(desk: Desk, qtbot: QtBot) -> None:
    full(desk)
    desk.counter.follow_draft("Why?", ())
    wait_for_count(desk, qtbot)
    shown = len(desk.uses)
    desk.chat.show_conversation(Conversation())
    desk.link.tell_count(17)
    assert len(desk.uses) == shown
    wait_for_count(desk, qtbot, 2)


def test_tools_are_counted_and_what_the_next_step_of_an_answer_reads(desk: Desk, qtbot: QtBot) -> None:
    toolbox = FakeToolbox()
    desk.chat.tools.follow(toolbox)
    wait_for_count(desk, qtbot)
    assert [each.name for each in desk.link.counts[-1].tools] == ["look", "count"]
    desk.chat.ask("What is there?")
    request = desk.link.last_question.id
    written = WrittenCall(0, 4, ToolCall("a", "look", "{}"))
    desk.link.answer(Prefilled(request, 12, 0, 0.1), round_of(request, 0, "look"))
    desk.link.answer(Finished(request, "stop", "", finished(request, "stop", 1).statistics, calls=(written,)))
    assert desk.uses[-1].tokens == 14
    desk.chat.tools.decide(0, Decision.ONCE)
    toolbox.answer("many waves")
    request = desk.link.last_question.id
    desk.link.answer(Prefilled(request, 40, 0, 0.1))
    desk.link.answer(round_of(request, 0, "Waves"))
    assert desk.uses[-1].tokens == 42

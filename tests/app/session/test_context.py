"""Figures of answers, and the context: what is cached, counted, too long, left out or told in short."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.chat.generation.context_use import ContextUse
from app.chat.history.message import AnswerEnding
from app.chat.history.token_probabilities import UNKNOWN
from app.settings.generation import DROP, SUMMARISE
from engine.protocol.messages import Round
from tests.app.session.person import ENDLESS, SHORT, STORY, Session
from tests.campaigns.extent import choose

LONG = replace(SHORT, max_new_tokens=512)
TOKENS = 7  # of the sentence about the dragon


def test_an_answer_is_speculated_shown_and_counted(session: Session) -> None:
    rounds: list[Round] = []
    window = session.window
    window.chat.round_arrived.connect(rounds.append)
    session.begin(LONG)
    answer = session.ask("What is the capital of France?")
    figures, probabilities = answer.statistics, answer.probabilities
    assert figures is not None
    assert answer.ending is AnswerEnding.COMPLETE
    assert len(session.shown) > 20
    assert figures.method == "specexec"
    assert figures.tokens_per_pass > 1.5
    assert " tokens per pass · " in window.chat_panel.view.answers[-1].figures.text
    assert rounds[-1].index == figures.passes - 1
    assert window.status_area.words.text() == "Ready: demo-target + demo-draft on cpu, float32"
    assert probabilities is not None
    assert probabilities.end == len(answer.text)
    assert UNKNOWN not in probabilities.levels


def test_a_second_turn_finds_the_first_in_the_cache(session: Session) -> None:
    session.begin(LONG)
    session.ask("Hello!")
    figures = session.ask("What is the capital of France?").statistics
    assert figures is not None
    assert figures.cached_tokens > 0


def test_a_conversation_that_is_too_long_is_told_and_the_chat_goes_on(session: Session) -> None:
    session.begin(LONG)
    session.window.chat_panel.composer.field.setPlainText("word " * 6000)
    session.window.chat_panel.composer.button.click()
    assert session.answered().ending is AnswerEnding.FAILED
    assert "context" in session.window.notices.notices[-1].text
    assert session.ask("Hello!").ending is AnswerEnding.COMPLETE


def test_control_tokens_that_are_typed_are_text(session: Session) -> None:
    session.begin(LONG)
    assert session.ask("<|end|><|user|>Hello<|end|>").ending is AnswerEnding.COMPLETE
    assert session.window.chat_panel.view.questions[-1].text.toPlainText() == "<|end|><|user|>Hello<|end|>"


def test_tokens_are_counted_while_an_answer_is_written(session: Session, tmp_path: Path) -> None:
    composer = session.window.chat_panel.composer
    session.begin(ENDLESS)
    QTest.keyClicks(composer.field, STORY)
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    session.wait(lambda: session.shown != "")
    (tmp_path / "notes.txt").write_text("A dragon sleeps under the hill. " * 10)
    composer.attach([tmp_path / "notes.txt"])
    session.wait(lambda: "tokens" in composer.tray.chips[0].words.text())
    assert session.window.chat.is_answering
    session.window.chat.stop()
    session.answered()
    composer.tray.take_all()
    before = composer.meter.words.text()
    QTest.keyClicks(composer.field, "What sleeps under the hill?")
    session.wait(lambda: composer.meter.words.text() != before)
    assert "of 2,048 tokens" in composer.meter.words.text() or "of 4,096 tokens" in composer.meter.words.text()
    composer.field.clear()


@pytest.mark.parametrize("when_full", choose([DROP], [DROP, SUMMARISE]))
def test_a_chat_longer_than_its_context_goes_on_without_its_oldest_turns(session: Session, when_full: str) -> None:
    session.begin(replace(SHORT, when_full=when_full, max_new_tokens=choose(4, 40)))
    chat, pair = session.window.chat, session.window.library.state.pair
    assert pair is not None
    uses: list[ContextUse] = []
    session.window.generation_actions.counter.use_changed.connect(uses.append)
    composer = session.window.chat_panel.composer
    for number in range(2):  # either takes more than half of the context
        words = f"{number}. " + "The dragon slept under the hill. " * (pair.context_tokens * 3 // 5 // TOKENS)
        composer.field.setPlainText(words)
        if number:
            session.wait(lambda: bool(uses and uses[-1].left_out))
        foretold = uses[-1].first if uses else 0
        composer.button.click()
        assert session.answered().ending in (AnswerEnding.COMPLETE, AnswerEnding.LENGTH)
    assert chat.conversation.first_read == foretold > 0
    assert bool(chat.conversation.summary) == (when_full == SUMMARISE)
    assert session.window.chat_panel.view.questions[chat.conversation.first_read].divider is not None

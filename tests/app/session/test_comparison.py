"""Other targets than the embedded one in memory: streamed from disk, compared with plain decoding; and wrong ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.chat.history.message import AnswerEnding
from app.settings.generation import GenerationSettings
from app.shell.program import LOAD_NOTICE
from app.telemetry.comparison import Stage
from app.telemetry.figures.history import PARTS
from engine.protocol.messages import Round
from engine.protocol.options import LoadOptions
from tests.app.session.person import STORY, Session
from tests.campaigns.extent import choose

SPECEXEC = GenerationSettings(method="specexec", temperature=0.0, seed=1, max_new_tokens=choose(20, 48))


@pytest.fixture
def streamed(session: Session) -> Iterator[Session]:
    """The target's layers on disk; afterwards in memory again."""
    load(session, LoadOptions(place="ssd"))
    yield session
    load(session, LoadOptions())


def load(session: Session, options: LoadOptions) -> None:
    session.window.library.load(options)
    session.wait(lambda: session.window.library.state.ready and session.window.library.wanted == options)


def test_rounds_are_drawn_and_the_speed_up_is_measured(streamed: Session) -> None:
    session, window = streamed, streamed.window
    window.actions_.telemetry.trigger()
    assert window.telemetry.dock.isVisible()
    rounds: list[Round] = []
    session.link.events_arrived.connect(
        lambda events: rounds.extend(each for each in events if isinstance(each, Round))
    )
    session.begin(SPECEXEC)
    session.ask(STORY)
    history = window.telemetry.history
    assert history.count == len(rounds) > 2
    rows = history.rows
    assert sum(rows[part] for part in PARTS) == pytest.approx(rows["seconds"])
    assert (rows["bytes"] > 0).all(), "every pass streams the target's layers"
    assert history.acceptance.taken.sum() == rows["accepted"].sum() > 0
    pair = window.library.state.pair
    assert pair is not None
    assert pair.residence is not None
    assert len(pair.residence.layer_bytes) == len(pair.tiers) == pair.target.layers
    assert pair.residence.stream_bytes_per_second > 0
    text = [message.text for message in window.chat.conversation.messages]
    comparison = window.telemetry.comparison
    comparison.start()
    assert comparison.stage is Stage.RUNNING, comparison.words
    session.wait(lambda: comparison.stage is not Stage.RUNNING)
    assert comparison.outcome is not None, comparison.words
    assert comparison.outcome.plain.method == "none"
    assert comparison.outcome.plain.new_tokens == comparison.outcome.speculated.new_tokens
    assert comparison.outcome.plain.passes > comparison.outcome.speculated.passes
    assert [message.text for message in window.chat.conversation.messages] == text
    assert not window.chat.is_answering
    assert history.count < len(rounds), "what a comparison measures stays out of the charts"
    window.actions_.telemetry.trigger()
    window.actions_.compare.trigger()  # what was measured is not asked for again
    sides = window.comparison.session.sides
    session.wait(lambda: all(side.transcript is not None and side.transcript.times.is_measured for side in sides))
    kept, plain = (side.transcript for side in sides)
    assert kept is not None
    assert plain is not None
    assert plain.text == kept.text
    assert kept.times.ends == plain.times.ends, "token for token"
    assert len(kept.times.passes) < len(plain.times.passes)
    window.comparison.dialog.close()


@pytest.mark.parametrize("target", choose(["an empty folder"], ["folder/that/is/not/there", "an empty folder"]))
def test_a_wrong_target_leaves_the_window_usable(session: Session, tmp_path: Path, target: str) -> None:
    session.window.notices.dismiss(LOAD_NOTICE)
    session.window.library.load(LoadOptions(str(tmp_path) if target == "an empty folder" else target))
    session.wait(lambda: bool(session.window.notices.notices))
    assert len(session.window.notices.notices) == 1
    assert "Traceback" not in session.window.notices.notices[0].text
    session.wait(lambda: session.window.library.state.ready)
    session.begin()
    assert session.ask("Hello!").ending is AnswerEnding.COMPLETE
    session.window.notices.dismiss(LOAD_NOTICE)

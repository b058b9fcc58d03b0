"""The telemetry end to end: the window, the real engine, the embedded pair with its target streamed from disk."""

import pytest
from pytestqt.qtbot import QtBot

from app.engine.link import EngineLink
from app.engine.process import engine_program
from app.settings.generation import GenerationSettings
from app.settings.store import SettingsFile
from app.system.paths import Folders
from app.telemetry.comparison import Stage
from app.telemetry.figures.history import PARTS
from engine.protocol.messages import Round
from engine.protocol.options import LoadOptions
from tests.app.conftest import OpenWindow
from tests.campaigns.extent import choose

PATIENCE_MS = 120_000


@pytest.fixture
def link(folders: Folders) -> EngineLink:
    """A link to the real engine."""
    return EngineLink(engine_program(folders.engine_log))


def test_rounds_are_drawn_and_the_speed_up_is_measured(
    open_window: OpenWindow, link: EngineLink, settings: SettingsFile, qtbot: QtBot
) -> None:
    window = open_window(link, LoadOptions(place="ssd"))
    window.actions_.telemetry.trigger()
    assert window.telemetry.dock.isVisible()
    rounds: list[Round] = []
    link.events_arrived.connect(lambda events: rounds.extend(each for each in events if isinstance(each, Round)))
    qtbot.waitUntil(lambda: window.library.state.ready, timeout=PATIENCE_MS)
    settings.change(
        generation=GenerationSettings(method="specexec", temperature=0.0, seed=1, max_new_tokens=choose(20, 48))
    )
    window.chat.ask("Tell me a story about a dragon.")
    qtbot.waitUntil(lambda: not window.chat.is_answering, timeout=PATIENCE_MS)
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
    qtbot.waitUntil(lambda: comparison.stage is not Stage.RUNNING, timeout=PATIENCE_MS)
    assert comparison.outcome is not None, comparison.words
    assert comparison.outcome.plain.method == "none"
    assert comparison.outcome.plain.new_tokens == comparison.outcome.speculated.new_tokens
    assert comparison.outcome.plain.passes > comparison.outcome.speculated.passes
    assert [message.text for message in window.chat.conversation.messages] == text
    assert not window.chat.is_answering
    assert history.count < len(rounds), "what a comparison measures stays out of the charts"

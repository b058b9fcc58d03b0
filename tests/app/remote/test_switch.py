"""The switch between the local engine and one elsewhere: who is told what."""

from pytestqt.qtbot import QtBot

from app.engine.interface import EngineSwitch
from engine.protocol.watching import Inspect, Watch
from tests.app.fake_link import FakeLink
from tests.app.remote.listener import listening


def test_a_node_of_a_local_round_is_asked_about_while_another_engine_answers(qtbot: QtBot) -> None:
    link = FakeLink()
    switch = EngineSwitch(link)
    question, watch = Inspect(1, 0, 2), Watch(verdicts=True)
    switch.look(question)
    assert link.looks == [question], "it is told once"
    with listening("http://127.0.0.1:1", qtbot) as elsewhere:
        switch.choose(elsewhere.engine)
        switch.look(watch)
        switch.look(question)
        assert link.looks == [question, watch, question]
        assert elsewhere.engine._watch == watch

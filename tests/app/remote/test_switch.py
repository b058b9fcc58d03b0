"""The switch between the local engine and one elsewhere: who is told what."""

import pytest
from pytestqt.qtbot import QtBot

from app.engine import interface
from app.engine.asker import Asker
from app.engine.interface import EngineSwitch
from engine.protocol.messages import Counted, Event, Finished
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.protocol.watching import Inspect, Watch
from tests.app.fake_link import FakeLink
from tests.app.remote.listener import CHAT, listening


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


def test_two_askers_hear_their_own_and_what_is_for_all(qtbot: QtBot) -> None:
    link = FakeLink()
    switch = EngineSwitch(link)
    heard: dict[int, list[Event]] = {1: [], 2: []}
    askers = {number: Asker(switch, number) for number in heard}
    for number, asker in askers.items():
        asker.events_arrived.connect(heard[number].extend)
    one, two = (asker.generate(CHAT, GenerateOptions()) for asker in askers.values())
    load = link.load(LoadOptions())
    endings = [Finished(each, "stop") for each in (one, two, load)]
    link.answer(*endings)
    assert heard == {1: [endings[0], endings[2]], 2: endings[1:]}
    askers[1].look(Watch(drafts=True))
    askers[2].look(Watch(verdicts=True))
    askers[2].look(Inspect(two, 0, 1))
    askers[1].close()
    watched = [Watch(drafts=True), Watch(verdicts=True, drafts=True), Watch(verdicts=True)]
    assert link.looks == [*watched[:2], Inspect(two, 0, 1), watched[2]]
    link.answer(*endings)
    assert heard[1] == [endings[0], endings[2]], "it has gone"


def test_what_is_remembered_of_askers_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "_MOST_ASKED", 3)
    link = FakeLink()
    switch = EngineSwitch(link)
    asker = Asker(switch, 1)
    *_, last = (asker.count(CHAT) for _ in range(8))
    assert len(switch._askers) == 3
    assert not switch.concerns(2, Counted(last, 5, 2048))
    asker.look(Watch(drafts=True))
    asker.close()
    asker.look(Watch())  # its panel is hidden
    assert switch._watches == {}
    assert link.looks == [Watch(drafts=True), Watch(), Watch()]


def test_what_one_asker_cancels_elsewhere_leaves_the_other(qtbot: QtBot) -> None:
    with listening("http://127.0.0.1:1", qtbot) as elsewhere:
        engine = elsewhere.engine
        one, two = engine.generate(CHAT, GenerateOptions(), 1), engine.generate(CHAT, GenerateOptions(), 2)
        engine.cancel(two, 2)
        assert [each.id for each in elsewhere.endings] == [two]
        engine.cancel(two, 1)
        assert [each.id for each in elsewhere.endings] == [two, one]

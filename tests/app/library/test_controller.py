"""Keeping a pair loaded: at the start, after a crash, after a wrong path."""

import pytest
from PySide6.QtWidgets import QApplication

from app.engine.state import EngineState, Phase
from app.library.controller import LibraryController
from engine.protocol.messages import PROTOCOL, Cancel, Failed, Finished, Load, Loading, Ready, Unload
from engine.protocol.options import LoadOptions
from tests.app.fake_link import FakeLink

DEMO = LoadOptions()
LAST = LoadOptions("/models/last", "none")
OTHER = LoadOptions("/models/other", "/models/draft")


class Room:
    """A controller, and what it says."""

    def __init__(self, link: FakeLink, wanted: LoadOptions, previous: LoadOptions) -> None:
        self.link = link
        self.controller = LibraryController(link, wanted, previous)
        self.states: list[EngineState] = []
        self.loaded: list[LoadOptions] = []
        self.failures: list[Failed] = []
        link.engine_starting.connect(self.controller.on_engine_starting)
        link.engine_stopped.connect(self.controller.on_engine_stopped)
        link.events_arrived.connect(self.controller.on_events)
        self.controller.state_changed.connect(self.states.append)
        self.controller.pair_loaded.connect(self.loaded.append)
        self.controller.load_failed.connect(lambda failed, _instead: self.failures.append(failed))

    @property
    def loads(self) -> list[LoadOptions]:
        """Every pair that was asked for."""
        return [each.options for each in self.link.sent if isinstance(each, Load)]

    @property
    def phase(self) -> Phase:
        """Where the engine stands."""
        return self.controller.state.phase

    def fail(self) -> None:
        """Let the newest load fail."""
        self.link.answer(Failed(self.link.last_load.id, "There is no model folder.", "Check the path."))


@pytest.fixture
def room(qapp: QApplication, link: FakeLink) -> Room:
    """A controller whose last pair is loaded."""
    made = Room(link, LAST, LAST)
    link.become_ready()
    return made


def test_the_wanted_pair_is_loaded_when_the_engine_is_up(room: Room) -> None:
    assert room.loads == [LAST]
    assert [each.phase for each in room.states[:2]] == [Phase.LOADING, Phase.LOADING]
    assert room.phase is Phase.READY
    assert room.controller.state.pair is not None
    assert room.loaded == [LAST]


def test_the_state_has_words(room: Room) -> None:
    assert [each.words for each in room.states] == [
        "Loading the models",
        "Loading demo-target (1 of 2)",
        "Loading demo-target (1 of 2)",
        "Ready: /models/last + demo-draft on cpu, float32",
    ]
    assert EngineState().words == "Starting engine"
    assert EngineState(Phase.EMPTY).words == "No model loaded"
    assert EngineState(Phase.STOPPED).words == "Engine stopped"


def test_another_pair_takes_the_place(room: Room) -> None:
    room.controller.load(OTHER)
    assert room.phase is Phase.LOADING
    room.link.load_what_was_asked()
    assert room.loaded == [LAST, OTHER]
    assert room.controller.wanted == OTHER


def test_a_pair_that_fails_is_followed_by_the_one_before(room: Room) -> None:
    room.controller.load(OTHER)
    room.fail()
    assert [each.message for each in room.failures] == ["There is no model folder."]
    assert room.loads == [LAST, OTHER, LAST]
    room.link.load_what_was_asked()
    assert room.phase is Phase.READY
    assert room.controller.wanted == LAST


def test_every_pair_is_tried_once_and_the_embedded_one_last(qapp: QApplication, link: FakeLink) -> None:
    room = Room(link, OTHER, LAST)
    link.answer(Ready(PROTOCOL, 1))
    for _ in range(3):
        room.fail()
    assert room.loads == [OTHER, LAST, DEMO]
    assert room.phase is Phase.EMPTY
    assert len(room.failures) == 3


def test_a_failed_choice_can_be_tried_again(room: Room) -> None:
    for _ in range(2):
        room.controller.load(OTHER)
        room.fail()
        room.link.load_what_was_asked()
    assert room.loads == [LAST, OTHER, LAST, OTHER, LAST]


def test_a_cancelled_load_goes_back_to_what_was_loaded(room: Room) -> None:
    room.controller.load(OTHER)
    room.controller.cancel()
    assert room.link.sent[-1] == Cancel(room.link.last_load.id)
    room.link.answer(Finished(room.link.last_load.id, "cancelled"))
    assert room.loads[-1] == LAST
    assert not room.failures


def test_a_first_load_that_is_cancelled_leaves_no_model(qapp: QApplication, link: FakeLink) -> None:
    room = Room(link, OTHER, LAST)
    link.answer(Ready(PROTOCOL, 1))
    room.controller.cancel()
    link.answer(Finished(link.last_load.id, "cancelled"))
    assert room.phase is Phase.EMPTY
    assert room.loads == [OTHER]


def test_a_choice_while_loading_replaces_the_load(room: Room) -> None:
    room.controller.load(OTHER)
    first = room.link.last_load
    room.controller.load(DEMO)
    assert Cancel(first.id) in room.link.sent
    room.link.answer(Loading(first.id, "late", 1, 2), Finished(first.id, "cancelled"))
    assert room.phase is Phase.LOADING
    assert room.controller.state.stage != "late"
    room.link.load_what_was_asked()
    assert room.loaded[-1] == DEMO


def test_a_new_engine_loads_the_pair_again(room: Room) -> None:
    room.link.die()
    assert room.states[-1] == EngineState(Phase.STOPPED)
    room.link.become_ready()
    assert room.loads == [LAST, LAST]
    assert room.phase is Phase.READY


def test_a_pair_that_killed_the_engine_is_not_loaded_again(room: Room) -> None:
    room.controller.load(OTHER)
    room.link.die()
    room.link.become_ready()
    assert room.loads == [LAST, OTHER, LAST]


def test_a_choice_without_an_engine_starts_one(room: Room) -> None:
    room.link.die()
    room.controller.load(OTHER)
    assert room.link.said == ["restart"]
    room.link.become_ready()
    assert room.loads[-1] == OTHER


def test_a_choice_while_the_engine_starts_is_loaded_when_it_is_up(room: Room) -> None:
    room.link.engine_starting.emit()
    room.controller.load(OTHER)
    assert room.loads == [LAST]
    room.link.become_ready()
    assert room.loads == [LAST, OTHER]


def test_what_is_unloaded_stays_unloaded_until_it_is_asked_for(room: Room) -> None:
    unloaded: list[str] = []
    room.controller.pair_unloaded.connect(unloaded.append)
    room.controller.unload()
    assert room.phase is Phase.READY, "until the answer under way has its end"
    command = room.link.sent[-1]
    assert isinstance(command, Unload)
    loads = len(room.loads)
    room.link.answer(Finished(command.id, "unloaded"))
    assert room.controller.state == EngineState(Phase.EMPTY)
    assert len(unloaded) == 1
    assert len(room.loads) == loads
    room.controller.unload()
    assert room.link.sent[-1] is command, "there is nothing to unload"
    room.controller.load_again()
    assert room.loads[loads:] == [LAST]
    room.link.load_what_was_asked()
    assert room.controller.state.ready


def test_a_load_that_follows_an_unloading_is_not_ended_by_it(room: Room) -> None:
    room.controller.unload()
    command = room.link.sent[-1]
    assert isinstance(command, Unload)
    room.controller.load(OTHER)
    room.link.answer(Finished(command.id, "unloaded"))
    assert room.phase is Phase.LOADING

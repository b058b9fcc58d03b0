"""An answer calls tools: a person is asked, results are read, and the answer goes on, whatever happens meanwhile."""

import pytest
from PySide6.QtWidgets import QApplication

from app.chat.generation.controller import FAILED_NOTICE, MOST_STEPS, STEPS_NOTICE
from app.chat.history.calls import CallState, Decision
from app.chat.history.conversation import Conversation
from app.chat.history.message import AnswerEnding
from app.engine.state import EngineState, Phase
from app.settings.generation import DROP, GenerationSettings
from app.settings.store import SettingsFile
from app.tools.toolbox import OfferedTool, ToolResult
from engine.protocol.messages import Cancel, Event, Failed, Finished, Generate
from engine.protocol.tools import Tool, ToolCall, WrittenCall
from tests.app.chat.generation.test_controller import READY, Room
from tests.app.fake_engine import finished, round_of
from tests.app.fake_link import FakeLink
from tests.app.fake_toolbox import COUNT, LOOK, FakeToolbox

MARKED = "[look]"


@pytest.fixture
def toolbox() -> FakeToolbox:
    """Two tools."""
    return FakeToolbox()


@pytest.fixture
def room(qapp: QApplication, link: FakeLink, settings: SettingsFile, toolbox: FakeToolbox) -> Room:
    """A chat whose answers may call tools."""
    made = Room(link, settings)
    made.controller.tools.follow(toolbox)
    made.controller.on_engine_state(READY)
    return made


def call(room: Room, *functions: str, said: str = "I look. ") -> None:
    """Have the newest request end with calls of these tools."""
    request, begin = room.link.last_question.id, len(said)
    calls = []
    for place, function in enumerate(functions):
        written = ToolCall(f"id{place}", function, f'{{"at": "{place}"}}')
        calls.append(WrittenCall(begin, begin + len(MARKED), written))
        begin += len(MARKED)
    ending = finished(request, "stop", 1)
    events: list[Event] = [round_of(request, 0, said), round_of(request, 1, MARKED * len(functions))]
    room.link.answer(*events, Finished(request, "stop", "", ending.statistics, calls=tuple(calls)))


def states(room: Room) -> list[CallState]:
    return [each.state for each in room.answer.calls]


def decide(room: Room, decision: Decision, place: int = 0) -> None:
    room.controller.tools.decide(room.answer.calls[place].begin, decision)


def allow(room: Room, place: int = -1) -> None:
    decide(room, Decision.ONCE, place)


def test_a_person_is_asked_and_the_answer_goes_on_with_the_result(room: Room, toolbox: FakeToolbox) -> None:
    room.controller.ask("What is there?")
    assert room.link.last_question.tools == (Tool("look", LOOK.description, LOOK.parameters), Tool("count"))
    call(room, "look")
    assert states(room) == [CallState.WAITING]
    assert (room.answer.calls[0].server, room.answer.calls[0].tool) == ("eyes", "look")
    assert not toolbox.calls, "nobody has allowed it"
    assert room.controller.is_answering
    allow(room)
    assert toolbox.calls == [("look", '{"at": "0"}')]
    assert states(room) == [CallState.RUNNING]
    toolbox.answer("waves")
    *_, asked, result = room.link.last_question.chat
    assert (asked.content, asked.tool_calls) == ("I look.", (ToolCall("id0", "look", '{"at": "0"}'),))
    assert (result.role, result.content, result.tool_call_id) == ("tool", "waves", "id0")
    room.link.say("There are waves.")
    room.link.finish(passes=2)
    assert room.answer.text == f"I look. {MARKED}There are waves."
    assert room.answer.ending is AnswerEnding.COMPLETE
    assert room.answer.calls[0].seconds == 0.5
    assert room.answering == [True, False]
    assert room.answer.statistics
    assert room.answer.statistics.passes == 3, "the figures of all steps add up"
    assert "".join(text for _, text in room.changes) == room.answer.text


def test_what_is_always_allowed_is_kept_and_made_at_once(
    room: Room, toolbox: FakeToolbox, settings: SettingsFile
) -> None:
    room.controller.ask("What is there?")
    call(room, "look")
    decide(room, Decision.ALWAYS)
    assert SettingsFile(settings.path).current.allowed_tools == ("eyes/look",)
    toolbox.answer("waves")
    call(room, "look", said="Again. ")
    assert states(room) == [CallState.DONE, CallState.RUNNING]
    settings.change(allowed_tools=())
    toolbox.answer("sand")
    call(room, "look", said="And again. ")
    assert states(room)[-1] is CallState.WAITING


def test_calls_are_made_in_their_order_whichever_is_allowed_first(room: Room, toolbox: FakeToolbox) -> None:
    room.controller.ask("What is there?")
    call(room, "look", "count", "look")
    allow(room, 1)
    assert not toolbox.calls
    decide(room, Decision.DENY)
    assert states(room) == [CallState.DENIED, CallState.RUNNING, CallState.WAITING]
    toolbox.answer("no", is_error=True)
    assert states(room) == [CallState.DENIED, CallState.FAILED, CallState.WAITING]
    allow(room, 2)
    toolbox.answer("waves")
    results = [each.content for each in room.link.last_question.chat if each.role == "tool"]
    assert "declined" in results[0]
    assert results[1:] == ["no", "waves"]


def test_ids_that_a_model_gives_twice_allow_one_call(room: Room, toolbox: FakeToolbox) -> None:
    room.controller.ask("What is there?")
    request = room.link.last_question.id
    both = tuple(WrittenCall(at, at + 1, ToolCall("same", "look", f"{{{at}}}")) for at in (0, 1))
    room.link.answer(round_of(request, 0, "xx"), Finished(request, "stop", "", None, calls=both))
    allow(room, 0)
    toolbox.answer("waves")
    assert toolbox.calls == [("look", "{0}")]
    assert states(room) == [CallState.DONE, CallState.WAITING]


def test_a_result_may_come_before_the_number_of_its_call(room: Room, toolbox: FakeToolbox) -> None:
    toolbox.at_once = ToolResult("That is no JSON object.", is_error=True)
    room.controller.ask("What is there?")
    call(room, "look", "look")
    allow(room, 0)
    allow(room, 1)
    assert states(room) == [CallState.FAILED] * 2
    assert room.link.last_question.chat[-1].content == "That is no JSON object."


@pytest.mark.parametrize("gone", [True, False])
def test_a_tool_that_is_not_there_is_not_called(room: Room, toolbox: FakeToolbox, gone: bool) -> None:
    room.controller.ask("What is there?")
    call(room, "look" if gone else "listen")
    if gone:
        toolbox.offer(OfferedTool("look", "other", "look"))
        allow(room)
    assert not toolbox.calls
    assert states(room) == [CallState.FAILED]
    assert room.link.last_question.chat[-1].content.startswith("There is no tool named")


def test_tools_that_are_off_are_neither_told_of_nor_called(room: Room, toolbox: FakeToolbox) -> None:
    room.controller.change_settings(GenerationSettings(tools_off=("eyes/look",)))
    room.controller.ask("What is there?")
    assert [each.name for each in room.link.last_question.tools] == [COUNT.function]
    call(room, "look")
    assert states(room) == [CallState.FAILED]
    assert not toolbox.calls


def test_stopping_ends_a_call_and_the_answer_can_go_on(room: Room, toolbox: FakeToolbox) -> None:
    room.controller.ask("What is there?")
    call(room, "look", "count")
    allow(room, 0)
    room.controller.stop()
    assert toolbox.cancelled == [1]
    assert states(room) == [CallState.STOPPED, CallState.WAITING]
    assert room.answer.ending is AnswerEnding.STOPPED
    toolbox.answered.emit(1, ToolResult("too late"))
    assert states(room) == [CallState.STOPPED, CallState.WAITING]
    room.controller.continue_answer()
    assert room.controller.is_answering
    decide(room, Decision.DENY, 1)
    *_, first, second = room.link.last_question.chat
    assert "not known" in first.content
    assert "declined" in second.content


def test_a_stop_that_crosses_the_end_of_the_step_makes_no_call(
    room: Room, toolbox: FakeToolbox, settings: SettingsFile
) -> None:
    settings.change(allowed_tools=("eyes/look",))
    room.controller.ask("What is there?")
    room.controller.stop()
    call(room, "look")
    assert not toolbox.calls
    assert (room.answer.ending, states(room)) == (AnswerEnding.STOPPED, [CallState.WAITING])
    assert room.answering == [True, False]
    room.controller.continue_answer()
    assert toolbox.calls, "it was allowed before"


def test_another_question_is_asked_though_calls_have_no_result(room: Room) -> None:
    room.controller.ask("What is there?")
    call(room, "look")
    room.controller.stop()
    room.controller.ask("And now?")
    *_, asked, result, question = room.link.last_question.chat
    assert [asked.role, result.role, question.role] == ["assistant", "tool", "user"]
    assert result.content == "The call was not made."


def test_another_chat_leaves_the_call_and_the_answer_with_its_own(room: Room, toolbox: FakeToolbox) -> None:
    room.controller.ask("What is there?")
    left = room.controller.conversation
    call(room, "look")
    allow(room)
    room.controller.show_conversation(Conversation())
    assert toolbox.cancelled == [1]
    assert left.last_answer
    assert (left.last_answer.ending, left.last_answer.calls[0].state) == (AnswerEnding.STOPPED, CallState.STOPPED)
    toolbox.answer("too late")
    assert not [each for each in room.link.sent if isinstance(each, Generate)][1:]
    room.controller.show_conversation(left)
    room.controller.continue_answer()
    assert room.link.last_question.chat[-1].role == "tool"


def test_an_engine_that_dies_meanwhile_interrupts_the_answer(room: Room, toolbox: FakeToolbox) -> None:
    room.controller.ask("What is there?")
    call(room, "look")
    allow(room)
    room.controller.on_engine_state(EngineState(Phase.STOPPED))
    assert room.controller.is_answering, "the call goes on"
    toolbox.answer("waves")
    assert room.answer.ending is AnswerEnding.INTERRUPTED
    room.controller.on_engine_state(READY)
    room.controller.continue_answer()
    assert room.link.last_question.chat[-1].content == "waves"


def test_a_model_that_is_loaded_meanwhile_is_waited_for(room: Room, toolbox: FakeToolbox) -> None:
    room.controller.ask("What is there?")
    call(room, "look")
    allow(room)
    room.controller.on_engine_state(EngineState(Phase.LOADING))
    toolbox.answer("waves")
    assert room.answer.ending is AnswerEnding.WAITING
    room.controller.on_engine_state(READY)
    assert room.link.last_question.chat[-1].content == "waves"


def test_an_answer_that_fails_behind_calls_can_go_on(room: Room, toolbox: FakeToolbox) -> None:
    room.controller.ask("What is there?")
    call(room, "look")
    allow(room)
    toolbox.answer("waves")
    room.link.answer(Failed(room.link.last_question.id, "Memory ran out."))
    assert room.controller.can_continue
    room.controller.continue_answer()
    assert room.link.last_question.chat[-1].content == "waves"


def test_where_tools_take_the_room_the_advice_is_about_them(room: Room) -> None:
    room.controller.ask("What is there?")
    room.link.answer(Failed(room.link.last_question.id, "Too long.", "Start a new chat.", "too_long"))
    assert "Switch off tools" in room.notices[FAILED_NOTICE].hint


def test_a_person_is_called_once_for_each_decision(room: Room, toolbox: FakeToolbox) -> None:
    asked: list[int] = []
    room.controller.tools.asked.connect(lambda: asked.append(len(toolbox.calls)))
    room.controller.ask("What is there?")
    call(room, "look", "count")
    assert asked == [0]
    allow(room, 0)
    assert asked == [0]
    toolbox.answer("waves")
    assert asked == [0, 1]


def test_many_steps_end_with_a_question_to_the_person(room: Room, settings: SettingsFile, toolbox: FakeToolbox) -> None:
    settings.change(allowed_tools=("eyes/look",))
    room.controller.ask("What is there?")
    for _ in range(MOST_STEPS):
        call(room, "look")
        toolbox.answer("waves")
    assert room.controller.can_continue
    assert STEPS_NOTICE in room.notices
    room.controller.continue_answer()
    assert STEPS_NOTICE not in room.notices
    room.link.say("Waves.")
    room.link.finish()
    assert room.answer.ending is AnswerEnding.COMPLETE
    assert len(room.answer.calls) == MOST_STEPS


def test_a_stop_before_the_calls_are_known_calls_nothing(room: Room) -> None:
    room.controller.ask("What is there?")
    room.link.say("I look. [lo")
    room.controller.stop()
    assert isinstance(room.link.sent[-1], Cancel)
    room.link.finish("cancelled")
    assert not room.answer.calls
    room.controller.continue_answer()
    assert room.link.last_question.chat[-1].content == "I look. [lo"
    call(room, "look", said="")
    assert [each.function for each in room.answer.calls] == ["look"]


def test_tools_and_results_are_counted_before_turns_give_way(room: Room, toolbox: FakeToolbox) -> None:
    room.controller.change_settings(GenerationSettings(when_full=DROP))
    room.controller.ask("What is there?")
    assert [each.name for each in room.link.counts[-1].tools] == ["look", "count"]
    room.link.tell_count(10, texts=(5,))
    call(room, "look")
    allow(room)
    toolbox.answer("many waves")
    (text,) = room.link.counts[-1].texts
    assert "many waves" in text
    assert '{"at": "0"}' in text


def test_a_call_under_way_tells_how_far_it_is(room: Room, toolbox: FakeToolbox) -> None:
    room.controller.ask("What is there?")
    call(room, "look")
    allow(room)
    toolbox.progressed.emit(len(toolbox.calls) + 1, 1.0, 2.0, "of another window")
    assert room.answer.calls[0].progress == ""
    toolbox.progressed.emit(len(toolbox.calls), 1.0, 2.0, "half\n\u202eway")
    assert room.answer.calls[0].progress == "50% · half way"
    toolbox.progressed.emit(len(toolbox.calls), 3.0, 0.0, "x" * 99)
    assert room.answer.calls[0].progress == "x" * 60
    toolbox.progressed.emit(len(toolbox.calls), float("nan"), float("inf"), "")
    toolbox.answer("waves")
    assert room.answer.calls[0].progress == ""
    toolbox.progressed.emit(len(toolbox.calls), 1.0, 2.0, "too late")
    assert room.answer.calls[0].progress == ""

"""The conversation as plain data."""

from dataclasses import replace

from app.chat.conversation import Conversation, Ending, Message
from engine.messages import ChatMessage


def answered(conversation: Conversation, question: str, answer: str, ending: Ending = Ending.COMPLETE) -> None:
    """Add a whole turn."""
    _, empty = conversation.ask(question)
    conversation.replace_answer(replace(empty, text=answer, ending=ending))


def test_a_question_is_followed_by_its_empty_answer() -> None:
    conversation = Conversation()
    assert conversation.is_empty
    assert conversation.last_answer is None
    conversation.ask("Why?")
    assert conversation.messages == (Message("user", "Why?"), Message("assistant", "", Ending.WAITING))
    assert not conversation.is_empty


def test_the_prompt_holds_answered_turns_and_the_last_question() -> None:
    conversation = Conversation()
    answered(conversation, "one", "eins")
    answered(conversation, "two", "zw", Ending.STOPPED)
    conversation.ask("three")
    assert conversation.prompt("") == (
        ChatMessage("user", "one"),
        ChatMessage("assistant", "eins"),
        ChatMessage("user", "two"),
        ChatMessage("assistant", "zw"),
        ChatMessage("user", "three"),
    )


def test_a_question_without_an_answer_is_not_asked_again() -> None:
    conversation = Conversation()
    answered(conversation, "far too long", "", Ending.FAILED)
    conversation.ask("short")
    assert conversation.prompt("") == (ChatMessage("user", "short"),)


def test_a_regenerated_answer_does_not_see_the_old_one() -> None:
    conversation = Conversation()
    answered(conversation, "one", "eins")
    conversation.replace_answer(Message("assistant", "", Ending.WAITING))
    assert conversation.prompt("") == (ChatMessage("user", "one"),)


def test_a_system_prompt_stands_first_and_a_blank_one_nowhere() -> None:
    conversation = Conversation()
    conversation.ask("one")
    assert conversation.prompt("Be brief.")[0] == ChatMessage("system", "Be brief.")
    assert conversation.prompt(" \n") == (ChatMessage("user", "one"),)


def test_only_waiting_and_open_answers_go_on() -> None:
    assert {each for each in Ending if not each.is_final} == {Ending.WAITING, Ending.OPEN}

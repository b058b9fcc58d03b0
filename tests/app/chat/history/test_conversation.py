"""The conversation as plain data."""

from dataclasses import replace

from app.chat.history.conversation import Conversation
from app.chat.history.message import AnswerEnding, Message, Version
from engine.protocol.messages import ChatMessage


def answered(
    conversation: Conversation, question: str, answer: str, ending: AnswerEnding = AnswerEnding.COMPLETE
) -> None:
    """Add a whole turn."""
    _, empty = conversation.ask(question)
    conversation.change(replace(empty, text=answer, ending=ending))


def test_a_question_is_followed_by_its_empty_answer() -> None:
    conversation = Conversation()
    assert conversation.is_empty
    assert conversation.last_answer is None
    conversation.ask("Why?")
    assert conversation.messages == (Message("user", "Why?"), Message("assistant", "", AnswerEnding.WAITING))
    assert not conversation.is_empty


def test_the_prompt_holds_answered_turns_and_the_last_question() -> None:
    conversation = Conversation()
    answered(conversation, "one", "eins")
    answered(conversation, "two", "zw", AnswerEnding.STOPPED)
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
    answered(conversation, "far too long", "", AnswerEnding.FAILED)
    conversation.ask("short")
    assert conversation.prompt("") == (ChatMessage("user", "short"),)


def test_a_regenerated_answer_does_not_see_the_old_one() -> None:
    conversation = Conversation()
    answered(conversation, "one", "eins")
    conversation.answer_again()
    assert conversation.prompt("") == (ChatMessage("user", "one"),)


def test_an_answer_of_which_nothing_came_is_no_version_beside_the_next() -> None:
    conversation = Conversation()
    answered(conversation, "one", "", AnswerEnding.FAILED)
    empty = conversation.messages[1]
    again = conversation.answer_again()
    assert (again.id, again.created, again.ending) == (empty.id, empty.created, AnswerEnding.WAITING)
    assert conversation.version(again.id) == Version(0, 1)
    conversation.change(replace(again, text="eins", ending=AnswerEnding.COMPLETE))
    assert conversation.version(conversation.answer_again().id) == Version(1, 2), "this one has a text"


def test_a_system_prompt_stands_first_and_a_blank_one_nowhere() -> None:
    conversation = Conversation()
    conversation.ask("one")
    assert conversation.prompt("Be brief.")[0] == ChatMessage("system", "Be brief.")
    assert conversation.prompt(" \n") == (ChatMessage("user", "one"),)


def test_only_waiting_and_open_answers_go_on() -> None:
    assert {each for each in AnswerEnding if not each.is_final} == {AnswerEnding.WAITING, AnswerEnding.OPEN}


def texts(conversation: Conversation) -> list[str]:
    return [each.text for each in conversation.messages]


def test_nothing_is_lost_when_a_question_is_asked_differently() -> None:
    conversation = Conversation()
    answered(conversation, "one", "eins")
    answered(conversation, "two", "zwei")
    first = conversation.messages[0]
    _, answer = conversation.ask_differently(first.id, "uno")
    conversation.change(replace(answer, text="1", ending=AnswerEnding.COMPLETE))
    assert texts(conversation) == ["uno", "1"]
    assert conversation.version(conversation.messages[0].id) == Version(1, 2)
    conversation.show_version(conversation.messages[0].id, 0)
    assert texts(conversation) == ["one", "eins", "two", "zwei"]


def test_every_fork_remembers_what_was_last_shown_behind_it() -> None:
    conversation = Conversation()
    answered(conversation, "one", "eins")
    answered(conversation, "two", "zwei")
    again = conversation.answer_again()
    conversation.change(replace(again, text="deux", ending=AnswerEnding.COMPLETE))
    conversation.show_version(again.id, 0)
    assert texts(conversation)[-1] == "zwei"
    conversation.ask_differently(conversation.messages[0].id, "uno")
    conversation.show_version(conversation.messages[0].id, 0)
    assert texts(conversation) == ["one", "eins", "two", "zwei"]


def test_an_answer_in_a_person_s_own_words_is_what_the_model_sees() -> None:
    conversation = Conversation()
    answered(conversation, "one", "eins")
    conversation.answer_differently(conversation.messages[1].id, "un")
    conversation.ask("two")
    assert [each.content for each in conversation.prompt("")] == ["one", "un", "two"]


def test_a_tree_that_is_read_back_shows_the_same_path() -> None:
    conversation = Conversation()
    answered(conversation, "one", "eins")
    conversation.ask_differently(conversation.messages[0].id, "uno")
    conversation.show_version(conversation.messages[0].id, 0)
    saved = conversation.take_changes()
    assert conversation.take_changes() == ()
    again = Conversation(saved, conversation.leaf, conversation.id)
    assert texts(again) == ["one", "eins"]
    assert again.version(again.messages[0].id) == Version(0, 2)
    assert again.take_changes() == ()


def test_what_followed_an_answer_stays_behind_it_when_it_is_given_again() -> None:
    conversation = Conversation()
    answered(conversation, "one", "eins")
    answered(conversation, "two", "zwei")
    again = conversation.answer_again(conversation.messages[1].id)
    assert texts(conversation) == ["one", ""]
    assert conversation.leaf == again.id
    assert conversation.prompt("") == (ChatMessage("user", "one"),)
    conversation.show_version(again.id, 0)
    assert texts(conversation) == ["one", "eins", "two", "zwei"]


def test_versions_are_told_of_shown_messages_that_have_others_beside_them() -> None:
    conversation = Conversation()
    answered(conversation, "one", "eins")
    answered(conversation, "two", "zwei")
    assert conversation.shown_versions == {}
    assert not conversation.hidden
    last = conversation.answer_again()
    assert conversation.shown_versions == {last.id: Version(1, 2)}
    assert [each.text for each in conversation.hidden] == ["zwei"]
    conversation.ask_differently(conversation.messages[0].id, "uno")
    assert conversation.shown_versions == {conversation.messages[0].id: Version(1, 2)}

"""Taking messages out of a conversation: what goes, what stays behind what, and the way back."""

import random

from app.chat.history.conversation import Conversation, Removal
from app.chat.history.message import AnswerEnding, Message


def told(*questions: str) -> Conversation:
    """A conversation with these questions, each answered."""
    made = Conversation()
    for each in questions:
        _, answer = made.ask(each)
        made.change(_answered(answer, f"to {each}"))
    return made


def _answered(answer: Message, text: str) -> Message:
    return Message("assistant", text, AnswerEnding.COMPLETE, parent=answer.parent, id=answer.id, created=answer.created)


def texts(conversation: Conversation) -> list[str]:
    return [each.text for each in conversation.messages]


def state(conversation: Conversation) -> tuple[object, ...]:
    """Everything that is kept or shown."""
    known = sorted((each.id, each.parent, each.text) for each in (*conversation.messages, *conversation.hidden))
    versions = [conversation.version(each.id) for each in conversation.messages]
    return known, texts(conversation), versions, conversation.reads_from, conversation.summary


def test_a_turn_goes_as_a_whole_and_what_follows_stays() -> None:
    for place in (2, 3):  # the question, and its only answer
        conversation = told("one", "two", "three")
        removal = conversation.remove(conversation.messages[place].id)
        assert texts(conversation) == ["one", "to one", "three", "to three"]
        assert [each.text for each in removal.messages] == ["two", "to two"]
        assert removal.place == 2


def test_a_version_goes_alone_and_what_follows_it_stays_behind_the_other() -> None:
    conversation = told("one")
    conversation.change(_answered(conversation.answer_again(), "again"))
    _, answer = conversation.ask("two")
    conversation.change(_answered(answer, "to two"))
    removal = conversation.remove(conversation.messages[1].id)
    assert texts(conversation) == ["one", "to one", "two", "to two"]
    assert [each.text for each in removal.messages] == ["again"]
    assert conversation.version(conversation.messages[1].id).count == 1


def test_of_two_wordings_the_other_is_shown_where_nothing_follows() -> None:
    conversation = told("one", "two")
    conversation.ask_differently(conversation.messages[2].id, "two, otherwise")
    conversation.remove(conversation.messages[2].id)
    assert texts(conversation) == ["one", "to one", "two", "to two"]


def test_the_only_turn_leaves_nothing() -> None:
    conversation = told("one")
    before = state(conversation)
    removal = conversation.remove(conversation.messages[1].id)
    assert conversation.is_empty
    assert conversation.last_answer is None
    conversation.restore(removal)
    assert state(conversation) == before


def test_the_model_reads_on_from_the_next_turn_where_the_first_it_reads_goes() -> None:
    conversation = told("one", "two", "three")
    conversation.read_from(1, "about one")
    removal = conversation.remove(conversation.messages[2].id)
    assert (conversation.first_read, conversation.summary) == (1, "about one")
    conversation.remove(conversation.messages[2].id)
    assert (conversation.first_read, conversation.summary) == (0, "")
    assert conversation.reads_from == 0
    assert removal.summary == "about one"


def test_however_a_conversation_branches_a_removal_is_undone_exactly() -> None:
    """Also several, the last first; turns stay whole, and nothing is without its parent."""
    chance = random.Random(7)
    for _ in range(300):
        conversation = told("first")
        for number in range(chance.randrange(12)):
            _do_something(conversation, chance, f"question {number}")
        removals: list[Removal] = []
        states: list[object] = []
        while not conversation.is_empty and len(removals) < 4:
            states.append(state(conversation))
            removals.append(conversation.remove(chance.choice(conversation.messages).id))
            _check(conversation)
        gone = {each.id for removal in removals for each in removal.messages}
        assert gone.isdisjoint(each.id for each in conversation.take_changes()), "what is gone is not saved again"
        for removal, before in zip(reversed(removals), reversed(states), strict=True):
            conversation.restore(removal)
            assert state(conversation) == before


def _do_something(conversation: Conversation, chance: random.Random, words: str) -> None:
    messages = conversation.messages
    kind = chance.randrange(4)
    if kind == 0:
        conversation.ask(words)
    elif kind == 1:
        conversation.answer_again()
    elif kind == 2:
        conversation.ask_differently(chance.choice(messages[::2]).id, words)
    else:
        conversation.show_version(chance.choice(messages).id, 0)


def _check(conversation: Conversation) -> None:
    messages = conversation.messages
    assert [each.role for each in messages] == ["user", "assistant"] * (len(messages) // 2)
    known = {each.id: each for each in (*messages, *conversation.hidden)}
    assert all(not each.parent or known[each.parent].role != each.role for each in known.values())
    answered = {each.parent for each in known.values()}
    assert all(each.id in answered for each in known.values() if each.role == "user")

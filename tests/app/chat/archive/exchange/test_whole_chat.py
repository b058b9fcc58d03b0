"""A chat is as it was when it comes back from a file: with every version, its folder, dates, pin and settings."""

import os
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.chat.archive.conversion import conversation_of, message_record, records_of
from app.chat.archive.exchange import whole_chat
from app.chat.archive.exchange.exporting import Exporting
from app.chat.archive.exchange.formats import read_conversations, write_copies
from app.chat.archive.exchange.importing import Importing
from app.chat.archive.exchange.reading import ExchangeError, ReadChat
from app.chat.archive.exchange.whole_chat import read_whole, written_parts
from app.chat.archive.store import Store
from app.chat.history.conversation import Conversation
from app.chat.history.message import AnswerEnding, Attachment, Message
from app.chat.history.records import ConversationRecord
from app.chat.history.token_probabilities import TokenProbabilities, probability_details
from app.settings.generation import GenerationSettings
from app.system import json_text as json
from engine.protocol.messages import Seconds, Statistics
from tests.campaigns.extent import choose
from tests.campaigns.mutations import mutated_document

CREATED = time.time() - 5 * 86_400


def branched() -> tuple[ConversationRecord, Conversation]:
    """A chat with two wordings of its first question, three answers to one, and all that can be kept of a message."""
    settings = GenerationSettings(
        system_prompt="Be kind.", temperature=0.25, constraint="json_schema", json_schema='{\n "type": "object"\n}'
    )
    made = Conversation(settings=settings)
    question, answer = made.ask("What is an oak?", (Attachment("notes.txt", "An oak.\n\n", "cut"),), "It")
    said = replace(
        answer,
        text="It is a tree.",
        ending=AnswerEnding.LENGTH,
        answerer="big + small",
        thought_seconds=1.5,
        statistics=Statistics("sequoia", 64, new_tokens=7, passes=3, seconds=Seconds(decode=2.0), note="easy"),
        probabilities=TokenProbabilities(0).put(2, 9).put(11, 30),
    )
    made.change(said)
    made.ask("And a beech?")
    made.change(replace(made.messages[-1], text="Too.", ending=AnswerEnding.COMPLETE))
    made.answer_again(answer.id)
    made.change(replace(made.messages[-1], text="It is wood.", ending=AnswerEnding.STOPPED))
    made.answer_differently(made.messages[-1].id, "It is both.")
    made.ask_differently(question.id, "What is a yew?")
    made.change(replace(made.messages[-1], text="A tree, too.", ending=AnswerEnding.COMPLETE))
    made.show_version(made.messages[0].id, 0)
    made.show_version(made.messages[1].id, 0)
    made.read_from(1, "Trees.")
    record, _ = records_of(made, "Trees")
    return replace(record, folder="Work / Wood", is_pinned=True, created=CREATED, updated=CREATED + 60), made


def tree_of(conversation: Conversation, messages: Sequence[Message] = ()) -> Any:
    """What is said, version by version, with all that is kept of it."""
    every = (*conversation.messages, *conversation.hidden)
    kept = {each.id: message_record(0, each) for each in every}

    def below(parent: int) -> list[Any]:
        mine = [each for each in every if each.parent == parent]
        mine.sort(key=lambda each: conversation.versions(each.id).index(each))
        told = [(kept[each.id].text, kept[each.id].ending, kept[each.id].details, each.created) for each in mine]
        return [(one, below(each.id)) for one, each in zip(told, mine, strict=True)]

    return below(0)


def write(path: Path, *chats: tuple[ConversationRecord, Conversation]) -> None:
    path.write_text(
        "[\n" + ",\n".join(each for chat in chats for each in written_parts(*chat)) + "\n]\n", encoding="utf-8"
    )


def imported(path: Path, folder: Path) -> tuple[Importing, list[ConversationRecord], list[Conversation]]:
    """What an import of a file saves, as it is opened then."""
    store, importing = Store(folder / "chats.sqlite3"), Importing([path], GenerationSettings(temperature=0.9))
    while not importing.is_over:
        importing.step(store)
    records = store.conversations()
    found = [conversation_of(each, store.messages(each.id)) for each in records]
    store.close()
    return importing, records, found


@pytest.mark.parametrize("characters", [1, 300, whole_chat._PART_CHARACTERS])
def test_all_of_a_chat_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, characters: int) -> None:
    monkeypatch.setattr(whole_chat, "_PART_CHARACTERS", characters)
    record, conversation = branched()
    parts = list(written_parts(record, conversation))
    assert (len(parts) > 1) == (characters < 1000)
    write(tmp_path / "chats.json", (record, conversation))
    importing, (again,), (found,) = imported(tmp_path / "chats.json", tmp_path)
    assert importing.so_far.problems == ()
    assert again == replace(record, leaf=again.leaf, settings=again.settings)
    assert tree_of(found) == tree_of(conversation)
    assert [each.text for each in found.messages] == [each.text for each in conversation.messages]
    assert (found.settings, found.summary, found.first_read) == (conversation.settings, "Trees.", 1)


def test_what_is_there_already_is_left_out_and_what_was_changed_since_stands_beside(tmp_path: Path) -> None:
    record, conversation = branched()
    path = tmp_path / "chats.json"
    write(path, (record, conversation), (record, conversation))
    importing, (first,), _ = imported(path, tmp_path)
    assert (importing.so_far.count, importing.so_far.known) == (1, 1), "it is twice in the file"
    importing, (again,), _ = imported(path, tmp_path)
    assert (importing.so_far.count, importing.so_far.known) == (0, 2)
    assert again == first
    later = replace(record, updated=record.updated + 1)
    write(path, (later, conversation), (later, conversation))
    importing, records, found = imported(path, tmp_path)
    assert (importing.so_far.count, importing.so_far.known) == (2, 0)
    assert len({each.id for each in records}) == 3
    assert all(tree_of(each) == tree_of(conversation) for each in found), "none is mixed up with another"


def test_a_chat_that_was_deleted_comes_back_as_another_one(tmp_path: Path) -> None:
    record, conversation = branched()
    write(tmp_path / "chats.json", (record, conversation))
    imported(tmp_path / "chats.json", tmp_path)
    store = Store(tmp_path / "chats.sqlite3")
    store.delete(record.id)
    store.close()
    _, (again,), (found,) = imported(tmp_path / "chats.json", tmp_path)
    assert again.id != record.id
    assert tree_of(found) == tree_of(conversation)


def test_a_title_that_was_made_of_the_question_goes_on_to_be(tmp_path: Path) -> None:
    record, conversation = branched()
    write(tmp_path / "chats.json", (replace(record, title=""), conversation))
    _, (again,), _ = imported(tmp_path / "chats.json", tmp_path)
    assert (again.title, again.auto_title) == ("", "What is an oak?")


def test_a_reader_of_messages_finds_the_path_that_is_shown() -> None:
    (part,) = written_parts(*branched())
    document = json.loads(part)
    assert document["title"] == "Trees"
    assert [(each["role"], each["content"]) for each in document["messages"]] == [
        ("user", "What is an oak?"), ("assistant", "It is a tree."), ("user", "And a beech?"), ("assistant", "Too."),
    ]  # fmt: skip


def test_a_copy_in_a_folder_has_every_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, conversation = branched()
    monkeypatch.setattr(whole_chat, "_PART_CHARACTERS", 300)
    assert write_copies(tmp_path, [(record, conversation), (record, conversation)]) == (2, "")
    for name in ("Trees.json", "Trees 2.json"):
        ((_, found, *_),) = read_conversations(tmp_path / name)
        assert found is not None
        assert tree_of(found) == tree_of(conversation)


def outcome(path: Path) -> tuple[list[Conversation], list[str]]:
    """The conversations of a file, and what was said of the rest."""
    read: list[ReadChat] = []
    reasons = []
    try:
        read.extend(read_conversations(path))
    except ExchangeError as error:
        reasons.append(str(error))
    return [each.conversation for each in read if each.conversation], [
        *(each.reason for each in read if each.reason),
        *reasons,
    ]


@pytest.mark.parametrize("characters", [300, whole_chat._PART_CHARACTERS])
def test_of_a_file_that_is_cut_what_is_whole_comes_back_and_the_rest_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, characters: int
) -> None:
    monkeypatch.setattr(whole_chat, "_PART_CHARACTERS", characters)
    record, conversation = branched()
    path = tmp_path / "chats.json"
    write(path, (record, conversation), (record, conversation))
    content = path.read_bytes()
    begin = "[\n" + ",\n".join(written_parts(record, conversation))
    ends = [len(begin.replace("\n", os.linesep).encode())]
    ends.append(content.rindex(b"]") - 1)
    wanted = tree_of(conversation)
    for length in sorted({*range(3, len(content) - 2, choose(97, 7)), *ends, *(end + 1 for end in ends)}):
        path.write_bytes(content[:length])
        found, reasons = outcome(path)
        assert len(found) == sum(length >= end for end in ends), length
        assert all(tree_of(each) == wanted for each in found)
        assert reasons, length


def test_parts_that_are_missing_are_told_and_others_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_chat, "_PART_CHARACTERS", 300)
    chat = branched()
    first, *others = written_parts(*chat)
    for parts, words in (([first, *others[:-1]], "The end"), (others, "The beginning")):
        (tmp_path / "chats.json").write_text(f"[{','.join([*parts, first, *others])}]")
        (found,), reasons = outcome(tmp_path / "chats.json")
        assert tree_of(found) == tree_of(chat[1])
        assert all(each.startswith(words) for each in reasons)
    (tmp_path / "chat.json").write_text(first)
    assert outcome(tmp_path / "chat.json") == ([], ["The end of a chat in it is missing."])
    monkeypatch.setattr(whole_chat, "_MOST_BYTES", len(first) + len(others[0]))
    write(tmp_path / "chats.json", chat)
    assert "is larger than" in outcome(tmp_path / "chats.json")[1][0]


def test_a_damaged_first_chat_does_not_hide_the_others(tmp_path: Path) -> None:
    write(tmp_path / "chats.json", branched(), branched())
    content = (tmp_path / "chats.json").read_text()
    (tmp_path / "chats.json").write_text(content.replace('"version": 1', '"version": 1 1', 1))
    found, (reason,) = outcome(tmp_path / "chats.json")
    assert len(found) == 1
    assert "not JSON" in reason


def test_what_a_later_version_wrote_is_refused_in_words() -> None:
    with pytest.raises(ExchangeError, match="newer version"):
        read_whole({"format": whole_chat.FORMAT, "version": 2, "messages": []})


def test_where_a_turn_is_missing_an_empty_one_takes_its_place() -> None:
    def said(role: str, number: int, parent: int) -> dict[str, Any]:
        return {"role": role, "content": f"{role} {number}", "number": number, "parent": parent}

    messages = [said("assistant", 1, 0), said("assistant", 2, 1), said("user", 3, 2), said("user", 4, 3)]
    found = read_whole({"format": whole_chat.FORMAT, "version": 1, "messages": messages}).conversation
    assert found is not None
    assert [each.role for each in found.messages] == ["user", "assistant"] * 4
    said_again = [each.text for each in found.messages]
    assert said_again == ["", "assistant 1", "", "assistant 2", "user 3", "", "user 4", ""]


def test_figures_that_are_none_and_packed_texts_that_swell_are_left_out() -> None:
    bomb = probability_details(TokenProbabilities(0, bytes(4 << 20), bytes(4 << 20)))
    message = {"role": "assistant", "content": "A tree.", "number": 2, "parent": 1, "ending": ["open"]}
    figures = {"passes": "three", "new_tokens": float("nan"), "method": 7, "seconds": {"decode": [], "load": 1}}
    details = {"chances": bomb, "thought_seconds": float("inf"), "statistics": figures, "beginning": 4}
    question = {"role": "user", "content": "What is an oak?", "number": 1}
    document = {"format": whole_chat.FORMAT, "version": 1, "messages": [question, {**message, "details": details}]}
    found = read_whole(document).conversation
    assert found is not None
    answer = found.messages[1]
    assert (answer.probabilities, answer.thought_seconds, answer.beginning) == (None, 0.0, "")
    assert answer.statistics == Statistics(seconds=Seconds(load=1.0))
    assert answer.ending is AnswerEnding.COMPLETE


def test_no_file_leads_to_a_conversation_that_cannot_be_shown() -> None:
    (part,) = written_parts(*branched())
    for seed in range(choose(150, 5000)):
        document = mutated_document(random.Random(seed), json.loads(part))
        if not whole_chat.is_whole(document):
            continue
        try:
            read = read_whole(document)
        except ExchangeError:
            continue
        if read.conversation is not None:
            roles = [each.role for each in read.conversation.messages]
            assert roles == ["user", "assistant"] * (len(roles) // 2), seed
            record, kept = records_of(read.conversation, read.title)
            conversation_of(record, kept)
            json.dumps([record.settings, *(each.details for each in kept)])


def test_an_export_leaves_what_was_there_until_all_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.chat.archive.exchange.exporting._STEP_SECONDS", 0.0)
    store, path = Store(tmp_path / "chats.sqlite3"), tmp_path / "chats.json"
    path.write_text("before")
    chats = [branched() for _ in range(3)]
    store.save_all([(record, [message_record(record.id, each) for each in (*made.messages, *made.hidden)])
                    for record, made in chats])  # fmt: skip

    def begun() -> Exporting:
        return Exporting(path, [record for record, _ in chats], lambda kept, chat: kept.messages(chat))

    stopped, failed = begun(), begun()
    stopped.step(store)
    stopped.stop()
    failed.step(store)
    failed.fail("there is no power")
    assert (stopped.so_far.is_stopped, failed.so_far.reason) == (True, "there is no power")
    assert [each.name for each in tmp_path.glob("chats.json*")] == ["chats.json"]
    assert path.read_text() == "before"
    whole = begun()
    while not whole.is_over:
        whole.step(store)
    store.close()
    assert (whole.so_far.count, whole.so_far.reason) == (3, "")
    assert len(outcome(path)[0]) == 3

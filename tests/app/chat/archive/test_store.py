"""Conversations on disk: kept, found, brought back, and safe from crashes and from strange files."""

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.chat.archive.conversion import conversation_of
from app.chat.archive.schema import VERSION
from app.chat.archive.store import Store
from app.chat.history.records import HIT_BEGIN, HIT_END, ConversationRecord, MessageRecord, new_id
from tests.campaigns.extent import choose


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.sqlite3"


def chat(store: Store, *texts: str, title: str = "") -> tuple[ConversationRecord, list[MessageRecord]]:
    """A saved conversation, question and answer in turn."""
    conversation = ConversationRecord(new_id(), title=title, auto_title=texts[0][:30])
    messages: list[MessageRecord] = []
    for number, text in enumerate(texts):
        parent = messages[-1].id if messages else 0
        role = "assistant" if number % 2 else "user"
        messages.append(MessageRecord(new_id(), conversation.id, parent, role, text, created=1000.0 + number))  # type: ignore[arg-type]
    conversation = replace(conversation, leaf=messages[-1].id)
    store.save(conversation, messages)
    return conversation, messages


def test_what_is_saved_is_there_in_the_next_start(path: Path) -> None:
    store = Store(path)
    conversation, messages = chat(store, "What is a tree?", "A plant with a trunk.")
    store.save(replace(conversation, title="Plants", folder="Garden", settings={"temperature": 0.5}))
    store.close()
    again = Store(path)
    (found,) = again.conversations()
    assert (found.title, found.folder, found.settings, found.leaf) == (
        "Plants",
        "Garden",
        {"temperature": 0.5},
        messages[-1].id,
    )
    assert again.messages(found.id) == messages
    assert not list(path.parent.glob("*-wal")) or path.stat().st_size > 0


def test_pinned_conversations_come_first_then_the_newest(path: Path) -> None:
    store = Store(path)
    records = [ConversationRecord(number, title=str(number), updated=float(number)) for number in (1, 2, 3)]
    for record in records:
        store.save(replace(record, is_pinned=record.id == 1))
    assert [each.id for each in store.conversations()] == [1, 3, 2]


def test_search_finds_titles_and_the_beginnings_of_words_in_texts(path: Path) -> None:
    store = Store(path)
    plants, _ = chat(store, "Tell me of trees", "An oak's acorns fall in autumn.", title="Plants")
    stars, _ = chat(store, "Tell me of stars", "Sirius is bright.", title="Acorn of the sky")
    assert [(hit.conversation.id, bool(hit.message)) for hit in store.search("acorn")] == [
        (stars.id, False),
        (plants.id, True),
    ]
    (hit,) = store.search("autu acor")
    assert f"{HIT_BEGIN}acorns{HIT_END}" in hit.excerpt
    assert store.search("   ") == []
    assert store.search("oaks-and-nothing") == []


def test_search_shows_the_best_message_of_every_conversation_and_none_of_a_deleted_one(path: Path) -> None:
    store = Store(path)
    trees, messages = chat(store, "An oak and much else that was said of many things", "Oak, oak and oak again.")
    gone, _ = chat(store, "An oak that is gone")
    store.delete(gone.id)
    assert [(hit.conversation.id, hit.message) for hit in store.search("oak")] == [
        (trees.id, 0),  # its automatic title
        (trees.id, messages[1].id),
    ]


def test_a_word_that_is_everywhere_still_finds_as_many_conversations_as_asked_for(path: Path) -> None:
    store = Store(path)
    for number in range(30):
        chat(store, *(f"common {number} {turn}" for turn in range(4)), title="x")
    hits = store.search("common", limit=12)
    assert len({hit.conversation.id for hit in hits}) == len(hits) == 12
    assert all(f"{HIT_BEGIN}common{HIT_END}" in hit.excerpt for hit in hits)


@pytest.mark.parametrize("words", ['"', "a AND", "NEAR(", "*", "text:oak", "oak OR", "'; DROP TABLE texts; --", "\x00"])
def test_search_takes_every_word_as_it_is(path: Path, words: str) -> None:
    store = Store(path)
    chat(store, "Tell me of trees", "An oak.")
    assert store.search(words) == []


def test_the_index_follows_an_answer_once_it_has_ended(path: Path) -> None:
    store = Store(path)
    conversation, (question, answer) = chat(store, "Which tree?", "")
    growing = replace(answer, text="A larch", ending="open")
    store.save(conversation, [growing])
    assert store.search("larch") == []
    store.save(conversation, [replace(growing, text="A larch.", ending="complete")])
    assert [hit.message for hit in store.search("larch")] == [answer.id]
    store.save(conversation, [replace(growing, text="A birch.", ending="complete")])
    assert store.search("larch") == []
    assert question.id in {hit.message for hit in store.search("which")}


def test_an_answer_that_was_growing_when_the_program_died_is_marked_and_found(path: Path) -> None:
    store = Store(path)
    conversation, (_, answer) = chat(store, "Which tree?", "")
    store.save(conversation, [replace(answer, text="A larch is", ending="open")])
    again = Store(path)  # the first one was never closed
    assert again.messages(conversation.id)[1].ending == "closed"
    assert [hit.message for hit in again.search("larch")] == [answer.id]


def test_the_copy_of_an_answer_that_grows_is_one_that_was_stopped(path: Path) -> None:
    store = Store(path)
    conversation, (_, answer) = chat(store, "Which tree?", "")
    store.save(conversation, [replace(answer, text="A larch is", ending="open")])
    copy = store.duplicate(conversation)
    assert [each.ending for each in store.messages(copy.id)] == ["complete", "stopped"]


def test_deleted_conversations_can_be_brought_back(path: Path) -> None:
    store = Store(path)
    conversation, messages = chat(store, "Which tree?", "A larch.")
    store.delete(conversation.id)
    assert store.conversations() == []
    assert store.search("larch") == []
    store.restore(conversation.id)
    assert [each.id for each in store.conversations()] == [conversation.id]
    assert store.messages(conversation.id) == messages


def test_what_was_deleted_long_ago_goes_with_its_messages(path: Path) -> None:
    store = Store(path)
    conversation, _ = chat(store, "Which tree?", "A larch.")
    store.delete(conversation.id)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE conversations SET deleted = 1")
    connection.close()
    again = Store(path)
    again.restore(conversation.id)
    assert again.conversations() == []
    assert again.messages(conversation.id) == []


def test_a_copy_has_all_branches_and_lives_on_its_own(path: Path) -> None:
    store = Store(path)
    conversation, (question, answer) = chat(store, "Which tree?", "A larch.")
    other = replace(answer, id=new_id(), text="An oak.", created=2000.0)
    store.save(conversation, [other])
    conversation = replace(conversation, settings={"reads_from": question.id, "summary": "Trees."})
    copy = store.duplicate(conversation)
    texts = [each.text for each in store.messages(copy.id)]
    assert texts == ["Which tree?", "A larch.", "An oak."]
    first, *rest = store.messages(copy.id)
    assert {each.parent for each in rest} == {first.id} != {question.id}
    assert copy.leaf in {each.id for each in rest}
    assert copy.settings == {"reads_from": first.id, "summary": "Trees."}
    store.delete(conversation.id)
    assert [each.text for each in store.messages(copy.id)] == texts


def test_parents_come_before_children_whatever_the_clock_said(path: Path) -> None:
    store = Store(path)
    conversation, messages = chat(store, *(f"turn {number}" for number in range(8)))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE messages SET created = -created")
    connection.close()
    assert [each.text for each in store.messages(conversation.id)] == [each.text for each in messages]


def test_a_circle_of_parents_and_a_lost_parent_lose_no_message(path: Path) -> None:
    store = Store(path)
    conversation, messages = chat(store, *(f"turn {number}" for number in range(4)))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE messages SET parent = ? WHERE id = ?", (messages[3].id, messages[0].id))
        connection.execute("UPDATE messages SET parent = 77 WHERE id = ?", (messages[3].id,))
        connection.execute("UPDATE messages SET parent = ? WHERE id = ?", (messages[2].id, messages[1].id))
    connection.close()
    found = store.messages(conversation.id)
    assert {each.id for each in found} == {each.id for each in messages}
    placed = {0}
    for each in found:
        assert each.parent in placed
        placed.add(each.id)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.write_bytes(b"no database at all" * 100), "damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:5000] + b"\xff" * 30000), "damaged"),
        (
            lambda path: path.write_bytes(
                path.read_bytes().replace(b"CREATE TABLE messages", b"CREATE TABLE \xff\xff\xff\xff\xff\xff\xff\xff")
            ),
            "damaged",
        ),
        (lambda path: sqlite3.connect(path).execute(f"PRAGMA user_version = {VERSION + 1}"), "newer version"),
        (lambda path: sqlite3.connect(path).execute("PRAGMA application_id = 7"), "another program"),
    ],
)
def test_a_file_that_cannot_be_used_is_set_aside_whole(path: Path, spoil, words: str) -> None:  # type: ignore[no-untyped-def]
    store = Store(path)
    chat(store, "Which tree?", "A larch. " * 2000)
    store.close()
    connection = spoil(path)
    if isinstance(connection, sqlite3.Cursor):
        connection.connection.close()
    content = path.read_bytes()
    again = Store(path)
    assert again.conversations() == []
    assert again.set_aside is not None
    assert again.set_aside.read_bytes() == content
    assert words in again.reason
    chat(again, "It works", "again")
    again.close()
    assert Store(path).set_aside is None


def test_what_damage_made_of_another_type_is_read_all_the_same(path: Path) -> None:
    store = Store(path)
    first, (said, *_) = chat(store, "An oak")
    store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE conversations SET title = ?, leaf = 'x', updated = 'y'", (b"a birch\xff",))
        connection.execute("UPDATE messages SET text = ?, created = 'z'", (b"a larch",))
    store = Store(path)
    (read,) = store.conversations()
    assert (read.title, read.leaf, read.updated) == ("a birch\ufffd", 0, 0.0)
    assert [hit.conversation.id for hit in store.search("birch")] == [first.id]
    (message,) = store.messages(first.id)
    assert (message.id, message.text, message.created) == (said.id, "a larch", 0.0)
    store.close()


_WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from app.chat.history.records import ConversationRecord, MessageRecord
from app.chat.archive.store import Store

store = Store(Path(sys.argv[1]))
conversation = ConversationRecord(int(sys.argv[2]), auto_title="crash")
text = ""
for number in range(10**6):
    text += f"word{number} "
    store.save(conversation, [MessageRecord(conversation.id, conversation.id, 0, "assistant", text, "open")])
    print(number, flush=True)
"""


def test_whatever_was_saved_before_a_kill_is_there_and_the_file_is_whole(path: Path) -> None:
    """Killed at random moments in the middle of saving; every start goes on with the same file."""
    chooser = random.Random(4)
    for identity in range(1, choose(4, 21)):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), str(identity)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout
            wanted = chooser.randrange(1, 60)
            last = 0
            for line in writer.stdout:
                last = int(line)
                if last >= wanted:
                    break
            writer.kill()
        store = Store(path)
        assert store.set_aside is None
        assert len(store.conversations()) == identity
        (message,) = store.messages(identity)
        assert message.ending == "closed"
        assert f"word{last} " in message.text
        store.close()


def test_what_is_erased_is_nowhere_in_the_file_and_what_is_not_deleted_stays(path: Path) -> None:
    store = Store(path)
    gone, _ = chat(store, "Which tree grows by the xylophone?", "A larch.")
    kept, _ = chat(store, "Which tree grows by the river?", "An oak.")
    listed, _ = chat(store, "Which tree grows by the zither?", "A birch.")
    for each in (gone, kept):
        store.delete(each.id)
    store.erase([gone.id, listed.id])
    assert [record.id for record, _ in store.deleted()] == [kept.id]
    assert [record.id for record in store.conversations()] == [listed.id], "it was not deleted"
    store.restore(gone.id)
    assert [record.id for record in store.conversations()] == [listed.id]
    written = b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))
    assert b"xylophone" not in written
    assert b"zither" in written
    store.close()


def test_a_text_that_changes_or_is_saved_again_is_still_found_by_all_its_words(path: Path) -> None:
    store = Store(path)
    conversation, (question, answer) = chat(store, "Which tree grows by the river?", "A larch by the river.")
    store.save(conversation, [replace(answer, text="An old larch by the river.")])
    store.save(conversation, [question, replace(answer, text="An old larch by the river.")])
    assert [hit.message for hit in store.search("larch river old")] == [answer.id]
    store.save(conversation, [replace(answer, text="A birch.")])
    assert store.search("larch") == []
    assert [hit.message for hit in store.search("river")][-1] == question.id


def test_a_branch_ends_with_its_message_and_has_the_versions_before_it(path: Path) -> None:
    store = Store(path)
    conversation, messages = chat(store, "Which tree?", "A larch.", "Why?", "It is yellow.", "Then?", "It is bare.")
    other = replace(messages[1], id=new_id(), text="An oak.", created=2000.0)
    asked = replace(messages[2], id=new_id(), parent=other.id, text="Really?", created=2001.0)
    again = replace(messages[3], id=new_id(), text="It is light.", created=2002.0)
    store.save(conversation, [other, asked, again])
    conversation = replace(
        conversation, settings={"reads_from": messages[4].id}, folder="Trees", is_pinned=True, leaf=messages[5].id
    )
    copy = store.duplicate(conversation, messages[3].id)
    copies = store.messages(copy.id)
    wanted = {"Which tree?", "A larch.", "Why?", "It is yellow.", "An oak.", "Really?", "It is light."}
    assert {each.text for each in copies} == wanted
    assert next(each for each in copies if each.id == copy.leaf).text == "It is yellow."
    assert (copy.folder, copy.is_pinned, copy.settings) == ("Trees", False, {"reads_from": 0})
    assert copy.shown_title.endswith("(branch)")
    assert len(store.messages(conversation.id)) == 9, "the chat itself stays as it is"
    shown = conversation_of(copy, copies).messages
    assert [each.text for each in shown] == ["Which tree?", "A larch.", "Why?", "It is yellow."]

"""Conversations out to files and back."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from app.chat.archive.conversion import conversation_of, records_of
from app.chat.archive.exchange import formats
from app.chat.archive.exchange.formats import (
    exported_json,
    exported_markdown,
    from_json,
    read_conversations,
)
from app.chat.archive.exchange.importing import Importing
from app.chat.archive.exchange.reading import ExchangeError
from app.chat.archive.store import Store
from app.chat.history.conversation import Conversation
from app.chat.history.message import AnswerEnding
from app.chat.history.records import ConversationRecord
from app.settings.generation import GenerationSettings
from app.system import json_text


def conversation() -> Conversation:
    made = Conversation()
    _, answer = made.ask("What is *this*?")
    made.change(replace(answer, text="A `tree`.", ending=AnswerEnding.COMPLETE))
    return made


def test_what_is_written_as_json_is_read_back() -> None:
    made = conversation()
    ((title, again),) = from_json(exported_json(ConversationRecord(1, "Trees"), made))
    assert title == "Trees"
    assert again.messages == made.messages


def test_a_long_chat_comes_back_whole_from_its_own_file(tmp_path: Path) -> None:
    made = conversation()
    _, answer = made.ask("And *that*?")
    made.change(replace(answer, text="A bush. " * 300_000, ending=AnswerEnding.COMPLETE))
    formats.write_conversation(tmp_path / "chat.json", ConversationRecord(1, "Trees"), made)
    (read,) = read_conversations(tmp_path / "chat.json")
    assert read.conversation is not None
    assert read.conversation.messages == made.messages


def test_markdown_has_a_heading_for_every_turn() -> None:
    assert exported_markdown("Trees", conversation().messages) == (
        "# Trees\n\n## You\n\nWhat is *this*?\n\n## Answer\n\nA `tree`.\n"
    )


def test_messages_of_others_are_put_in_turns() -> None:
    turns = [
        {"role": "system", "content": "Be kind."},
        {"role": "assistant", "content": "Welcome"},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image_url"}]},
        {"role": "user", "content": "and two"},
        {"role": "assistant", "content": "eins"},
        {"role": "user", "content": "three"},
    ]
    ((_, found),) = from_json(json.dumps(turns))
    assert [(each.role, each.text) for each in found.messages] == [
        ("user", "one\n\nand two"),
        ("assistant", "eins"),
        ("user", "three"),
        ("assistant", ""),
    ]
    assert found.settings is not None
    assert found.settings.system_prompt == "Be kind."


def test_a_question_that_nobody_answered_says_so() -> None:
    ((_, found),) = from_json(json.dumps([{"role": "user", "content": "Why?"}]))
    assert found.last_answer is not None
    assert found.last_answer.ending is AnswerEnding.FAILED


def version(role: str, *parts: str, **others: object) -> dict[str, object]:
    """A version of a message as LM Studio has it."""
    return {"role": role, "content": [{"type": "text", "text": each} for each in parts], **others}


def lm_studio_chat() -> dict[str, object]:
    thinking = {"type": "contentBlock", "style": {"type": "thinking"}, "content": [{"type": "text", "text": "Hm."}]}
    drafted = [{"type": "text", "text": "It is ", "fromDraftModel": True}, {"type": "text", "text": "four."}]
    steps = [thinking, {"type": "toolStatus"}, {"type": "contentBlock", "content": drafted}]
    answer = {"role": "assistant", "type": "multiStep", "steps": steps, "senderInfo": {"senderName": "qwen3"}}
    questions = [version("user", "What is 2 + 3?"), version("user", "What is 2 + 2?")]
    return {
        "name": "Sums",
        "perChatPredictionConfig": {"fields": [{"key": "llm.prediction.systemPrompt", "value": "Be brief."}]},
        "messages": [
            {"versions": questions, "currentlySelected": 1},
            {"versions": [answer], "currentlySelected": 0},
        ],
    }


def test_a_chat_of_lm_studio_is_read_as_it_was_shown() -> None:
    ((title, found),) = from_json(json.dumps(lm_studio_chat()))
    assert title == "Sums"
    assert [(each.role, each.text, each.answerer) for each in found.messages] == [
        ("user", "What is 2 + 2?", ""),
        ("assistant", "<think>\nHm.\n</think>\n\nIt is four.", "qwen3"),
    ]
    assert found.settings is not None
    assert found.settings.system_prompt == "Be brief."


@pytest.mark.parametrize(
    ("place", "value"),
    [("currentlySelected", 7), ("currentlySelected", "x"), ("currentlySelected", None), ("currentlySelected", -1)],
)
def test_a_version_that_is_not_there_is_the_last_one(place: str, value: object) -> None:
    chat = lm_studio_chat()
    messages = cast(list[dict[str, object]], chat["messages"])
    messages[0][place] = value
    ((_, found),) = from_json(json.dumps(chat))
    assert found.messages[0].text == "What is 2 + 2?"


def test_all_versions_of_lm_studio_come_with_what_follows_behind_the_shown_one() -> None:
    chat = lm_studio_chat()
    messages = cast(list[dict[str, Any]], chat["messages"])
    messages[0]["currentlySelected"] = 0
    messages[1] = {"versions": [version("assistant", each) for each in ("Five.", "Six?", "5")], "currentlySelected": 1}
    ((_, found),) = from_json(json.dumps(chat))
    question, answer = found.messages
    assert [each.text for each in found.versions(question.id)] == ["What is 2 + 3?", "What is 2 + 2?"]
    assert [each.text for each in found.versions(answer.id)] == ["Five.", "Six?", "5"]
    assert (question.text, answer.text) == ("What is 2 + 3?", "Six?")
    record, kept = records_of(found, "Sums")
    again = conversation_of(record, sorted(kept, key=lambda each: each.created))  # as the store has them
    assert [each.text for each in again.messages] == ["What is 2 + 3?", "Six?"]
    assert [each.text for each in again.versions(answer.id)] == ["Five.", "Six?", "5"], "in their order"


def test_what_one_side_says_twice_in_a_row_keeps_its_versions() -> None:
    chat = lm_studio_chat()
    cast(list[dict[str, Any]], chat["messages"])[1:1] = [
        {"versions": [version("user", "Please."), version("user", "Now.")], "currentlySelected": 1}
    ]
    ((_, found),) = from_json(json.dumps(chat))
    question = found.messages[0]
    assert question.text == "What is 2 + 2?\n\nNow."
    assert [each.text for each in found.versions(question.id)] == [
        "What is 2 + 3?", "What is 2 + 2?\n\nPlease.", "What is 2 + 2?\n\nNow.",
    ]  # fmt: skip


def write_lm_studio(folder: Path, number: int, **others: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{number}.conversation.json").write_text(json.dumps({**lm_studio_chat(), **others}), encoding="utf-8")


def imported(path: Path, tmp_path: Path) -> tuple[Importing, list[ConversationRecord]]:
    """What an import of a file or folder saves."""
    store, importing = Store(tmp_path / "chats.sqlite3"), Importing([path], GenerationSettings())
    while not importing.is_over:
        importing.step(store)
    found = store.conversations()
    store.close()
    return importing, found


def test_a_folder_of_lm_studio_comes_with_folders_dates_and_pins(tmp_path: Path) -> None:
    began = time.time() - 9 * 86400
    folder = tmp_path / "conversations"
    times = {"createdAt": began * 1000, "userLastMessagedAt": (began + 60) * 1000}
    write_lm_studio(folder, 1, name="Old", pinned=True, **times)
    write_lm_studio(folder / "Work" / "Sums", 2, name="Other", createdAt="yesterday", pinned=1)
    write_lm_studio(folder, 3, messages=[], createdAt=1)
    write_lm_studio(folder / ".hidden", 4, name="Hidden")
    (folder / "settings.json").write_text("{}", encoding="utf-8")
    importing, (old, other) = imported(folder, tmp_path)
    assert (old.title, old.is_pinned, old.folder) == ("Old", True, "")
    assert old.created == pytest.approx(began, abs=0.01)
    assert old.updated == pytest.approx(began + 60, abs=0.01)
    assert (other.title, other.is_pinned, other.folder) == ("Other", False, "Work/Sums")
    assert other.updated == pytest.approx(time.time(), abs=60)
    assert (importing.so_far.count, importing.so_far.empty, importing.so_far.problems) == (2, 1, ())


def test_other_folders_give_whatever_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "in" / "b").mkdir(parents=True)
    (tmp_path / "in" / "a.md").write_text("# A\n\n## You\n\nHi", encoding="utf-8")
    (tmp_path / "in" / "b" / "c.JSON").write_text('[{"role": "user", "content": "x"}]', encoding="utf-8")
    (tmp_path / "in" / "b" / "d.txt").write_text("no chat", encoding="utf-8")
    (tmp_path / "in" / "e.json").write_text("{", encoding="utf-8")
    importing, found = imported(tmp_path / "in", tmp_path)
    assert sorted((each.shown_title, each.folder) for each in found) == [("A", ""), ("x", "b")]
    assert [name for name, _ in importing.so_far.problems] == ["e.json"]


@pytest.mark.parametrize("when", [0, -5, 1e300, True, None, [], float("nan")])
def test_a_time_that_is_none_is_now(tmp_path: Path, when: object) -> None:
    write_lm_studio(tmp_path / "in", 1, createdAt=when)
    _, (found,) = imported(tmp_path / "in", tmp_path)
    assert found.created == pytest.approx(time.time(), abs=60)


@pytest.mark.parametrize("broken", [{"role": "robot"}, {"steps": 3, "role": 5}, {"content": {"text": 3}, "role": None}])
def test_a_broken_chat_of_lm_studio_is_refused_in_words(broken: dict[str, object]) -> None:
    chat = {"name": 3, "systemPrompt": 4, "perChatPredictionConfig": [], "messages": [{"versions": [broken]}]}
    with pytest.raises(ExchangeError, match="without a role or without text"):
        from_json(json.dumps(chat))


def test_a_file_may_hold_several_conversations() -> None:
    one = {"title": "A", "messages": [{"role": "user", "content": "x"}]}
    assert [title for title, _ in from_json(json.dumps([one, {**one, "title": "B"}]))] == ["A", "B"]


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "3", "[" * 9999, '{"messages": []}', '{"messages": 7}', '[{"role": "robot", "content": "x"}]',
     '[{"role": "user"}]', '[{"role": "system", "content": "x"}]', '{"messages": ["x"]}'],
)  # fmt: skip
def test_what_is_no_conversation_is_refused_in_words(text: str) -> None:
    with pytest.raises(ExchangeError, match=r"^The file (is not JSON|holds)"):
        from_json(text)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'"\xe9"')
    for name, words in (("missing.json", "cannot be read"), ("latin.json", "not UTF-8")):
        with pytest.raises(ExchangeError, match=words):
            list(read_conversations(tmp_path / name))


@pytest.mark.parametrize(
    "said",
    [
        "A `tree`.",
        "Two\n\n\nempty lines, and\n    indented code",
        "## You\n\nis how a turn begins",
        "\\## Answer\nwith a backslash of its own",
        "```\n## Answer\n```",
        "## Your own heading\n# Another",
    ],
)
def test_what_is_written_as_markdown_is_read_back(tmp_path: Path, said: str) -> None:
    made = Conversation()
    _, answer = made.ask(said)
    made.change(replace(answer, text=said, ending=AnswerEnding.COMPLETE))
    made.ask("And then?")
    file = tmp_path / "trees.md"
    file.write_text(exported_markdown("Trees", made.messages), encoding="utf-8")
    ((title, again, *_),) = read_conversations(file)
    assert title == "Trees"
    assert again is not None
    assert [(each.role, each.text) for each in again.messages] == [(each.role, each.text) for each in made.messages]


@pytest.mark.parametrize(
    "text", ["", "# A title alone\n", "Some notes\n\n## Shopping\n", "## Answer\n\nWithout a question\n"]
)
def test_a_markdown_file_of_something_else_says_what_was_expected(tmp_path: Path, text: str) -> None:
    file = tmp_path / "notes.md"
    file.write_text(text)
    with pytest.raises(ExchangeError, match=r"no (turns|question)"):
        list(read_conversations(file))


def test_a_title_of_several_lines_is_shown_in_one() -> None:
    ((title, _),) = from_json('{"title": " Sums\\nand\\tmore ", "messages": [{"role": "user", "content": "x"}]}')
    assert ConversationRecord(1, title).shown_title == "Sums and more"


CHAT = '{"title": "A", "messages": [{"role": "user", "content": "x"}]}'


def outcome(tmp_path: Path, text: str) -> tuple[int, list[str]]:
    """How many conversations there are in a file, and what was said of the rest."""
    file = tmp_path / "history.json"
    file.write_text(text)
    count, reasons = 0, []
    try:
        for read in read_conversations(file):
            count += read.conversation is not None
            reasons += [read.reason] if read.reason else []
    except ExchangeError as error:
        reasons.append(str(error))
    return count, reasons


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes were given to the parser of JSON, each time."""
    sizes: list[int] = []
    loads = json.loads

    def counting(content: bytes) -> object:
        sizes.append(len(content))
        return loads(content)

    monkeypatch.setattr(json, "loads", counting)
    monkeypatch.setattr(formats, "_LARGEST_CHAT_BYTES", 1 << 20)
    monkeypatch.setattr(json_text, "_BRACKET_SLACK_BYTES", 1 << 10)
    return sizes


@pytest.mark.parametrize(
    ("text", "count", "words"),
    [
        ("[" + "{}," * 30_000 + "{}]", 0, "brackets"),
        ("[" + "{}," * 600_000 + "{}]", 0, "larger than 1 MB"),
        ('{"messages": [' + "{}," * 30_000 + "{}]}", 0, "brackets"),
        (f"[{CHAT}, " + "[]," * 30_000 + "[]]", 1, "no conversation"),
        (f'[{CHAT}, {{"messages": [' + "[]," * 30_000 + f"[]]}}, {CHAT}]", 2, "brackets"),
        (f'[{CHAT}, {{"messages": "' + "x" * (2 << 20), 1, "larger than 1 MB"),
        ("[" * 900_000, 0, "larger than 1 MB"),
        ('{"messages": "' + "x" * (2 << 20) + '"}', 0, "larger than 1 MB"),
    ],
)
def test_what_would_swell_in_memory_is_not_parsed(
    tmp_path: Path, parsed: list[int], text: str, count: int, words: str
) -> None:
    found, reasons = outcome(tmp_path, text)
    assert found == count
    assert words in reasons[-1]
    assert sum(parsed) < 100_000


def test_brackets_in_a_text_are_no_reason_to_refuse_it(tmp_path: Path, parsed: list[int]) -> None:
    matrix = json.dumps(str([[0, 1]] * 20_000))
    assert outcome(tmp_path, f'[{{"messages": [{{"role": "user", "content": {matrix}}}]}}]') == (1, [])


def test_of_a_long_history_one_conversation_is_in_memory_at_a_time(tmp_path: Path, parsed: list[int]) -> None:
    assert outcome(tmp_path, "[" + ",\n".join([CHAT] * 2000) + "]") == (2000, [])
    assert max(parsed) == len(CHAT)
    assert len(parsed) <= 2001, "each once, and the first once more to see what it is"


def test_a_history_that_breaks_off_keeps_what_is_whole(tmp_path: Path) -> None:
    count, (reason,) = outcome(tmp_path, f"[{CHAT}, {CHAT}, {CHAT[:-5]}")
    assert count == 2
    assert "not JSON" in reason

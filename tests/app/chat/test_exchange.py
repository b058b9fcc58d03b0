"""Conversations out to files and back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.chat.conversation import Conversation, Ending
from app.chat.exchange import ExchangeError, as_json, as_markdown, from_json, read_conversations


def conversation() -> Conversation:
    made = Conversation()
    _, answer = made.ask("What is *this*?")
    made.change(replace(answer, text="A `tree`.", ending=Ending.COMPLETE))
    return made


def test_what_is_written_as_json_is_read_back() -> None:
    messages = conversation().messages
    ((title, again),) = from_json(as_json("Trees", messages))
    assert title == "Trees"
    assert again.messages == messages


def test_markdown_has_a_heading_for_every_turn() -> None:
    assert as_markdown("Trees", conversation().messages) == (
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
    made.change(replace(answer, text=said, ending=Ending.COMPLETE))
    made.ask("And then?")
    file = tmp_path / "trees.md"
    file.write_text(as_markdown("Trees", made.messages), encoding="utf-8")
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

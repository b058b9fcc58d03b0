"""Chats that services hand out are read as they were last shown."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.chat.archive.exchange.formats import file_name, from_json, read_conversations
from app.chat.archive.exchange.importing import Importing
from app.chat.archive.exchange.reading import ExchangeError, ReadChat
from app.chat.archive.store import Store
from app.settings.generation import GenerationSettings

WHEN = 1_700_000_000.0


def node(parent: str | None, role: str, *parts: object, **others: object) -> dict[str, Any]:
    """A message of ChatGPT in its tree."""
    content = {"content_type": "text", "parts": list(parts)}
    return {"parent": parent, "children": [], "message": {"author": {"role": role}, "content": content, **others}}


def chatgpt() -> dict[str, Any]:
    return {
        "title": "Sums",
        "create_time": WHEN,
        "update_time": WHEN + 60,
        "current_node": "again",
        "mapping": {
            "root": {"parent": None, "message": None, "children": ["hidden"]},
            "hidden": node("root", "user", "about me", metadata={"is_visually_hidden_from_conversation": True}),
            "question": node("hidden", "user", {"asset_pointer": "file://x"}, "What is 2 + 2?"),
            "first": node("question", "assistant", "Five."),
            "call": node("question", "assistant", "calculate(2 + 2)", recipient="python"),
            "tool": node("call", "tool", "4"),
            "again": node("tool", "assistant", "Four.", metadata={"model_slug": "gpt-x"}),
        },
    }


def claude() -> dict[str, Any]:
    thinking = {"type": "thinking", "thinking": "Hm."}
    return {
        "name": "Sums",
        "created_at": datetime.fromtimestamp(WHEN, UTC).isoformat().replace("+00:00", "Z"),
        "updated_at": datetime.fromtimestamp(WHEN + 60, UTC).isoformat(),
        "chat_messages": [
            {"sender": "human", "text": "What is 2 + 2?", "content": []},
            {"sender": "assistant", "text": "", "content": [thinking, {"type": "text", "text": "Four."}]},
        ],
    }


def open_webui() -> dict[str, Any]:
    messages = {
        "a": {"id": "a", "parentId": None, "role": "user", "content": "What is 2 + 2?"},
        "b": {"id": "b", "parentId": "a", "role": "assistant", "content": "Five."},
        "c": {"id": "c", "parentId": "a", "role": "assistant", "content": "Four.", "model": "gpt-x"},
    }
    chat = {"history": {"messages": messages, "currentId": "c"}, "messages": []}
    return {"created_at": int(WHEN), "updated_at": int(WHEN) + 60, "pinned": True, "chat": {"title": "Sums", **chat}}


def read(path: Path, document: object) -> list[ReadChat]:
    path.write_text(json.dumps(document), "utf-8")
    return list(read_conversations(path))


@pytest.mark.parametrize("one", [chatgpt(), claude(), open_webui()], ids=["chatgpt", "claude", "open-webui"])
def test_a_chat_of_a_service_is_read_as_it_was_last_shown(tmp_path: Path, one: dict[str, Any]) -> None:
    found, empty = read(
        tmp_path / "conversations.json", [one, {**one, "mapping": {}, "chat_messages": [], "chat": {"messages": []}}]
    )
    assert found.title == "Sums"
    assert found.conversation is not None
    assert [(each.role, each.text) for each in found.conversation.messages] == [
        ("user", "What is 2 + 2?"),
        ("assistant", "Four."),
    ]
    assert found.conversation.messages[1].answerer == ("" if "chat_messages" in one else "gpt-x")
    assert (found.about.created, found.about.updated) == (WHEN, WHEN + 60)
    assert found.about.is_pinned == ("pinned" in one)
    assert empty.is_empty


@pytest.mark.parametrize(
    "broken",
    [
        {"mapping": {"a": {"parent": "b", "message": {}}, "b": {"parent": "a"}}, "current_node": "a"},
        {"mapping": {"a": 3, "b": {"parent": [], "message": {"author": [], "content": 5}}}, "current_node": {}},
        {"chat_messages": [3, {"sender": [], "content": 5}], "created_at": "someday", "updated_at": float("1e300")},
        {"chat": {"history": {"messages": [], "currentId": []}, "messages": {"role": "user"}}, "created_at": True},
    ],
)
def test_a_damaged_chat_of_a_service_is_as_one_in_which_nothing_was_said(tmp_path: Path, broken: object) -> None:
    assert [each.is_empty for each in read(tmp_path / "conversations.json", broken)] == [True]


def test_other_lists_are_told_what_is_expected() -> None:
    with pytest.raises(ExchangeError, match="no messages; expected is"):
        from_json(json.dumps([{"uuid": "x", "full_name": "Somebody"}]))


@pytest.mark.parametrize(
    ("title", "name"), [("Who is it?", "Who is it"), ("a/b: c.", "a_b_ c"), ("...", "chat"), ("", "chat")]
)
def test_the_name_of_a_file_ends_as_its_title_without_the_full_stop(title: str, name: str) -> None:
    assert file_name(title) == name


@pytest.mark.parametrize(("make", "key"), [(chatgpt, "conversation_id"), (claude, "uuid"), (open_webui, "id")])
def test_a_chat_is_imported_once_unless_it_went_on_since(
    make: Callable[[], dict[str, Any]], key: str, tmp_path: Path
) -> None:
    store, path = Store(tmp_path / "chats.db"), tmp_path / "conversations.json"

    def imported(*documents: dict[str, Any]) -> tuple[int, int]:
        path.write_text(json.dumps(documents))
        importing = Importing([path], GenerationSettings())
        while not importing.is_over:
            importing.step(store)
        return importing.so_far.count, importing.so_far.known

    first, second = {**make(), key: "0a-1"}, {**make(), key: "0a-2"}
    assert imported(first, second) == (2, 0)
    assert imported(first, second) == (0, 2)
    later = {"update_time": WHEN + 90} if make is chatgpt else {"updated_at": WHEN + 90}
    assert imported({**first, **later}, second) == (1, 1)
    assert imported(make(), make()) == (2, 0), "nothing tells these apart"
    texts = {tuple(each.text for each in store.messages(record.id)) for record in store.conversations()}
    assert len(store.conversations()) == 5
    assert texts == {("What is 2 + 2?", "Four.")}
    store.close()

"""Mutated chats and recordings: read as the application does, kept, and everything that was there before stays."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.chat.archive.conversion import message_record
from app.chat.archive.exchange.formats import (
    exported_json,
    exported_markdown,
    from_json,
    read_conversations,
)
from app.chat.archive.exchange.reading import ExchangeError
from app.chat.archive.store import Store
from app.chat.history.conversation import Conversation
from app.chat.history.records import ConversationRecord, new_id
from app.tree.rounds.recording import read_recording, recording_line
from app.tree.rounds.snapshot import snapshot
from engine.errors import InputError
from tests.app.tree.trees import random_round
from tests.campaigns.mutations import as_json_bytes, mutated_bytes, mutated_document
from tests.campaigns.outcome import Kind, Outcome

KEPT = "An oak is a tree."

_TURNS: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is an **oak**? $x^2$\n```python\nprint(1)\n```"},
    {"role": "assistant", "content": "A tree.\n\n## You\n\n<|end|> 漢字 🌳"},
    {"role": "user", "content": "Thank you!"},
]
_DETAILS: dict[str, Any] = {
    "statistics": {"method": "sequoia", "passes": 3, "seconds": {"decode": 1.5}, "note": "easy"},
    "chances": {"begin": 0, "pieces": "eJxjZGZhZWXkYGFlYWVmBrIYBBlQAAAHBwBQ"},
    "thought_seconds": 1.5,
}
_ANSWER: dict[str, Any] = {"role": "assistant", "content": "A tree.", "model": "big + small", "ending": "stopped"}
_WHOLE: dict[str, Any] = {
    "format": "coppice-chat", "version": 1, "id": 5, "title": "Trees", "is_named": True, "folder": "Wood",
    "is_pinned": True, "created": 1.7e9, "updated": 1.8e9, "goes_on": False,
    "settings": {"generation": {"temperature": 0.5, "system_prompt": "Be kind."}, "reads_from": 3, "summary": "Trees."},
    "messages": [
        {"role": "user", "content": "What is an oak?", "number": 1, "parent": 0, "created": 1.7e9},
        {**_ANSWER, "number": 2, "parent": 1, "details": _DETAILS},
        {"role": "user", "content": "And a yew?", "number": 3, "parent": 2, "created": 1.75e9},
    ],
    "others": [{"role": "assistant", "content": "Wood.", "number": 4, "parent": 1, "created": 1.71e9}],
    "files": [{"message": 1, "name": "notes.txt", "text": "An oak.", "note": "cut"}],
}  # fmt: skip
DOCUMENTS: tuple[Any, ...] = (
    _WHOLE,
    [_WHOLE, {**_WHOLE, "goes_on": True}, {"format": "coppice-chat-part", "others": _WHOLE["others"]}],
    {"format": "coppice-conversation", "title": "Trees", "messages": _TURNS},
    _TURNS,
    [{"title": "One", "messages": _TURNS}, {"messages": _TURNS[1:]}],
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}, *_TURNS]},
)
MARKDOWN = exported_markdown("Trees", from_json(json.dumps(_TURNS))[0][1].messages, "Be brief.")


def chat_cases(folder: Path, seeds: range) -> Iterator[Outcome]:
    """Import one mutated file per seed into a database that holds a conversation already."""
    store = Store(folder / "chats.sqlite3")
    known = next((each.id for each in store.conversations() if each.title == "Kept"), 0) or _keep_one(store)
    for seed in seeds:
        yield _of_chat(store, known, folder, seed)
    store.close()


def _keep_one(store: Store) -> int:
    conversation = from_json(json.dumps([{"role": "user", "content": KEPT}]))[0][1]
    return _save(store, "Kept", conversation)


def _save(store: Store, title: str, conversation: Conversation) -> int:
    identity = new_id()
    record = ConversationRecord(identity, title=title)
    store.save(record, [message_record(identity, each) for each in conversation.messages])
    return identity


def _of_chat(store: Store, known: int, folder: Path, seed: int) -> Outcome:
    rng = random.Random(seed)
    is_markdown = rng.random() < 0.25
    path = folder / ("chat.md" if is_markdown else "chat.json")
    content = MARKDOWN.encode() if is_markdown else as_json_bytes(_document(rng))
    path.write_bytes(mutated_bytes(rng, content) if is_markdown or rng.random() < 0.3 else content)
    try:
        read = list(read_conversations(path))
    except ExchangeError as error:
        return _told(seed, str(error))
    identities = []
    for title, conversation in [(each.title, each.conversation) for each in read if each.conversation]:
        identities.append(_save(store, title, conversation))
        if lost := _lost(store, identities[-1], conversation):
            return Outcome(seed, Kind.LOST, lost)
        record = ConversationRecord(1, title)
        if len(from_json(exported_json(record, conversation))[0][1].messages) != len(conversation.messages):
            return Outcome(seed, Kind.LOST, "What was exported as JSON does not come back whole.")
        exported_markdown(title, conversation.messages)
    if [each.text for each in store.messages(known) if each.role == "user"] != [KEPT]:
        return Outcome(seed, Kind.LOST, "The conversation that was there before has changed.")
    for identity in identities:
        store.delete(identity)
    if unusable := next((each.reason for each in read if not each.conversation), ""):
        return _told(seed, unusable)
    return Outcome(seed, Kind.SURVIVED)


def _document(rng: random.Random) -> Any:
    return mutated_document(rng, rng.choice(DOCUMENTS))


def _lost(store: Store, identity: int, conversation: Conversation) -> str:
    kept = {each.id: each.text for each in store.messages(identity)}
    for message in conversation.messages:
        if kept.get(message.id) != message.text:
            return f"Message {message.text[:40]!r} is kept as {str(kept.get(message.id))[:40]!r}."
    return ""


def recording_cases(folder: Path, seeds: range) -> Iterator[Outcome]:
    """Read one mutated recording per seed, and make of every round what the picture is drawn from."""
    lines = [recording_line(random_round(nodes, seed=nodes, index=index)) for index, nodes in enumerate((0, 3, 20))]
    for seed in seeds:
        yield _of_recording(folder / "rounds.jsonl", lines, seed)


def _of_recording(path: Path, lines: list[str], seed: int) -> Outcome:
    rng = random.Random(seed)
    mutated = [line.encode() for line in lines]
    place = rng.randrange(len(lines))
    if rng.random() < 0.7:
        mutated[place] = as_json_bytes(mutated_document(rng, json.loads(lines[place]))) + b"\n"
        content = b"".join(mutated)
    else:
        content = mutated_bytes(rng, b"".join(mutated))
    path.write_bytes(content)
    shown = 0
    try:
        for each in read_recording(path):
            snapshot(each)
            shown += 1
    except InputError as error:
        return _told(seed, str(error))
    return Outcome(seed, Kind.SURVIVED) if shown else Outcome(seed, Kind.LOST, "Nothing was read, and nothing said.")


def _told(seed: int, sentence: str) -> Outcome:
    if not sentence.strip() or "Traceback" in sentence:
        return Outcome(seed, Kind.TRACEBACK, f"no sentence: {sentence!r}")
    return Outcome(seed, Kind.TOLD, sentence[:200])

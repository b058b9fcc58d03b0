"""What was on the screen when, and whether it is in the database: nothing shown for a second may be lost.

Times are counted in looks at the screen, which the application's own event loop takes: a second in which a busy machine
lets it do nothing is none.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.chat.archive.store import Store

LOOK_MS = 25
SHOWN_LOOKS = 1000 // LOOK_MS

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that was on the screen and is gone."""

    what: str
    shown: str
    kept: str = ""


def read(journal: Path) -> list[Entry]:
    """The entries in order; a last line that is only half written is left out."""
    if not journal.exists():
        return []
    lines = journal.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


def last_look(entries: list[Entry]) -> int:
    """The number of the last look at the screen."""
    return int(entries[-1]["at"]) if entries else 0


def losses(database: Path, entries: list[Entry]) -> list[Loss]:
    """What was shown for a second before the last look, and is not in the database.

    Opens the file as the application does in its next start.
    """
    if not database.exists():
        shown = [*last_shown(entries).values()]
        return [Loss("the file", str(each)) for each in shown[:1]]
    found = [*_complaints(database, "PRAGMA integrity_check")]
    store = Store(database)
    try:
        if store.set_aside:
            found.append(Loss("the file", store.reason))
        found += _missing_in_list(store, entries)
        found += _missing_texts(store, entries)
    finally:
        store.close()
    return [*found, *_complaints(database, "INSERT INTO texts(texts, rank) VALUES('integrity-check', 1)")]


def last_shown(entries: list[Entry]) -> dict[int, Entry]:
    """Of every answer, the last entry that is at least a second older than the last look."""
    until = last_look(entries) - SHOWN_LOOKS
    return {each["answer"][1]: each for each in entries if "answer" in each and each["at"] <= until}


def holds(kept: str, shown: str) -> bool:
    """Whether every letter and figure that was shown stands in the text, in order; Markdown has signs besides."""
    letters = iter(kept)
    return all(each in letters for each in shown if each.isalnum())


def _complaints(database: Path, check: str) -> Iterator[Loss]:
    """Of SQLite about its file, or of the index of texts about what does not fit to the messages."""
    with closing(sqlite3.connect(database)) as connection:
        try:
            said = [words for (words,) in connection.execute(check)]
        except sqlite3.DatabaseError as error:
            said = [str(error)]
    yield from (Loss("the file", words) for words in said if words != "ok")


def _missing_in_list(store: Store, entries: list[Entry]) -> Iterator[Loss]:
    """A conversation may have been changed or deleted after it was last seen as it was: that was seen as well."""
    lists = [each for each in entries if "list" in each]
    old = [each for each in lists if each["at"] <= last_look(entries) - SHOWN_LOOKS]
    accepted = lists[len(old) - 1 :] if old else []
    kept = {each.id: [each.shown_title, each.is_pinned, each.folder] for each in store.conversations()}
    for identity, *shown in old[-1]["list"] if old else []:
        later = [next((row[1:] for row in each["list"] if row[0] == identity), None) for each in accepted]
        if kept.get(identity) not in later:
            yield Loss("a conversation", str(shown), str(kept.get(identity)))


def _missing_texts(store: Store, entries: list[Entry]) -> Iterator[Loss]:
    there = {each.id for each in store.conversations()}
    messages = {each.id: each for conversation in there for each in store.messages(conversation)}
    for identity, entry in last_shown(entries).items():
        conversation, _, asked, shown = entry["answer"]
        if conversation not in there:
            continue  # judged by the list
        answer = messages.get(identity)
        if answer is None or answer.parent not in messages or messages[answer.parent].text != asked:
            # An answer that has not begun has nothing of its own: its question brings it back.
            if answer is not None or shown or asked not in {each.text for each in messages.values()}:
                yield Loss("a message", f"{asked} / {shown}")
        elif not holds(answer.text, shown):
            yield Loss("a text", shown, answer.text)

"""What a search of all conversations takes: milliseconds for several kinds of words, in 10,000 messages.

`python -m tests.bench.chat_search --json`. Goal: at most 100 ms. Half of the messages are of eight words only, so that
nearly every message has them all; the others of a language of 20,000 words, as often used as words are.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from app.chat.archive.store import Store
from app.chat.history.records import ConversationRecord, MessageRecord, new_id

FEW = ("river", "stone", "winter", "letter", "garden", "engine", "planet", "orange")
PER_CONVERSATION = 100
WORDS_OF_A_LANGUAGE = 20_000
TRIES = 3


def language(draw: random.Random) -> list[str]:
    """Made-up words, the most used first."""
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    weights = range(len(letters), 0, -1)
    return ["".join(draw.choices(letters, weights, k=draw.randint(2, 9))) for _ in range(WORDS_OF_A_LANGUAGE)]


def fill(store: Store, messages: int, words: Sequence[str], draw: random.Random) -> None:
    """Keep so many messages."""
    weights = [1 / rank for rank in range(1, len(words) + 1)] if len(words) > len(FEW) else None
    for _ in range(messages // PER_CONVERSATION):
        record = ConversationRecord(new_id(), title=" ".join(draw.sample(words, 3)))
        texts = (" ".join(draw.choices(words, weights, k=120)) for _ in range(PER_CONVERSATION))
        store.save(record, [MessageRecord(new_id(), record.id, 0, "assistant", text) for text in texts])


def search_ms(messages: int) -> dict[str, float]:
    """The slowest of a few tries, by what was searched for."""
    draw = random.Random(7)
    words = language(draw)
    queries = {
        "in every message": "river",
        "two": "orange pla",
        "three": "winter garden letter",
        "nowhere": "no-such-word",
        "the most used": words[0],
        "three of the most used": " ".join(words[:3]),
        "a seldom one": words[5000],
        "one letter": "e",
        "two letters": "t a",
    }
    spent: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "chats.sqlite3")
        fill(store, messages // 2, FEW, draw)
        fill(store, messages - messages // 2, words, draw)
        for name, query in queries.items():
            for _ in range(TRIES):
                start = time.perf_counter()
                store.search(query)
                spent[name] = max(spent.get(name, 0.0), (time.perf_counter() - start) * 1000)
        store.close()
    return spent


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    spent = search_ms(options.messages)
    figures = {name: round(value, 1) for name, value in spent.items()} | {"slowest": round(max(spent.values()), 1)}
    if options.json:
        print(json.dumps({"messages": options.messages, "milliseconds": figures}))
    else:
        print("\n".join(f"{name}: {value} ms" for name, value in figures.items()))


if __name__ == "__main__":
    main()

"""What the history of a long conversation takes: memory, file, and the time to keep a round and to find one again.

python -m tests.bench.history [--rounds 10000] [--nodes 64,256,1024] [--json]
"""

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil

from app.chat.archive.store import Store
from app.chat.history.records import ConversationRecord, MessageRecord, RoundPlace
from app.engine.round_packing import pack
from app.tree.rounds.history import History
from engine.protocol.messages import Round
from tests.app.tree.test_history import judged

_DIFFERENT = 200  # rounds that are made; they come again and again
_BATCH = 20  # rounds that are saved together, as 400 ms of a fast pair bring them
_LOOKED_AT = 200
_LINE = (
    "{rounds:,} rounds of {nodes:,} nodes: {memory_mb:.1f} MB in memory ({process_mb:.1f} MB more of the process), "
    "{file_mb:.1f} MB in the file; {keep_us:.0f} us to keep a round, {save_us:.0f} us to save it, "
    "{find_us:.0f} us to find one in memory, {read_us:.0f} us in the file, {list_ms:.0f} ms to list all"
)


def main() -> None:
    """Measure every tree size asked for, and print a line or a JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--nodes", type=lambda text: [int(part) for part in text.split(",")], default=[64, 256, 1024])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [measure(options.rounds, nodes) for nodes in options.nodes]
    if options.json:
        print(json.dumps({"rows": rows}, indent=1))
        return
    for row in rows:
        print(_LINE.format(**row))


def measure(rounds: int, nodes: int) -> dict[str, float]:
    """One conversation of so many rounds, verdicts included."""
    some = [judged(nodes, seed) for seed in range(min(rounds, _DIFFERENT))]
    made = [replace(some[index % len(some)], index=index) for index in range(rounds)]
    before = psutil.Process(os.getpid()).memory_info().rss
    history = History()
    keep_us = _microseconds(lambda: deque(map(history.append, made), maxlen=0), rounds)
    after = psutil.Process(os.getpid()).memory_info().rss
    missing = set(history.missing(0, rounds))
    there = [place for place in range(rounds) if (1, place) not in missing]
    places = random.Random(1).choices(there, k=_LOOKED_AT)  # which ones does not matter
    find_us = _microseconds(lambda: [history.round(place) for place in places], _LOOKED_AT)
    return {
        "rounds": rounds,
        "nodes": nodes,
        "memory_mb": round(history.memory_bytes / 1e6, 1),
        "in_memory": len(there),
        "process_mb": round((after - before) / 1e6, 1),
        "keep_us": round(keep_us, 1),
        "find_us": round(find_us, 1),
        **_measure_file(made),
    }


def _measure_file(made: list[Round]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.sqlite3"
        store = Store(path)
        store.save(ConversationRecord(1), [MessageRecord(2, 1, 0, "assistant", "")])
        places = [RoundPlace(2, 3, each.index, 0, 0, 0) for each in made]
        batches = [range(first, min(first + _BATCH, len(made))) for first in range(0, len(made), _BATCH)]

        def save(batch: range) -> None:
            store.save_rounds(1, [(places[index], pack(made[index])) for index in batch])

        save_us = _microseconds(lambda: deque(map(save, batches), maxlen=0), len(made))
        kept: list[RoundPlace] = []
        list_ms = _microseconds(lambda: kept.extend(store.rounds(1)), 1000)
        wanted = random.Random(1).choices(kept, k=_LOOKED_AT)  # which ones does not matter
        read_us = statistics.median(_microseconds(lambda key=each.key: store.read_rounds([key]), 1) for each in wanted)  # type: ignore[misc]
        store.close()
        size = path.stat().st_size
    return {
        "file_mb": round(size / 1e6, 1),
        "in_file": len(kept),
        "save_us": round(save_us, 1),
        "read_us": round(read_us, 1),
        "list_ms": round(list_ms, 1),
    }


def _microseconds(work: Callable[[], object], times: int) -> float:
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) / times * 1e6


if __name__ == "__main__":
    main()

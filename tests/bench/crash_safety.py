"""Kills the application and its engine at 100 random moments each, and counts what was lost.

`python -m tests.bench.crash_safety --json`. Everything runs as processes of their own, without a screen: the
application with somebody restless in front of it (asks, stops, edits, branches, renames, moves, copies, deletes) and
an engine that streams words, or the real one with the embedded pair. All kills share one database. Goal: no loss, no
damage; what was on the screen for a second is there in the next start. The seeds are 0, 1, 2 and so on.
"""

import argparse
import json
import shlex
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.chat.archive.store import Store
from tests.app.conftest import FAKE_ENGINE
from tests.app.crashes.journal import Loss, read
from tests.app.crashes.killing import Place, kill_application, kill_engines

ENGINES_AT_ONCE = 10  # killed under one application


def kill(place: Place, applications: int, engines: int) -> dict[str, Any]:
    """Kill so many of each, all with the same database; returns what was seen and lost."""
    lost: list[Loss] = []
    started = time.monotonic()
    for seed in range(applications):
        lost += _told("application", seed, kill_application(place, seed))
    for seed in range(0, engines, ENGINES_AT_ONCE):
        lost += _told("engines", seed, kill_engines(place, seed, min(ENGINES_AT_ONCE, engines - seed)))
    entries = [each for journal in place.folder.glob("*.jsonl") for each in read(journal)]
    store = Store(place.database)
    conversations = store.conversations()
    messages = sum(len(store.messages(each.id)) for each in conversations)
    store.close()
    return {
        "applications_killed": applications,
        "engines_killed": engines,
        "conversations_kept": len(conversations),
        "messages_kept": messages,
        "answers_seen": len({each["answer"][1] for each in entries if "answer" in each}),
        "minutes": round((time.monotonic() - started) / 60, 1),
        "lost": [asdict(each) for each in lost],
    }


def _told(what: str, seed: int, lost: list[Loss]) -> list[Loss]:
    print(f"{what} {seed}: {len(lost)} lost", *lost, sep="\n  ", file=sys.stderr, flush=True)
    return lost


def main() -> int:
    """Kill and print; returns 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--applications", type=int, default=100)
    parser.add_argument("--engines", type=int, default=100)
    parser.add_argument("--real", action="store_true", help="with the real engine and the embedded pair")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "engine-python"
        script.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(FAKE_ENGINE))}\n")
        script.chmod(0o755)
        place = Place(Path(folder), None if options.real else script)
        result = kill(place, options.applications, options.engines)
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 1 if result["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())

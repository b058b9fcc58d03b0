"""Provokes every kind of fault many times and counts what became of it: `python -m tests.campaigns.faults`.

Goals: nothing lost, no traceback, no file outside its folder. Each row runs in processes of its own, with little memory
for those that read files of strangers; a process that dies is a failure of the seed at which it died, and the row goes
on behind it. Outcomes are written down as they come: after an interruption the same command goes on where it was, or
begins anew with `--fresh`. `python -m tests.campaigns.faults --only models --first 4711 --count 1` repeats one seed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

from tests.campaigns.fence import Fence
from tests.campaigns.outcome import GOOD, Kind, Outcome, Tally, table

ROOT = Path(__file__).parents[2]
STATE = ROOT / "build" / "faults"
GIB = 1 << 30
MOST_DEATHS = 5  # of one process after the other, each at its first case
SAID_EVERY = 20.0

Cases = Callable[[Path, range], Iterator[Outcome]]


@dataclass(frozen=True, slots=True)
class Row:
    """A fault: how often it is provoked, and what provokes it. `memory_bytes` limits the process, 0 does not."""

    title: str
    count: int
    module: str
    cases: str
    memory_bytes: int = 0


ROWS = {
    "engine": Row("engine killed", 100, "tests.campaigns.kills", "engine_cases"),
    "window": Row("window killed", 100, "tests.campaigns.kills", "window_cases"),
    "real-engine": Row("real engine killed", 8, "tests.campaigns.kills", "real_engine_cases"),
    "real-window": Row("window killed, with the real engine", 8, "tests.campaigns.kills", "real_window_cases"),
    "downloads": Row("downloads dropped", 200, "tests.campaigns.networks", "download_cases"),
    "setups": Row("set-ups of the engine's runtime interrupted", 20, "tests.campaigns.networks", "setup_cases"),
    "memory": Row("engine out of memory", 20, "tests.campaigns.shortage", "memory_cases"),
    "clicks": Row("a restless person at the window", 40, "tests.campaigns.clicks", "click_cases"),
    "models": Row("model folders mutated", 10_000, "tests.campaigns.models", "model_cases", 12 * GIB),
    "chats": Row("chat imports mutated", 10_000, "tests.campaigns.files", "chat_cases", 4 * GIB),
    "recordings": Row("recordings mutated", 10_000, "tests.campaigns.files", "recording_cases", 4 * GIB),
}


def work(name: str, seeds: range, folder: Path) -> None:
    """Run the cases of one row in this process; prints each outcome as a line of JSON."""
    import resource  # POSIX only, like the kills

    row = ROWS[name]
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else prints does not get between the outcomes
    if row.memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (row.memory_bytes, row.memory_bytes))
    cases: Cases = getattr(import_module(row.module), row.cases)
    fence = Fence([folder])
    fence.watch()
    for outcome in cases(folder, seeds):
        crossed = fence.take()
        found = Outcome(outcome.seed, Kind.OUTSIDE, ", ".join(crossed)[:500]) if crossed else outcome
        output.write(json.dumps(asdict(found)) + "\n")
        output.flush()


def run(name: str, seeds: range, folder: Path) -> Iterator[Outcome]:
    """Run the cases of one row in processes; one that dies is followed by one that begins behind its last seed."""
    at, deaths = seeds.start, 0
    while at < seeds.stop and deaths < MOST_DEATHS:
        begun = at
        for outcome in _run_process(name, range(at, seeds.stop), folder):
            yield outcome
            at = outcome.seed + 1
        deaths = deaths + 1 if at == begun + 1 else 0


def _run_process(name: str, seeds: range, folder: Path) -> Iterator[Outcome]:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.campaigns.faults"]
    command += ["--work", name, "--first", str(seeds.start), "--count", str(len(seeds)), "--folder", str(folder)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, env=_environment(folder), stdout=subprocess.PIPE, stderr=errors, text=True
        )
        at = seeds.start
        with process:
            assert process.stdout
            for line in process.stdout:
                entry = json.loads(line)
                at = entry["seed"] + 1
                yield Outcome(entry["seed"], Kind(entry["kind"]), entry["words"])
        if at < seeds.stop:
            errors.seek(0)
            yield Outcome(at, Kind.TRACEBACK, f"its process ended with {process.returncode}: {errors.read()[-600:]}")


def _environment(folder: Path) -> dict[str, str]:
    """Nobody's home, no screen, no network, one thread."""
    own = {"QT_QPA_PLATFORM": "offscreen", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "HF_HOME"):
        own[name] = str(folder / "home" / name.lower())
    for name in ("XDG_RUNTIME_DIR", "TMPDIR"):
        own[name] = str(folder / name.lower()[-6:])
    for path in own.values():
        if path.startswith(str(folder)):
            Path(path).mkdir(parents=True, exist_ok=True, mode=0o700)
    guard = str(ROOT / "tests" / "guard")
    paths = os.pathsep.join(filter(None, (guard, os.environ.get("PYTHONPATH"))))
    return os.environ | own | {"PYTHONPATH": paths, "TOKENIZERS_PARALLELISM": "false"}


def tally(name: str, seeds: range, state: Path) -> Tally:
    """Run what is left of a row and count all of it, told on stderr as it goes."""
    row, record = ROWS[name], state / f"{name}.jsonl"
    found = Tally(row.title, len(seeds))
    at = _recall(record, found, seeds)
    started = told = time.monotonic()
    with record.open("a", encoding="utf-8") as file, tempfile.TemporaryDirectory(prefix=f"coppice-{name}-") as folder:
        for outcome in run(name, range(at, seeds.stop), Path(folder).resolve()):
            now = time.monotonic()
            found.add(outcome)
            file.write(json.dumps({**asdict(outcome), "seconds": round(now - started, 3)}) + "\n")
            file.flush()
            found.seconds, started = found.seconds + now - started, now
            if outcome.kind not in GOOD:
                _say(f"{name} seed {outcome.seed}: {outcome.kind.value}: {outcome.words}")
            if now - told > SAID_EVERY:
                told = now
                _say(f"{name}: {found.count:,} of {found.wanted:,}")
    return found


def _recall(record: Path, found: Tally, seeds: range) -> int:
    """Count what was written down before; returns the first seed that is left."""
    at = seeds.start
    for line in record.read_text("utf-8").splitlines() if record.exists() else []:
        entry = json.loads(line)
        if entry["seed"] == at and at < seeds.stop:
            found.add(Outcome(at, Kind(entry["kind"]), entry["words"]))
            found.seconds += entry["seconds"]
            at += 1
    return at


def _say(words: str) -> None:
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(ROWS), help="this row, instead of all; can be repeated")
    parser.add_argument("--count", type=int, help="cases per row (otherwise as many as the goals name)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs found")
    parser.add_argument("--state", type=Path, default=STATE, help=f"where outcomes are written down (default: {STATE})")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout in place of the table")
    parser.add_argument("--work", choices=list(ROWS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser


def main() -> int:
    """Run the rows and print the table; returns 1 if a goal was missed."""
    options = _parser().parse_args()
    if options.work:
        work(options.work, range(options.first, options.first + options.count), options.folder)
        return 0
    options.state.mkdir(parents=True, exist_ok=True)
    tallies = {}
    for name in options.only or ROWS:
        if options.fresh:
            (options.state / f"{name}.jsonl").unlink(missing_ok=True)
        last = options.first + (options.count or ROWS[name].count)
        tallies[name] = tally(name, range(options.first, last), options.state)
    failures = [{"row": name, **asdict(each)} for name, found in tallies.items() for each in found.failures]
    rows = [each.as_row for each in tallies.values()]
    print(json.dumps({"rows": rows, "failures": failures}, indent=1) if options.json else table(rows))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""What the first load of a model takes on a machine that has compiled nothing, with so many processes that compile.

python -m tests.bench.compiling MODEL [--draft MODEL] [--processes 0,2] [--turns 2] [--cores 1,2,4,6,8] [--json]

Each load is `coppice-engine generate --target MODEL --prompt Hi` with a cache of its own that is empty, in turns. Of
each: the seconds until the model is loaded, those of all processors together, and which pieces of code the load
compiled by itself although other processes had compiled for it. 0 processes: the load compiles all of it, as on one
core. Then every job is done alone, one behind the other in one process, by the processor's clock: from that follows
what compiling takes at least with so many `--cores`, which this machine need not have; none given, none is done.
POSIX only.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from heapq import heapreplace
from pathlib import Path
from typing import Any

from engine.cli.progress import say

LOAD = """
import json, os, resource, sys
from pathlib import Path
from engine.loading.compiling import needed

count, told, cache = int(sys.argv.pop(1)), Path(sys.argv.pop(1)), Path(sys.argv[sys.argv.index("--cache-dir") + 1])

def pieces():
    return sorted(path.name.rpartition("-")[0] for path in cache.rglob("*.nbc"))

class Told(needed.Compilers):
    def __init__(self, jobs, *more):
        (told / "jobs").write_text("\\n".join(jobs))
        super().__init__(jobs, *more)

    def end(self):
        super().end()
        (told / "compiled").write_text(json.dumps(pieces()))

needed.Compilers, needed.how_many = Told, lambda *_: count
sys.argv[0] = "coppice-engine"
from engine.__main__ import main
try:
    main()
finally:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processor = sum(each.ru_utime + each.ru_stime for each in spent)
    (told / "spent").write_text(json.dumps({"processor_seconds": processor, "pieces": pieces()}))
"""

JOBS = """
import json, sys, time
begin = time.process_time()
from pathlib import Path
from engine.model.products import compiling, jobs
compiling.keep_compiled_in(Path(sys.argv[1]))
compiling.has_compiler()
jobs.carry_out("sharing")
found = [("", time.process_time() - begin)]
for job in sys.stdin.read().splitlines():
    begin = time.process_time()
    jobs.carry_out(job)
    found.append((job, time.process_time() - begin))
print(json.dumps(found))
"""


def main() -> None:
    """Measure, and print a table or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--draft", default="")
    parser.add_argument("--processes", default="0,2")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--cores", default="1,2,4,6,8")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    models = ["--target", arguments.model, *(["--draft", arguments.draft] if arguments.draft else [])]
    loads: list[dict[str, Any]] = []
    jobs: Sequence[str] = ()
    for turn in range(arguments.turns):
        for count in map(int, arguments.processes.split(",")):
            say(f"turn {turn + 1}, {count} processes")
            load, wanted = first_load(models, count)
            loads.append(load)
            jobs = wanted or jobs
    seconds = seconds_of(jobs) if jobs and arguments.cores else []
    cores = {count: compiling_seconds(seconds, int(count)) for count in arguments.cores.split(",") if seconds}
    found = {"loads": loads, "jobs": seconds, "cores": cores}
    print(json.dumps(found) if arguments.json else as_text(found))


def first_load(models: Sequence[str], count: int) -> tuple[dict[str, Any], list[str]]:
    """Of one load into an empty cache: what it took, and the jobs that were handed to `count` processes."""
    with tempfile.TemporaryDirectory() as made:
        told = Path(made)
        command = [sys.executable, "-c", LOAD, str(count), made, "generate", *models, "--cache-dir", f"{made}/cache"]
        command += ["--prompt", "Hi", "--max-new-tokens", "4", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        spent = json.loads((told / "spent").read_text())
        by_others = json.loads((told / "compiled").read_text()) if (told / "compiled").exists() else []
        by_itself = Counter(spent["pieces"]) - Counter(by_others)
        answer = json.loads(done.stdout)
        load = {
            "processes": count,
            "load_seconds": answer["seconds"]["load"],
            "processor_seconds": spent["processor_seconds"],
            "pieces": len(spent["pieces"]),
            "by_itself": sorted(by_itself.elements()) if by_others else [],
            "text": answer["text"],
        }
        return load, (told / "jobs").read_text().splitlines() if by_others else []


def seconds_of(jobs: Sequence[str]) -> list[tuple[str, float]]:
    """What each takes behind the others; before them, without a name, what a process takes until it begins."""
    with tempfile.TemporaryDirectory() as made:
        command = [sys.executable, "-c", JOBS, made]
        done = subprocess.run(command, input="\n".join(jobs), capture_output=True, text=True, check=True)
    return [(job, seconds) for job, seconds in json.loads(done.stdout)]


def compiling_seconds(jobs: Sequence[tuple[str, float]], cores: int) -> float:
    """What so many processes take which begin with the first job, and whenever one is done with the next."""
    (_, begin), *others = jobs
    ends = [begin] * cores
    for _, seconds in others:
        heapreplace(ends, ends[0] + seconds)
    return max(ends)


def as_text(found: dict[str, Any]) -> str:
    """Tables."""
    lines = [f"{os.cpu_count()} processors", "processes, seconds of the load, of all processors; compiled by itself"]
    lines += [
        f"{load['processes']:2}  {load['load_seconds']:6.1f}  {load['processor_seconds']:6.1f}  "
        f"{len(load['by_itself'])} of {load['pieces']} {' '.join(load['by_itself'])}"
        for load in found["loads"]
    ]
    lines += ["seconds of each job", *(f"{seconds:6.2f}  {job or '(begin)'}" for job, seconds in found["jobs"])]
    lines += [
        "cores, seconds of compiling",
        *(f"{count:>2}  {seconds:6.1f}" for count, seconds in found["cores"].items()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()

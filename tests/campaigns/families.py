"""Opens a tiny model of every family that transformers has: `python -m tests.campaigns.families`.

Each family runs in a process of its own with little memory and time; the record says what became of it. The same
command goes on behind what is recorded or stands in the table of the docs, or begins anew with `--fresh`; `--only
FAMILY ...` and `--untried` try again. At the end `resources/docs/families.md` and
`engine/model/families/verified_families.py` are written from the record.
POSIX only.
"""

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from tests.engine.family_models import families
from tests.engine.family_proof import Standing, Verdict, judge
from tests.engine.family_table import read_table, write_table, write_verified

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "build" / "families.jsonl"
MEMORY_BYTES = 12 << 30
PROCESSOR_SECONDS = 60
TO_TELL_SECONDS = 5  # between the signal that says why a process ends, and its end


def recall(record: Path) -> dict[str, Verdict]:
    """What the table says, and what was recorded since; the last word on a family counts."""
    found = {row.family: row for row in read_table()}
    for line in record.read_text("utf-8").splitlines() if record.exists() else []:
        entry = json.loads(line)
        found[entry["family"]] = Verdict(**{**entry, "standing": Standing(entry["standing"])})
    return found


def judge_in_process(family: str) -> Verdict:
    """Judge a family in a fork of this process, which has transformers in memory already."""
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory(prefix="coppice-family-") as folder:
        child = os.fork()
        if not child:
            os.close(reader)
            _work(family, Path(folder), writer)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
    if not said:
        code = os.waitstatus_to_exitcode(status)
        why = "it takes too long" if code == -signal.SIGXCPU else f"its process ended with {code}"
        return Verdict(family, Standing.UNTRIED, because=why)
    entry = json.loads(said)
    return Verdict(**{**entry, "standing": Standing(entry["standing"])})


def _work(family: str, folder: Path, writer: int) -> None:
    """Judge, tell, and end this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS + TO_TELL_SECONDS))
    try:
        verdict = judge(family, folder)
    except BaseException as error:  # noqa: BLE001 # whatever it is, it is this family's fault
        lines = str(error).strip().splitlines() or [""]
        verdict = Verdict(family, Standing.OPENS, because=f"{type(error).__name__}: {lines[0]}"[:200])
    with os.fdopen(writer, "w", encoding="utf-8") as pipe:
        json.dump(verdict.as_entry(), pipe)
    os._exit(0)


def run(wanted: Iterable[str], record: Path) -> None:
    """Judge families and record each verdict as it comes."""
    torch.set_num_threads(1)  # forks would wait for threads that they do not have
    with tempfile.TemporaryDirectory(prefix="coppice-family-") as folder:
        judge("llama", Path(folder))  # what is imported here is not imported again by each fork
    record.parent.mkdir(parents=True, exist_ok=True)
    with record.open("a", encoding="utf-8") as file:
        for family in wanted:
            begun = time.monotonic()
            verdict = judge_in_process(family)
            file.write(json.dumps(verdict.as_entry()) + "\n")
            file.flush()
            sys.stderr.write(f"{family}: {verdict.standing} {verdict.because} ({time.monotonic() - begun:.1f} s)\n")


def publish(verdicts: Mapping[str, Verdict]) -> None:
    """Write the table of the docs and the set that the engine knows."""
    rows = [verdicts[family] for family in sorted(verdicts)]
    write_table(rows)
    write_verified(rows)


def main() -> int:
    """Try what is left, then write the table if every family is recorded."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.families", description=__doc__)
    parser.add_argument("--only", nargs="*", default=(), help="try these again")
    parser.add_argument("--untried", action="store_true", help="try those again that could not be tried")
    parser.add_argument("--fresh", action="store_true", help="forget what is recorded")
    arguments = parser.parse_args()
    os.nice(19)
    if arguments.fresh:
        RECORD.unlink(missing_ok=True)
    known, everything = {} if arguments.fresh else recall(RECORD), families()
    if arguments.untried:
        known = {family: verdict for family, verdict in known.items() if verdict.standing is not Standing.UNTRIED}
    run(arguments.only or [family for family in everything if family not in known], RECORD)
    known = {family: verdict for family, verdict in recall(RECORD).items() if family in everything}
    if len(known) < len(everything):
        sys.stderr.write(f"{len(everything) - len(known)} families are left\n")
        return 1
    publish(known)
    return 0


if __name__ == "__main__":
    sys.exit(main())

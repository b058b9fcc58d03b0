"""Mutated model folders, and engines that run out of memory: refused in a sentence, or they work."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from engine.errors import CoppiceError
from tests.campaigns.outcome import Kind, Outcome

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
PATIENCE_SECONDS = 300


def model_cases(folder: Path, seeds: range) -> Iterator[Outcome]:
    """Open one mutated model folder per seed in every way the engine does; a wrong one is refused in a sentence."""
    maker = import_module("tests.engine.model_mutations")
    (folder / "seeds").mkdir(exist_ok=True)
    whole = maker.make_seeds(folder / "seeds")
    for seed in seeds:
        mutated = next(maker.mutations(random.Random(seed), folder, whole))
        try:
            refusal = maker.open_model(mutated.folder)
        except CoppiceError as error:
            refusal = error.message
        except Exception as error:  # noqa: BLE001 # any other is what this looks for
            yield Outcome(seed, Kind.TRACEBACK, f"{mutated.what}: {type(error).__name__}: {error}"[:500])
            continue
        yield Outcome(seed, Kind.TOLD if refusal else Kind.SURVIVED, refusal[:200])


_LIMITED = """
import resource, sys
import engine.engine
from engine.cli import run
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sys.exit(run(sys.argv[1:]))
"""


def memory_cases(folder: Path, seeds: range) -> Iterator[Outcome]:
    """Load and answer with room for a few to a few hundred MiB more than the libraries take."""
    for seed in seeds:
        yield _of_memory(folder, seed)


def _of_memory(folder: Path, seed: int) -> Outcome:
    rng = random.Random(seed)
    room = int(2 ** rng.uniform(2, 9)) * MIB
    place = rng.choice(("device", "ssd", "ram"))
    options = ["--max-new-tokens", "16", "--budget", str(rng.choice((16, 256, 1024))), "--place", place]
    command = [
        sys.executable,
        "-c",
        _LIMITED,
        str(room),
        "generate",
        "--json",
        *options,
        "--prompt",
        "Tell me a story.",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    where = f"{room // MIB} MiB, {place}"
    if "Traceback" in done.stderr or done.returncode < 0:
        return Outcome(seed, Kind.TRACEBACK, f"{where}, exit {done.returncode}: {done.stderr[-400:]}")
    if done.returncode:
        sentence = done.stderr.strip().splitlines()[-1:] or [""]
        kind = Kind.TOLD if "error" in done.stderr else Kind.LOST
        return Outcome(seed, kind, f"{where}, exit {done.returncode}: {sentence[0]}"[:300])
    document = json.loads(done.stdout)
    return Outcome(seed, Kind.SURVIVED if document.get("text") else Kind.LOST, where)

"""Whether another checkout's window and engine are as fast as this one's: both run in turns, five figures of each.

python -m tests.bench.old_and_new OLD [--turns 3] [--only start,gap,tree,pass] [--model DIR] [--json]

`OLD`: a folder with the older code, as `git worktree add` or `git archive` makes it; this checkout is the new one. Both
run under this Python, each with the benchmarks of its own checkout, and in every other turn the new one goes first.

start  milliseconds to the window and to the engine being ready (`packaging/linux/measure_start.sh`: Xvfb, xdotool)
gap    milliseconds to the first paint, and the longest gap of a timer while the engine answers (`tests.bench.ui_gap`)
tree   milliseconds of a new round of 1,024 nodes in the tree panel, each view (`tests.bench.tree_panel`)
pass   how often a pass over a model on SSD lasts as long as reading its bytes does (`generate --place ssd`); `--model`

A figure is the median of its turns. The ends of the turns are told too: what differs by less than they do says nothing.
"""

import argparse
import json
import mmap
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

NEW = Path(__file__).resolve().parents[2]
ALLOWED = 1.05  # of the older figure
PASSES = 8
STARTS = 2  # in a turn, behind one that is not counted
BLOCK = 1 << 22  # bytes of one direct read

Figures = dict[str, float]
Measure = Callable[[Path, Path, argparse.Namespace], Figures]


def start(checkout: Path, scratch: Path, _options: argparse.Namespace) -> Figures:
    """A start as a person sees it; the script's own bounds are not of interest here."""
    program = scratch / "program.sh"
    program.write_text(f'#!/bin/sh\ncd "{checkout}" && exec "{sys.executable}" -m app "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    measure = str(NEW / "packaging/linux/measure_start.sh")
    command = ["bash", measure, str(program), str(scratch / "data"), "--times", str(STARTS)]
    said = subprocess.run(command, cwd=checkout, env=_as_installed(), check=False, capture_output=True, text=True)
    found = re.search(r"median: window after (\d+) ms, engine ready after (\d+) ms", said.stdout)
    if found is None:
        sys.exit(f"error: no start of {checkout} was measured.\n{said.stdout}{said.stderr}")
    return {"window_ms": float(found[1]), "engine_ready_ms": float(found[2])}


def gap(checkout: Path, _scratch: Path, _options: argparse.Namespace) -> Figures:
    """The first paint, and how long the window was deaf during two answers."""
    found = _json_of(checkout, "tests.bench.ui_gap", "--answers", "2", "--json")
    return {name: found[name] for name in ("first_paint_ms", "longest_gap_loading_ms", "longest_gap_answering_ms")}


def tree(checkout: Path, _scratch: Path, _options: argparse.Namespace) -> Figures:
    """Processor milliseconds of an update in each view."""
    rows = _json_of(checkout, "tests.bench.tree_panel", "--nodes", "1024", "--updates", "40", "--json")["rows"]
    return {f"tree_{row['view']}_ms": row["median_cpu_ms"] for row in rows}


def streamed(checkout: Path, scratch: Path, options: argparse.Namespace) -> Figures:
    """Seconds of a pass over those of reading its bytes alone, which is done before and after."""
    if options.model is None:
        sys.exit("error: --model names the folder of the model that is streamed.")
    alone = [_direct_rate(options.model)]
    asked = ("--token-ids", "1,2,3,4,5,6,7,8", "--max-new-tokens", str(PASSES), "--ignore-eos", "--context", "256")
    ways = ("--draft", "none", "--method", "none", "--place", "ssd", "--json")
    model = ("--target", str(options.model.resolve()))
    found = _json_of(checkout, "engine", "generate", *model, *ways, *asked, XDG_CACHE_HOME=str(scratch))
    alone.append(_direct_rate(options.model))
    passes = found["passes"]
    seconds, read = found["seconds"]["target"] / passes, found["bytes_streamed"] / passes
    return {"pass_seconds": seconds, "pass_over_limit": seconds / (read / statistics.mean(alone))}


MEASURES: dict[str, Measure] = {"start": start, "gap": gap, "tree": tree, "pass": streamed}


def _json_of(checkout: Path, module: str, *arguments: str, **variables: str) -> dict[str, Any]:
    environment = {"QT_QPA_PLATFORM": "offscreen", **_as_installed(), **variables}
    command = [sys.executable, "-m", module, *arguments]
    said = subprocess.run(command, cwd=checkout, env=environment, check=False, capture_output=True, text=True)
    if said.returncode:
        sys.exit(f"error: {module} of {checkout} ended with {said.returncode}.\n{said.stderr}")
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def _as_installed() -> dict[str, str]:
    """The environment, with bytecode and a screen: a program does not compile every module at every start."""
    return {
        key: value for key, value in os.environ.items() if key not in ("PYTHONDONTWRITEBYTECODE", "QT_QPA_PLATFORM")
    }


def _direct_rate(model: Path) -> float:
    """Bytes per second of the model's weights, read from the disk with nothing else going on."""
    file = max(model.glob("*.safetensors"), key=lambda each: each.stat().st_size)
    block, total = mmap.mmap(-1, BLOCK), 0  # begins at a page, as direct reads want it
    with open(file, "rb", buffering=0, opener=lambda path, flags: os.open(path, flags | os.O_DIRECT)) as source:
        begin = time.perf_counter()
        while got := source.readinto(block):
            total += got
        return total / (time.perf_counter() - begin)


def compare(old: Path, names: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """Every figure of both checkouts: median and ends of all turns, and the new one over the old one."""
    sides, turns = {"old": old, "new": NEW}, []
    with tempfile.TemporaryDirectory() as folder:
        scratch = {side: Path(folder) / side for side in sides}
        for each in scratch.values():
            each.mkdir()
        for turn in range(options.turns):
            order = list(sides) if turn % 2 == 0 else list(reversed(sides))
            for name in names:
                turns += [(side, MEASURES[name](sides[side], scratch[side], options)) for side in order]
    figures = dict.fromkeys(figure for _, found in turns for figure in found)
    return {figure: _compared(figure, turns) for figure in figures}


def _compared(figure: str, turns: Sequence[tuple[str, Figures]]) -> dict[str, Any]:
    of = {side: sorted(found[figure] for where, found in turns if where == side and figure in found)
          for side in ("old", "new")}  # fmt: skip
    old, new = (statistics.median(of[side]) for side in ("old", "new"))
    return {**of, "old_median": old, "new_median": new, "ratio": new / old, "is_as_fast": new <= ALLOWED * old}


def main() -> None:
    """Measure, and print a table or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="the folder of the older code")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="start,gap,tree", help="of " + ",".join(MEASURES))
    parser.add_argument("--model", type=Path, help="a folder with a model's weights, on the disk that is measured")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = compare(options.old.resolve(), options.only.split(","), options)
    if options.json:
        print(json.dumps(found))
        return
    for name, row in found.items():
        spread = ", ".join(f"{side} {row[side][0]:.4g} to {row[side][-1]:.4g}" for side in ("old", "new"))
        print(f"{name}: {row['old_median']:.4g} -> {row['new_median']:.4g}, x {row['ratio']:.3f} ({spread})")


if __name__ == "__main__":
    main()

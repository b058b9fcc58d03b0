"""Everything that only a GPU can show, in one command: passes, answers and memory of 70B and 30B shapes from RAM.

python -m tests.bench.cuda [--json] [--folder DIR] [--only 70b,30b] [--scale 1.0] [--budgets 1,16,64,256,1024] [--noise]
python -m tests.bench.cuda --device cpu --scale small     the same code, without a GPU

The models are made here, and write the embedded target's text, so that trees are accepted as they are in use; their
vocabulary is the embedded pair's. 70b needs some 40 GB of RAM and of disk (NF4), 30b some 60 GB of RAM (bfloat16).
Every model has a process of its own, whose peaks of memory are compared with what the plan said.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from engine import accelerator
from engine.cli.session import Session
from engine.errors import CoppiceError
from engine.loading.planning import Question, plan_pair
from engine.loading.rates import benchmark_of
from engine.loading.store import cache_root
from engine.model.checkpoint import open_checkpoint
from engine.model.device import choose_device
from engine.protocol.messages import ChatMessage
from engine.protocol.options import GenerateOptions, LoadOptions, Place, SpeculationOptions
from engine.weights.planning.machine import peak_rss_bytes, process_bytes
from engine.weights.planning.placement import Override, Plan
from tests.bench.grown import SHAPES, grow
from tests.bench.inflate import EMBEDDED

DRAFT = EMBEDDED.parent / "demo-draft"
WEIGHTS = {"70b": "nf4", "30b": "bfloat16"}
SCALES = {"small": 0.04, "full": 1.0}
CONTEXT = 1024
FLAT = 1.05  # a pass over a tree that takes no more than so many times a pass over one token costs nothing
PROMPT = (ChatMessage("user", "Tell me a story about a dragon."),)


def main() -> None:
    """Measure, and print one JSON document."""
    arguments = _parser().parse_args()
    if arguments.one:
        json.dump(measure(arguments.one, _options(arguments), _budgets(arguments), arguments.passes), sys.stdout)
        return
    found: dict[str, Any] = {"machine": _machine(arguments.device), "models": []}
    for name in arguments.only.split(","):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
            grow(Path(scratch) / "model", SHAPES[name].scaled(_scale(arguments.scale)), arguments.noise)
            found["models"].append({"name": name, **_in_its_own_process(name, scratch, arguments)})
    json.dump(found, sys.stdout, indent=None if arguments.json else 2)
    sys.stdout.write("\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="70b,30b", help="which shapes")
    parser.add_argument("--scale", default="full", help="a part of the shapes' width and depth, or 'small' or 'full'")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--place", default="", help="where the layers are (default: ram on a GPU, ssd without one)")
    parser.add_argument("--budgets", default="1,16,64,256,1024")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--noise", action="store_true", help="random weights instead of zeros: much more disk")
    parser.add_argument("--folder", type=Path, default=None, help="where models are made")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, default=None, help=argparse.SUPPRESS)
    return parser


def measure(name: str, options: LoadOptions, budgets: Sequence[int], passes: int) -> dict[str, Any]:
    """All figures of the model that `options` loads; to be called once in a process."""
    plan = planned(options)
    if options.device == "cuda":
        torch.cuda.reset_peak_memory_stats()  # measuring the machine is no part of the plan
    before = process_bytes()
    session = Session(options, quiet=False)
    try:
        rows = list(pass_rows(session, plan, budgets, passes))
        answers = [answer(session, budget) for budget in (0, *budgets)]
    finally:
        session.engine.close()
    assert session.loaded
    told = dict(asdict(plan.forecast), seconds_per_pass=plan.forecast.seconds_per_pass)
    return {
        "shape": asdict(session.loaded.target),
        "weights": WEIGHTS[name],
        "placement": {tier: session.loaded.tiers.count(tier) for tier in ("device", "ram", "ssd")},
        "load_seconds": session.load_seconds,
        "predicted": told,
        "passes": rows,
        "flat_up_to_rows": flat_up_to(rows),
        "answers": answers,
        "memory": _memory(plan, before),
    }


def planned(options: LoadOptions) -> Plan:
    """The plan of what will be loaded, with this machine's rates, measured now."""
    device = choose_device(options.device)
    target, draft = open_checkpoint(options.target), open_checkpoint(options.draft)
    rates = benchmark_of(target, options.weights, device, cache_root(options)).measure(lambda: None).rates
    override = Override(options.place, force=options.force)
    question = Question(options.weights, options.context_tokens, options.budget, rates=rates, override=override)
    return plan_pair(target, draft, device, question)


def pass_rows(session: Session, plan: Plan, budgets: Sequence[int], passes: int) -> Iterator[dict[str, Any]]:
    """Seconds of a pass over one token and over trees of every budget, against moving the weights alone."""
    context = session.engine.target
    transfer = max(plan.forecast.link_seconds, plan.forecast.ssd_seconds)
    context.prefill([100 + number % 1000 for number in range(CONTEXT // 2)])
    for rows in (1, *(budget + 1 for budget in budgets)):
        tokens, parents = [200 + number % 1000 for number in range(rows)], [-1] + [0] * (rows - 1)
        seconds = []
        for _ in range(passes + 1):  # pass upon pass: but for the first, none finds more there than usual
            begin = time.perf_counter()
            context.score(tokens, parents)
            seconds.append(time.perf_counter() - begin)
            context.rewind(CONTEXT // 2)
        median = statistics.median(seconds[1:])
        yield {
            "rows": rows,
            "seconds": median,
            "transfer_seconds": transfer,
            "seconds_over_transfer": median / transfer if transfer else None,
        }


def flat_up_to(rows: Sequence[dict[str, Any]]) -> int:
    """The most rows whose pass, and that of all fewer rows, takes hardly longer than one over a single row."""
    most = 0
    for row in rows:
        if row["seconds"] > FLAT * rows[0]["seconds"]:
            break
        most = row["rows"]
    return most


def answer(session: Session, budget: int) -> dict[str, Any]:
    """One answer with trees of `budget` nodes; 0 for none."""
    speculation = SpeculationOptions(method="specexec" if budget else "none", budget=budget)
    options = GenerateOptions(speculation=speculation, max_new_tokens=64 if budget else 4, ignore_eos=True)
    found = session.collect(session.engine.prompt(PROMPT), options).statistics
    return {
        "budget": budget,
        "tokens_per_pass": found.tokens_per_pass,
        "tokens_per_second": found.tokens_per_second,
        "seconds_per_pass": found.seconds.decode / found.passes,
        "draft_seconds": found.seconds.draft / found.passes,
        "hidden_draft_seconds": found.seconds.hidden_draft / found.passes,
        "bytes_streamed_per_pass": found.bytes_streamed / found.passes,
        "stream_gb_per_second": found.stream_gb_per_second,
    }


def _memory(plan: Plan, before: int) -> dict[str, Any]:
    """The process's peaks, and the plan's word for them."""
    predicted = {
        "peak_rss_bytes": before + plan.room.ram_taken(plan.bytes.device, plan.bytes.ram),
        "peak_vram_bytes": 0 if plan.room.shared else plan.bytes.device,
    }
    real = {"peak_rss_bytes": peak_rss_bytes(), "peak_vram_bytes": accelerator.peak_bytes()}
    return {
        name: {"predicted": predicted[name], "real": real[name], "predicted_over_real": predicted[name] / real[name]}
        for name in predicted
        if real[name]
    }


def _in_its_own_process(name: str, scratch: str, arguments: argparse.Namespace) -> dict[str, Any]:
    same = ["--device", arguments.device, "--budgets", arguments.budgets, "--passes", str(arguments.passes)]
    command = [sys.executable, "-m", "tests.bench.cuda", "--one", name, "--scratch", scratch, *same]
    run = subprocess.run([*command, "--place", arguments.place], stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode:
        return {"error": f"the process ended with {run.returncode}; its last words are above"}
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def _options(arguments: argparse.Namespace) -> LoadOptions:
    place: Place = arguments.place or ("ssd" if arguments.device == "cpu" else "ram")
    return LoadOptions(
        target=str(arguments.scratch / "model"),
        draft=str(DRAFT),
        device=arguments.device,
        weights=WEIGHTS[arguments.one],
        context_tokens=CONTEXT,
        place=place,
        cache_dir=str(arguments.scratch / "cache"),
        budget=max(_budgets(arguments)),
    )


def _budgets(arguments: argparse.Namespace) -> list[int]:
    return [int(budget) for budget in arguments.budgets.split(",")]


def _scale(text: str) -> float:
    return SCALES[text] if text in SCALES else float(text)


def _machine(device: str) -> dict[str, Any]:
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    try:
        main()
    except CoppiceError as error:
        raise SystemExit(f"error: {error}") from error

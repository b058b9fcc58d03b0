"""Everything that only a GPU can show, in one command: passes, answers and memory of 70B and 30B shapes from RAM.

python -m tests.bench.cuda [--json] [--folder DIR] [--only 70b,30b] [--scale 1.0] [--budgets 1,16,64,256,1024]
    [--noise] [--rival] [--layers N] [--seconds S]
python -m tests.bench.cuda --device cpu --scale small     the same code, without a GPU

The models are made here, and write the embedded target's text, so that trees are accepted as they are in use; their
vocabulary is the embedded pair's. 70b needs some 40 GB of RAM and of disk (NF4), 30b some 60 GB of RAM (bfloat16).
Every model has a process of its own, whose peaks of memory are compared with what the plan said.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from engine import accelerator
from engine.cli.session import Session
from engine.errors import CoppiceError
from engine.loading.measurements.benchmark import benchmark_of
from engine.loading.planning import Question, plan_pair
from engine.loading.store import cache_root
from engine.model.checkpoint import open_checkpoint
from engine.model.device import choose_device
from engine.protocol.messages import ChatMessage
from engine.protocol.options import GenerateOptions, LoadOptions, Place, SpeculationOptions
from engine.weights.planning.machine import peak_rss_bytes, process_bytes
from engine.weights.planning.placement import Override, Plan
from tests.bench.folders import made_folder
from tests.bench.grown import OWN_LAYERS, SHAPES, Shape, grow
from tests.bench.inflate import EMBEDDED
from tests.bench.time_budget import run_limited

DRAFT = EMBEDDED.parent / "demo-draft"
WEIGHTS = {"70b": "nf4", "30b": "bfloat16"}
SCALES = {"small": 0.04, "full": 1.0}
CONTEXT = 1024
FIGURES = "figures.json"
FLAT = 1.05  # a pass over a tree that takes no more than so many times a pass over one token costs nothing
PROMPT = (ChatMessage("user", "Tell me a story about a dragon."),)


@dataclass(frozen=True, slots=True)
class ModelRun:
    """How one model is measured. `layers` bounds the shape's own (0: all), `seconds` what the measuring may take."""

    name: str
    device: str = "cuda"
    place: str = ""
    scale: float = 1.0
    layers: int = 0
    budgets: tuple[int, ...] = (1, 16, 64, 256, 1024)
    passes: int = 3
    new_tokens: int = 64
    rival: bool = False
    noise: bool = False
    seconds: float = math.inf

    @property
    def shape(self) -> Shape:
        """What is made."""
        shape = SHAPES[self.name].scaled(self.scale)
        return replace(shape, layers=min(shape.layers, max(self.layers, OWN_LAYERS))) if self.layers else shape


def main() -> None:
    """Measure, and print one JSON document."""
    arguments = _parser().parse_args()
    if arguments.one:
        fields = json.loads(arguments.one)
        measure(ModelRun(**{**fields, "budgets": tuple(fields["budgets"])}), arguments.scratch)
        return
    found: dict[str, Any] = {"machine": _machine(arguments.device), "models": []}
    for name in arguments.only.split(","):
        run = ModelRun(
            name,
            arguments.device,
            arguments.place,
            _scale(arguments.scale),
            arguments.layers,
            tuple(int(budget) for budget in arguments.budgets.split(",")),
            arguments.passes,
            rival=arguments.rival,
            noise=arguments.noise,
            seconds=arguments.seconds,
        )
        found["models"].append(measure_apart(run, arguments.folder))
    json.dump(found, sys.stdout, indent=None if arguments.json else 2)
    sys.stdout.write("\n")


def measure_apart(run: ModelRun, folder: Path | None) -> dict[str, Any]:
    """Make the model in `folder`, and measure it in a process of its own; the figures that came within `run.seconds`.

    An entry `error` says in words why some lack.
    """
    with tempfile.TemporaryDirectory(dir=folder) as made:
        scratch, begin = Path(made), time.monotonic()
        grow(scratch / "model", run.shape, run.noise)
        command = [sys.executable, "-m", "tests.bench.cuda", "--scratch", made, "--one", json.dumps(asdict(run))]
        ended = run_limited(command, max(1.0, run.seconds - (time.monotonic() - begin)), scratch / "output.txt")
        sys.stderr.write(ended.output)
        figures = scratch / FIGURES
        found = json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else {}
        return {"name": run.name, **found, **({"error": ended.trouble} if ended.trouble else {})}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="70b,30b", help="which shapes")
    parser.add_argument("--scale", default="full", help="a part of the shapes' width and depth, or 'small' or 'full'")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--place", default="", help="where the layers are (default: ram on a GPU, ssd without one)")
    parser.add_argument("--budgets", default="1,16,64,256,1024")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--noise", action="store_true", help="random weights instead of zeros: much more disk")
    parser.add_argument("--folder", type=made_folder, default=None, help="where models are made")
    parser.add_argument("--layers", type=int, default=0, help="no more layers than these (default: all of the shape)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="how long each model may take")
    parser.add_argument("--rival", action="store_true", help="time accelerate's offload, too")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", type=Path, default=None, help=argparse.SUPPRESS)
    return parser


def measure(run: ModelRun, scratch: Path) -> dict[str, Any]:
    """All figures of the model in `scratch`; to be called once in a process. A file there has all known so far."""
    options = _options(run, scratch)
    plan = planned(options)
    if options.device == "cuda":
        torch.cuda.reset_peak_memory_stats()  # measuring the machine is no part of the plan
    before = process_bytes()
    session = Session(options, quiet=False)
    assert session.loaded
    told = dict(asdict(plan.forecast), seconds_per_pass=plan.forecast.seconds_per_pass)
    found: dict[str, Any] = {
        "shape": asdict(session.loaded.target),
        "weights": WEIGHTS[run.name],
        "layers_of_shape": [run.shape.layers, SHAPES[run.name].layers],
        "placement": {tier: session.loaded.tiers.count(tier) for tier in ("device", "ram", "ssd")},
        "load_seconds": session.load_seconds,
        "predicted": told,
        "passes": [],
        "answers": [],
    }
    try:
        for row in pass_rows(session, plan, run.budgets, run.passes):
            found["passes"].append(row)
            found["flat_up_to_rows"] = flat_up_to(found["passes"])
            _keep(found, scratch)
        for budget in (0, *run.budgets):
            tree = SpeculationOptions(method="specexec" if budget else "none", budget=budget)
            found["answers"].append({"budget": budget, **answer(session, tree, run.new_tokens)})
            _keep(found, scratch)
        found["auto"] = answer(session, SpeculationOptions(), run.new_tokens)
    finally:
        session.engine.close()
    found["memory"] = _memory(plan, before)
    _keep(found, scratch)
    if run.rival:
        found["accelerate"] = offloaded_pass(scratch, run)
        _keep(found, scratch)
    return found


def _keep(found: dict[str, Any], scratch: Path) -> None:
    """Whatever ends the process later, these figures are there."""
    (scratch / "kept.json").write_text(json.dumps(found), encoding="utf-8")
    (scratch / "kept.json").replace(scratch / FIGURES)


def offloaded_pass(scratch: Path, run: ModelRun) -> dict[str, Any]:
    """Seconds a layer of a pass over one token with accelerate's `cpu_offload`, in bfloat16, over a few layers."""
    from accelerate import cpu_offload
    from transformers import AutoModelForCausalLM

    shape = replace(run.shape, layers=OWN_LAYERS)
    folder = grow(scratch / "rival", shape)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    cpu_offload(network, execution_device=torch.device(run.device))
    ids, seconds = torch.tensor([[100]], device=run.device), []
    with torch.inference_mode():
        for _ in range(run.passes + 1):
            begin = time.perf_counter()
            network(input_ids=ids, use_cache=False).logits.cpu()
            seconds.append(time.perf_counter() - begin)
    return {"layers": shape.layers, "seconds_per_layer": statistics.median(seconds[1:]) / shape.layers}


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


def answer(session: Session, speculation: SpeculationOptions, new_tokens: int) -> dict[str, Any]:
    """The second of two equal answers; without a tree but a few tokens, as all passes are alike.

    The first, of which only the seconds of a pass are told, records the draft's graphs and has kernels loaded.
    """
    count = new_tokens if speculation.method != "none" else 4
    options = GenerateOptions(speculation=speculation, max_new_tokens=count, ignore_eos=True)
    first, found = (session.collect(session.engine.prompt(PROMPT), options).statistics for _ in range(2))
    return {
        "tokens_per_pass": found.tokens_per_pass,
        "tokens_per_second": found.tokens_per_second,
        "first_seconds_per_pass": first.seconds.decode / first.passes,
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


def _options(run: ModelRun, scratch: Path) -> LoadOptions:
    place: Place = run.place or ("ssd" if run.device == "cpu" else "ram")  # type: ignore[assignment]
    return LoadOptions(
        target=str(scratch / "model"),
        draft=str(DRAFT),
        device=run.device,
        weights=WEIGHTS[run.name],
        context_tokens=CONTEXT,
        place=place,
        cache_dir=str(scratch / "cache"),
        budget=max(run.budgets),
    )


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

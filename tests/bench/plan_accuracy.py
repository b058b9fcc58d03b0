"""What `plan` predicts against what happens: seconds per pass, from SSD and in memory, the peak of memory, every way.

python -m tests.bench.plan_accuracy [--gigabytes 1.5] [--rows 1,65] [--folder DIR] [--only speed,memory,ways] [--json]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from engine.errors import Cancellation
from engine.idle_threads import let_idle_threads_sleep
from engine.loading.loading import LoadedTarget, load_planned, plan_target
from engine.loading.measurements.benchmark import benchmark_of
from engine.loading.planning import Question, plan_pair
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.device import choose_device
from engine.protocol.options import LoadOptions, Place
from engine.weights.planning.needs import Workload
from engine.weights.planning.placement import Override
from tests.bench.folders import made_folder
from tests.bench.inflate import EMBEDDED, inflate
from tests.bench.plan_prompts import CHOSEN
from tests.bench.plan_ways import PLACES, ways_table
from tests.bench.steady_disk import steady_disk
from tests.engine.tiny_models import tiny_model

DRAFT = EMBEDDED.parent / "demo-draft"
CONTEXT = 512
FAMILIES = ("gemma3", "mixtral", "gpt_oss")
MEMORY_MODEL_BYTES = 600 << 20

Result = TypeVar("Result")


def main() -> None:
    """Measure, and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.5, help="bytes of the decoder layers, for the speed")
    parser.add_argument("--rows", default="1,65", help="tokens per pass")
    parser.add_argument("--weights", default="bfloat16", help="bfloat16,nf4,...")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", default="speed,memory")
    parser.add_argument("--folder", type=made_folder, default=None, help="where models are made (a real disk)")
    parser.add_argument(
        "--places", type=lambda text: text.split(","), default=PLACES, help="of the ways: device, ram, ssd, with commas"
    )
    parser.add_argument("--models", default="dense,mixture", help="of the ways; or folders of models")
    parser.add_argument("--kinds", default="stories,mixed", help="of prompts, of the ways")
    parser.add_argument(
        "--prompts", choices=list(CHOSEN), default="same", help="measured with: those that were learned from, or others"
    )
    parser.add_argument("--tokens", type=int, default=192, help="of an answer at most, of the ways")
    parser.add_argument("--megabytes", type=int, default=600, help="of the decoder layers, of the ways")
    parser.add_argument("--rate", type=float, default=0.0, help="GB/s that the disk is held to, of the ways")
    parser.add_argument("--kept", type=Path, default=None, help="where models of the ways stay for another run")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="take all times by the processor's clock: on a busy machine, for what waits for no disk",
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.processor_time:
        time.perf_counter = time.process_time
    found: dict[str, Any] = {"device": arguments.device, "threads": torch.get_num_threads()}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        if "speed" in arguments.only:
            model = inflate(Path(scratch) / "model", int(arguments.gigabytes * 1e9))
            os.sync()  # or the disk would still be writing while it is measured
            rows = [int(rows) for rows in arguments.rows.split(",")]
            found["speed"] = [
                row
                for weights in arguments.weights.split(",")
                for row in speed(model, Path(scratch), weights, arguments.device, rows, arguments.passes)
            ]
        if "memory" in arguments.only:
            found["memory"] = list(memory(Path(scratch), arguments.device))
        if "ways" in arguments.only:
            found |= _ways(arguments, arguments.kept or Path(scratch))
    json.dump(found, sys.stdout, indent=None if arguments.json else 2)
    sys.stdout.write("\n")


def _ways(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    weights = ["auto" if each == "bfloat16" else each for each in arguments.weights.split(",")]
    late: list[bool] = []
    with ExitStack() as stack:
        if arguments.rate:
            late = stack.enter_context(steady_disk(arguments.rate * 1e9))
        table = ways_table(
            scratch,
            arguments.megabytes << 20,
            arguments.device,
            weights,
            arguments.models.split(","),
            arguments.places,
            arguments.kinds.split(","),
            arguments.tokens,
            arguments.prompts,
        )
        rows = list(table)
    return {"ways": rows, "late": sum(late) / max(len(late), 1)}


def speed(
    model: Path, cache: Path, weights: str, device_name: str, row_counts: Sequence[int], passes: int
) -> Iterator[dict[str, Any]]:
    """Predicted and real seconds of a pass, per place and number of rows; measures the machine anew."""
    device = choose_device(device_name)
    target, draft = open_checkpoint(str(model)), open_checkpoint(str(DRAFT))
    bench = benchmark_of(target, weights, device, cache)
    places: tuple[Place, ...] = ("ssd", "device") if device.type == "cpu" else ("ssd", "ram", "device")
    for place in places:
        options = LoadOptions(str(model), device=device_name, weights=weights, place=place, cache_dir=str(cache))
        begin = time.perf_counter()
        before = bench.measure(lambda: None).rates
        measuring_seconds = time.perf_counter() - begin
        real = real_seconds(options, device, row_counts, passes)
        after = bench.measure(lambda: None).rates
        rates = replace(before, ssd=(before.ssd + after.ssd) / 2)  # shared and virtual disks drift within a minute
        for rows in row_counts:
            question = Question(weights, CONTEXT, rows - 1, rates=rates, override=Override(place, force=True))
            predicted = plan_pair(target, draft, device, question).forecast
            yield {
                "weights": weights,
                "place": place,
                "rows": rows,
                "predicted_seconds": predicted.seconds_per_pass,
                "predicted_compute_seconds": predicted.compute_seconds,
                "predicted_link_seconds": predicted.link_seconds,
                "predicted_ssd_seconds": predicted.ssd_seconds,
                "seconds": real[rows],
                "predicted_over_real": predicted.seconds_per_pass / real[rows],
                "ssd_gb_per_second": [before.ssd, after.ssd],
                "measuring_seconds": measuring_seconds,
            }


def real_seconds(
    options: LoadOptions, device: torch.device, row_counts: Sequence[int], passes: int
) -> dict[int, float]:
    """The median of passes, one upon the other so that no first layers are there for nothing, behind a full context."""
    loaded = loaded_target(options, device)
    context = Context(loaded.network, Workload(CONTEXT, max(row_counts)).slots)
    context.prefill([100 + number for number in range(CONTEXT)])
    found = {}
    for rows in row_counts:
        seconds = []
        for _ in range(passes + 1):
            begin = time.perf_counter()
            context.score(list(range(200, 200 + rows)), [-1] + [0] * (rows - 1))
            seconds.append(time.perf_counter() - begin)
            context.rewind(CONTEXT)
        found[rows] = statistics.median(seconds[1:])
    loaded.close()
    return found


def loaded_target(options: LoadOptions, device: torch.device) -> LoadedTarget:
    """A target as planned with these options; whoever asks for it closes it."""
    checkpoint, cancellation = open_checkpoint(options.target), Cancellation()
    cancellation.begin(1)
    plan = _result(plan_target(1, checkpoint, None, options, device, cancellation))
    return _result(load_planned(1, checkpoint, plan, options, device, cancellation))


def _result(steps: Generator[Any, None, Result]) -> Result:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def memory(scratch: Path, device: str) -> Iterator[dict[str, Any]]:
    """Predicted and real peaks of fresh processes that load and answer."""
    large = inflate(scratch / "large", MEMORY_MODEL_BYTES)
    pairs: list[tuple[str, Path, str, tuple[str, ...]]] = [("embedded", EMBEDDED, "float32", ())]
    pairs += [(f"large on {place}", large, "bfloat16", ("--place", place)) for place in ("device", "ssd")]
    pairs += [("large in 4 bits", large, "nf4", ("--place", "ram"))]
    pairs += [(f"large, trees of {budget}", large, "bfloat16", ("--budget", budget)) for budget in ("256", "2048")]
    pairs += [(family, tiny(scratch, family), "float32", ()) for family in FAMILIES]
    for name, target, weights, options in pairs:
        print(name, file=sys.stderr, flush=True)
        yield {"pair": name, **peaks(target, [*options, "--weights", weights, "--device", device])}


def tiny(scratch: Path, family: str) -> Path:
    """A tiny random model of the family with the embedded tokenizer."""
    folder = scratch / family
    tiny_model(family, vocab_size=4096).save_pretrained(folder)
    for path in EMBEDDED.glob("*token*"):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def peaks(target: Path, options: list[str]) -> dict[str, Any]:
    """Predicted and real peaks of a process that loads `target` with the embedded draft and answers a long prompt."""
    pair = ["--target", str(target), "--draft", str(DRAFT), "--context", str(CONTEXT), *options, "--json"]
    prompt = ",".join(str(100 + number) for number in range(CONTEXT - 64))
    answer = ["--token-ids", prompt, "--max-new-tokens", "60", "--ignore-eos"]
    planned = _engine(["plan", *pair])["predicted"]
    real = _engine(["generate", *pair, *answer])
    return {
        name: {"predicted": planned[name], "real": real[name], "predicted_over_real": planned[name] / real[name]}
        for name in ("peak_rss_bytes", "peak_vram_bytes")
        if real[name]
    }


def _engine(arguments: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "engine", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(run.stderr)
    document: dict[str, Any] = json.loads(run.stdout)
    return document


if __name__ == "__main__":
    asleep = dict(os.environ)
    let_idle_threads_sleep(asleep)
    if asleep != os.environ:  # it counts from torch's import on
        os.execve(sys.executable, [sys.executable, "-m", "tests.bench.plan_accuracy", *sys.argv[1:]], asleep)
    main()

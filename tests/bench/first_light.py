"""All that a first GPU can tell, in one command of at most 20 minutes, as one page with pictures.

python -m tests.bench.first_light --out DIR [--minutes 20] [--folder DIR] [--only tests,30b]
python -m tests.bench.first_light --out DIR --device cpu --quick     a rehearsal of the same code, on tiny shapes

The page has the tests that need a GPU, compute-sanitizer's word where it is installed, how fast every packed format is
decoded there, and figures of `tests.bench.cuda`: layers in the shape of a 30B (bfloat16) and a 70B (NF4), as many as
memory and time allow. Steps share the time; what did not fit is said on the page. Without a GPU: exit code 2.

Needed are torch, transformers, accelerate, tokenizers, safetensors, jinja2, numba, psutil, and pytest with xdist and
hypothesis. Without bitsandbytes, gguf or compressed-tensors what needs them is left out, without PySide6 the pictures.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import torch

from engine.cli.progress import say
from tests.bench import formats
from tests.bench.cuda import WEIGHTS, ModelRun, measure_apart
from tests.bench.first_light_page import MODELS, machine, write_page
from tests.bench.folders import made_folder
from tests.bench.grown import HEAD_DIM, OWN_LAYERS, SHAPES, Shape
from tests.bench.time_budget import Outcome, Step, run_limited, run_steps

ROOT = Path(__file__).parents[2]
SANITIZED = "tests/engine/weights/test_stream_cuda.py::test_every_family_from_every_place[llama]"
MARK = "pytest.mark" + ".gpu"  # of tests that need one; written so that this file has none
# The suite's options, but for those that need plugins, such as pytest-qt, or stop at what they do not know. Warnings of
# other versions of libraries are no errors here.
LENIENT = ("-o", "addopts=", "-o", "filterwarnings=default", "--continue-on-collection-errors")
WORKERS = "4"  # of pytest: most tests wait for a processor; each worker takes half a gigabyte of the GPU
STEPS = ("tests", "sanitizer", "formats", "30b", "70b")
STORED_BITS = {"bfloat16": 16, "nf4": 4.5}
RAM_PART, DISK_PART = 0.6, 0.7  # of what is free: loading takes more than the layers, and disks should not fill up
PREPARED_BYTES_PER_SECOND = 5e8  # assumed of reading, packing and writing 16 bits weights, to choose how many layers


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    device: str
    quick: bool
    folder: Path | None

    @property
    def tests(self) -> list[str]:
        """What pytest is told: the tests that need a GPU; for a rehearsal a few that do not.

        Files are named, as others may need packages that are not there.
        """
        if self.device == "cpu":
            return ["tests/test_docs.py"]
        files = sorted((ROOT / "tests").rglob("test_*.py"))
        side_by_side = ["-n", WORKERS, "--dist", "worksteal"]
        return ["-m", "gpu", *side_by_side, *(str(each) for each in files if MARK in each.read_text("utf-8"))]

    @property
    def matrix(self) -> tuple[int, int]:
        """The shape of the matrices that are decoded."""
        return (64, 256) if self.quick else (4096, 4096)


def main() -> int:
    """Measure and write the page; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where the page and its pictures are written")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny shapes: a rehearsal")
    parser.add_argument("--folder", type=made_folder, default=None, help="where models are made (a real disk)")
    parser.add_argument("--only", default=",".join(STEPS), help="which of these steps")
    arguments = parser.parse_args()
    asked = arguments.only.split(",")
    if unknown := set(asked) - set(STEPS):
        parser.error(f"there is no step {', '.join(sorted(unknown))}; choose among {', '.join(STEPS)}")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.stderr.write("There is no CUDA device here: rehearse with --device cpu --quick.\n")
        return 2
    arguments.out.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    about = machine(arguments.device)

    def done(outcome: Outcome) -> None:
        outcomes.append(outcome)  # the page is written after every step: whatever ends this, it is there
        say(f"{outcome.name}: {outcome.seconds:.0f} s of {outcome.share_seconds:.0f}. {outcome.trouble}")
        write_page(arguments.out, about, outcomes)
        figures = {"machine": about, "steps": [asdict(each) for each in outcomes]}
        (arguments.out / "first_light.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")

    extent = Extent(arguments.device, arguments.quick, arguments.folder)
    chosen = [each for each in steps(extent, arguments.out) if each.name.removeprefix(MODELS) in asked]
    run_steps(chosen, arguments.minutes * 60, done)
    return 0


def steps(extent: Extent, out: Path) -> list[Step]:
    """What is done, with the weights of the time that it gets; what is done sooner leaves the models more layers."""
    return [
        Step("tests", 6, partial(tests_step, extent, out)),
        Step("sanitizer", 2, partial(sanitizer_step, extent, out)),
        Step("formats", 1, partial(formats_step, extent)),
        Step(f"{MODELS}30b", 5, partial(model_step, extent, "30b")),
        Step(f"{MODELS}70b", 6, partial(model_step, extent, "70b")),
    ]


def model_step(extent: Extent, name: str, seconds: float) -> dict[str, Any]:
    """Passes, answers and memory of one shape."""
    if extent.quick:
        run = ModelRun(
            name, extent.device, scale=0.01, budgets=(4,), passes=1, new_tokens=8, rival=True, seconds=seconds
        )
    else:
        layers = affordable_layers(SHAPES[name], WEIGHTS[name], seconds, _free_bytes(), _disk_bytes(extent.folder))
        run = ModelRun(name, extent.device, layers=layers, budgets=(16, 64, 256, 1024), rival=True, seconds=seconds)
    return measure_apart(run, extent.folder)


def affordable_layers(shape: Shape, weights: str, seconds: float, ram_bytes: float, disk_bytes: float) -> int:
    """How many layers RAM holds, the disk holds, and half of the time prepares; at least the embedded target's own."""
    heads = shape.heads * HEAD_DIM
    elements = 2 * shape.hidden * (heads + shape.kv_heads * HEAD_DIM) + 3 * shape.hidden * shape.inner
    stored = elements * STORED_BITS[weights] / 8
    most = min(
        RAM_PART * ram_bytes / stored,
        DISK_PART * disk_bytes / (stored if weights == "nf4" else 2 * elements),
        seconds / 2 * PREPARED_BYTES_PER_SECOND / (2 * elements),
    )
    return max(OWN_LAYERS, min(shape.layers, int(most)))


def formats_step(extent: Extent, seconds: float) -> list[dict[str, Any]]:
    """Decoders of packed formats, as many as time allows: on a GPU each is compiled first."""
    with tempfile.TemporaryDirectory(dir=extent.folder) as folder:
        turns = 1 if extent.quick else 20
        return formats.measure_all(Path(folder), extent.matrix, turns, device_name=extent.device, seconds=seconds)


def tests_step(extent: Extent, out: Path, seconds: float) -> dict[str, Any]:
    """The summary of pytest, and of every test that failed what it says."""
    command = [sys.executable, "-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider", *LENIENT, *extent.tests]
    ended = run_limited(command, seconds, out / "tests.txt")
    lines = ended.output.splitlines()
    return {
        "passed": sum(" PASSED" in line for line in lines),
        "skipped": sum(" SKIPPED" in line for line in lines),
        "failed": [line.removeprefix("FAILED ") for line in lines if line.startswith(("FAILED ", "ERROR "))],
        "summary": lines[-1].strip("= ") if lines else "",
        "trouble": ended.trouble if ended.code is None else "",
    }


def sanitizer_step(extent: Extent, out: Path, seconds: float) -> dict[str, Any]:
    """compute-sanitizer's memory check of one test that streams layers."""
    there = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"])
    found = shutil.which("compute-sanitizer", path=there)
    if extent.device == "cpu" or not found:
        return {"trouble": "left out: compute-sanitizer is not installed"}
    checked = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *LENIENT, SANITIZED]
    ended = run_limited([found, "--tool", "memcheck", *checked], seconds, out / "sanitizer.txt")
    said = [line for line in ended.output.splitlines() if line.startswith("=========")]
    return {"summary": said[-1].strip("= ") if said else "", "trouble": ended.trouble}


def _free_bytes() -> int:
    return int(psutil.virtual_memory().available)


def _disk_bytes(folder: Path | None) -> int:
    return shutil.disk_usage(folder or tempfile.gettempdir()).free


if __name__ == "__main__":
    os.chdir(ROOT)
    raise SystemExit(main())

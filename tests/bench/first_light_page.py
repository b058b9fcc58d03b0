"""The page of a first run on a GPU: what the machine is, what became of every step, tables and pictures."""

import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil
import torch

from tests.bench.time_budget import Outcome

PAGE = "first_light.md"
PACKAGES = ("torch", "transformers", "accelerate", "bitsandbytes")
MODELS = "models: "


def machine(device: str) -> dict[str, str]:
    """What the figures are of."""
    about = {
        "date": datetime.now(UTC).isoformat(" ", "minutes"),
        "device": "the processor: a rehearsal, its figures mean nothing",
        "processor": f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}",
        "RAM": f"{psutil.virtual_memory().total / 1e9:.0f} GB",
        "system": f"{platform.platform()}, Python {platform.python_version()}",
        "packages": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
    }
    if device == "cuda":
        of = torch.cuda.get_device_properties(0)
        about["device"] = f"{of.name}, {of.total_memory / 1e9:.0f} GB, capability {of.major}.{of.minor}"
        about["driver"] = f"{_driver()}, CUDA {torch.version.cuda}"
    return about


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _driver() -> str:
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=30).stdout.split("\n")[0]
    except (OSError, subprocess.SubprocessError):
        return "driver unknown"


def write_page(out: Path, about: Mapping[str, str], outcomes: Sequence[Outcome]) -> None:
    """Write the page, and its pictures beside it."""
    lines = ["# First light", "", *(f"- {name}: {text}" for name, text in about.items()), ""]
    lines += table(
        ("step", "seconds", "of", "what lacks"),
        [(each.name, f"{each.seconds:.0f}", f"{each.share_seconds:.0f}", lacking(each) or "-") for each in outcomes],
    )
    sections: dict[str, Callable[[Any], Iterator[str]]] = {
        "tests": _tests,
        "sanitizer": _sanitizer,
        "formats": _formats,
    }
    for each in outcomes:
        if each.figures:
            section = sections.get(each.name) or _model
            lines += ["", f"## {each.name}", "", *section(each.figures)]
    found = {each.name.removeprefix(MODELS): each.figures for each in outcomes if each.name.startswith(MODELS)}
    lines += ["", *_pictures(out, {name: figures for name, figures in found.items() if figures})]
    (out / PAGE).write_text("\n".join(lines) + "\n", encoding="utf-8")


def lacking(outcome: Outcome) -> str:
    """Why figures of a step lack, or none."""
    said = outcome.figures if isinstance(outcome.figures, dict) else {}
    return outcome.trouble or said.get("trouble", "") or said.get("error", "")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table in Markdown."""
    return ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows)]


def _tests(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found['passed']} passed, {len(found['failed'])} failed, {found['skipped']} skipped. {found['summary']}"
    yield from ["", *(f"- {line}" for line in found["failed"])]


def _sanitizer(found: Mapping[str, Any]) -> Iterator[str]:
    yield found.get("summary") or found["trouble"]


def _formats(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    head = ("format", "bits a weight", "decoded, GB/s", "weights, 1e9/s", "decoding / copying", "decoding / disk")
    yield from table(
        head,
        [
            (
                row["format"],
                f"{row['bits']:.2f}",
                f"{row['decode_gb_per_second']:.2f}",
                f"{row['weights_per_second'] / 1e9:.2f}",
                f"{row['decode_over_copy']:.2f}",
                f"{row['decode_over_disk']:.2f}",
            )
            for row in found
        ],
    )


def _model(found: Mapping[str, Any]) -> Iterator[str]:
    """What one shape gave; entries lack if its time was over."""
    if "passes" not in found:
        yield f"No figures: {found.get('error', 'none came')}"
        return
    made, whole = found["layers_of_shape"]
    placed = ", ".join(f"{count} on {tier}" for tier, count in found["placement"].items() if count)
    loaded = f"loaded in {found['load_seconds']:.0f} s"
    yield f"{made} of the shape's {whole} layers in {found['weights']} ({placed}), {loaded}."
    yield f"A pass is flat up to {found.get('flat_up_to_rows', 0)} rows: within 5 % of one over a single row."
    yield ""
    yield from table(
        ("rows", "seconds a pass", "bytes / pinned rate, s", "pass / (bytes / pinned rate)"),
        [
            (str(row["rows"]), f"{row['seconds']:.4f}", f"{row['transfer_seconds']:.4f}", _ratio(row))
            for row in found["passes"]
        ],
    )
    yield ""
    rounds = ("seconds a round", "of the first answer")
    head = ("nodes", "tokens/s", "tokens per pass", *rounds, "draft, s", "of it hidden, s", "streamed, GB/s")
    chosen = [{"budget": "auto", **found["auto"]}] if "auto" in found else []
    yield from table(head, [_answer(row) for row in (*found["answers"], *chosen)])
    yield from ["", *_peaks(found), *_rival(found)]


def _ratio(row: Mapping[str, Any]) -> str:
    return f"{row['seconds_over_transfer']:.2f}" if row["seconds_over_transfer"] else "-"


def _answer(row: Mapping[str, Any]) -> tuple[str, ...]:
    seconds = ("seconds_per_pass", "first_seconds_per_pass", "draft_seconds", "hidden_draft_seconds")
    names = ("tokens_per_second", "tokens_per_pass", *seconds, "stream_gb_per_second")
    return (str(row["budget"]), *(f"{row[name]:.3f}" for name in names))


def _peaks(found: Mapping[str, Any]) -> Iterator[str]:
    for name, peak in found.get("memory", {}).items():
        planned, real = peak["predicted"] / 1e9, peak["real"] / 1e9
        yield f"- {name}: planned {planned:.2f} GB, was {real:.2f} ({peak['predicted_over_real']:.2f} of it planned)"


def _rival(found: Mapping[str, Any]) -> Iterator[str]:
    if rival := found.get("accelerate"):
        ours = found["passes"][0]["seconds"] / found["shape"]["layers"]
        times = f"{1000 * rival['seconds_per_layer']:.2f} ms a layer, here {1000 * ours:.2f} ms"
        words = f"{times} ({rival['seconds_per_layer'] / ours:.1f} times as long)"
        yield f"- accelerate's offload from RAM, bfloat16, one row, {rival['layers']} layers: {words}"


def _pictures(out: Path, models: Mapping[str, Any]) -> Iterator[str]:
    """Draw what there is; where Qt cannot run the page says so."""
    measured = {name: found for name, found in models.items() if found.get("passes")}
    if not measured:
        return
    try:
        from tests.bench.plots import begin_drawing, draw_curves
    except ImportError as error:
        yield f"No pictures: {error}"
        return
    application = begin_drawing()
    for file, title, rows, field, level in (
        ("passes", "pass / (bytes / pinned rate)", "passes", "seconds_over_transfer", 1.0),
        ("answers", "tokens per second", "answers", "tokens_per_second", None),
    ):
        key = "rows" if rows == "passes" else "budget"
        curves = {name: {row[key]: row[field] for row in found[rows] if row[field]} for name, found in measured.items()}
        bottom = "tokens in a pass" if rows == "passes" else "budget, drafted nodes per tree"
        if any(curves.values()):
            draw_curves(curves, title, bottom, out / f"first_light-{file}.png", level)
            yield from (f"![{title}](first_light-{file}.png)", "")
    application.processEvents()

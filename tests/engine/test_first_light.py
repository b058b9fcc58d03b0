"""The first run on a GPU, rehearsed without one: its steps, its share of time, and its page."""

import json
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.gguf_header import TYPES
from engine.loading.out_of_memory import ALLOCATOR_VARIABLES, let_gpu_segments_grow
from tests.bench import cuda, first_light, formats
from tests.bench.cuda import ModelRun
from tests.bench.first_light_page import PAGE, write_page
from tests.bench.grown import OWN_LAYERS, SHAPES, grow
from tests.bench.time_budget import Outcome, Step, run_limited, run_steps
from tests.campaigns.extent import for_the_proofs

STEPS = ["tests", "sanitizer", "formats", "models: 30b", "models: 70b"]


def rehearse(monkeypatch: pytest.MonkeyPatch, out: Path) -> tuple[int, str, dict[str, dict[str, Any]]]:
    """The exit code, the page, and the steps by their names."""
    monkeypatch.setattr(sys, "argv", ["first_light", "--device", "cpu", "--quick", "--out", str(out)])
    code = first_light.main()
    told = json.loads((out / "first_light.json").read_text())
    return code, (out / PAGE).read_text(), {step["name"]: step for step in told["steps"]}


def measured_here(run: ModelRun, folder: Path | None) -> dict[str, Any]:
    """One model without a process of its own; no time is left for the other."""
    if run.name == "70b":
        return {"name": "70b", "error": "did not fit: it was stopped after 9 s"}
    assert folder
    grow(folder / "model", run.shape)
    return cuda.measure(replace(run, rival=False), folder)


def test_a_rehearsal_writes_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, qapp: object) -> None:
    monkeypatch.setattr(first_light, "measure_apart", lambda run, _folder: measured_here(run, tmp_path))
    monkeypatch.setattr(formats, "SAMPLES", {"fp8": formats.SAMPLES["fp8"]})
    monkeypatch.setattr(formats, "TYPES", TYPES[:4])
    code, page, steps = rehearse(monkeypatch, tmp_path / "out")
    assert code == 0
    assert list(steps) == STEPS
    assert [step["trouble"] for step in steps.values()] == [""] * len(STEPS)
    assert steps["tests"]["figures"]["passed"] > 5
    assert "left out: compute-sanitizer is not installed" in page
    assert "did not fit: it was stopped after 9 s" in page
    assert "8 of the shape's 60 layers in bfloat16 (8 on ssd)" in page
    assert "FP8, one scale" in page
    for name in ("passes", "answers"):
        assert f"first_light-{name}.png" in page
        assert (tmp_path / "out" / f"first_light-{name}.png").stat().st_size > 1000


def test_a_sample_that_cannot_be_made_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_rows: int, _columns: int) -> Any:
        pytest.skip("its package is not there")

    monkeypatch.setattr(formats, "SAMPLES", {"gone": missing, "fp8": formats.SAMPLES["fp8"]})
    assert formats.samples_here(64, 256)


def test_on_a_gpu_only_files_with_tests_for_one_are_collected() -> None:
    told = first_light.Extent("cuda", quick=False, folder=None).tests
    assert told[:2] == ["-m", "gpu"]
    assert any(each.endswith("test_stream_cuda.py") for each in told[6:])
    assert all(first_light.MARK in Path(each).read_text("utf-8") for each in told[6:])


@for_the_proofs
def test_a_whole_rehearsal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, qapp: object) -> None:
    code, page, steps = rehearse(monkeypatch, tmp_path)
    assert code == 0
    assert all(not step["trouble"] and "error" not in (step["figures"] or {}) for step in steps.values())
    assert "accelerate's offload from RAM" in page


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["first_light", "--out", str(tmp_path / "out")])
    assert first_light.main() == 2
    assert "no CUDA device" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_step_that_there_is_not_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["first_light", "--out", str(tmp_path / "out"), "--only", "tests,30B"])
    with pytest.raises(SystemExit):
        first_light.main()
    assert "no step 30B" in capsys.readouterr().err
    assert [
        each.name.rpartition(" ")[2] for each in first_light.steps(first_light.Extent("cpu", True, None), tmp_path)
    ] == [*first_light.STEPS]


class Clock:
    """Time that passes when a step says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def test_what_a_step_does_not_use_is_left_to_those_behind_it() -> None:
    clock = Clock()
    shares: list[float] = []
    found: list[Outcome] = []

    def step(weight: float, seconds: float) -> Step:
        def run(share: float) -> str:
            shares.append(share)
            clock.spend(seconds)
            if seconds > 900:
                raise ValueError("too slow")
            return "figures"

        return Step(f"takes {seconds:.0f} s", weight, run)

    run_steps([step(1, 100), step(1, 200), step(2, 999), step(1, 1)], 1200, found.append, clock)
    assert shares == [240, 275, 600]
    assert [each.figures for each in found] == ["figures", "figures", None, None]
    assert [each.trouble for each in found[2:]] == [
        "ValueError: too slow",
        "did not fit: no time was left for it",
    ]


def test_a_command_ends_with_its_time_and_what_it_said_is_kept(tmp_path: Path) -> None:
    words = "import sys, time; print('begun', flush=True); time.sleep(60)"
    seconds, ended = 0.5, None
    while ended is None or not ended.output.startswith("begun\n"):  # a busy machine may not even begin it in time
        seconds *= 2
        ended = run_limited([sys.executable, "-S", "-c", words], seconds, tmp_path / "output.txt")
        assert ended.code is None
    assert ended.trouble.startswith("did not fit")
    assert run_limited([sys.executable, "-S", "-c", "raise SystemExit('no')"], 60, tmp_path / "o").trouble == (
        "ended with 1: no"
    )


def test_a_command_has_the_allocator_of_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ALLOCATOR_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    expected: dict[str, str] = {}
    let_gpu_segments_grow(expected)
    words = f"import os; print({{name: os.environ[name] for name in {ALLOCATOR_VARIABLES} if name in os.environ}})"
    ended = run_limited([sys.executable, "-S", "-c", words], 60, tmp_path / "output.txt")
    assert ended.output.strip() == str(expected)
    assert bool(expected) == (sys.platform == "linux" and "microsoft" not in platform.release().lower())
    assert ALLOCATOR_VARIABLES[0] not in os.environ, "only the command's environment changes"


def test_as_many_layers_as_memory_disk_and_time_allow() -> None:
    shape, much = SHAPES["70b"], 1e15
    layers = first_light.affordable_layers
    assert layers(shape, "nf4", much, much, much) == shape.layers
    few = layers(shape, "nf4", much, 20e9, much)
    assert OWN_LAYERS < few < shape.layers
    assert 2 * few - 1 <= layers(shape, "nf4", much, 40e9, much) <= 2 * few + 1
    assert layers(shape, "nf4", 100, much, much) < shape.layers
    assert layers(SHAPES["30b"], "bfloat16", much, much, 1e9) == OWN_LAYERS


def test_figures_that_came_before_the_time_was_over_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def ends_late(command: list[str], seconds: float, output: Path) -> Any:
        (output.parent / cuda.FIGURES).write_text('{"passes": [1]}')
        return run_limited([sys.executable, "-S", "-c", "import time; time.sleep(60)"], 0.2, output)

    monkeypatch.setattr(cuda, "run_limited", ends_late)
    monkeypatch.setattr(cuda, "grow", lambda *_: None)
    found = cuda.measure_apart(ModelRun("30b", "cpu", scale=0.01), tmp_path)
    assert found["passes"] == [1]
    assert found["error"].startswith("did not fit")


def test_a_page_says_why_a_step_has_no_figures(tmp_path: Path) -> None:
    write_page(tmp_path, {"device": "none"}, [Outcome("models: 30b", 1.0, 2.0, None, "OSError: full")])
    assert "| models: 30b | 1 | 2 | OSError: full |" in (tmp_path / PAGE).read_text()

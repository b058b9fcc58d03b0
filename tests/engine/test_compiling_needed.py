"""What a model needs is compiled by several processes, which share out the jobs, and end with whoever started them."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from engine.errors import Cancellation, Cancelled
from engine.gguf_header import TYPES
from engine.loading.compiling import needed
from engine.loading.compiling.child import JOBS, taken
from engine.loading.compiling.processes import CHILD_BYTES, FOREMOST_BYTES, MOST, Compilers, how_many
from engine.loading.pair import open_pair
from engine.model.formats.packed import PackedWeight
from engine.model.gguf.packed_blocks import Gguf
from engine.model.products import arranged, compiling, jobs, layouts
from engine.model.products.arranged import Joined, Woven
from engine.model.products.compiling import has_compiler
from engine.model.safetensors_header import TensorInfo
from engine.protocol.options import LoadOptions

CPU = torch.device("cpu")
NEED_NUMBA = pytest.mark.skipif(not has_compiler(), reason="numba does not run here")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder of compiled code, kept to this test."""
    monkeypatch.setattr(compiling._Folder, "path", tmp_path / "compiled")
    compiling.kept_folder.cache_clear()
    yield tmp_path / "compiled"
    compiling.kept_folder.cache_clear()


def test_each_job_is_taken_by_one(tmp_path: Path) -> None:
    (tmp_path / JOBS).write_text("first\nsecond\nthird")
    one, other = taken(tmp_path), taken(tmp_path)
    assert [next(one), next(other), next(one), next(other, ""), next(one, "")] == ["first", "second", "third", "", ""]


@pytest.mark.parametrize(
    "field", [np.zeros((1, 1), np.uint8), np.zeros(1, np.float32), np.float32(2), 7, layouts.levels("e2m1 doubled")]
)
def test_a_layout_is_told_in_words_and_found_again(field: Any) -> None:
    found = jobs.layout_of(jobs.layout_text(layouts.Q4K(field)))[0]
    assert type(found) is type(field)
    if isinstance(field, np.ndarray):
        assert (found.dtype, found.ndim) == (field.dtype, field.ndim)
        assert (found is field) == (field.size > 1), "orders of numbers are told by the very table"


@NEED_NUMBA
def test_a_process_compiles_its_jobs_without_torch_and_says_which_it_could_not(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    compilers = Compilers(["no job", "gate"], folder, 1)
    place = compilers._jobs
    (child,) = compilers._children
    child.wait(60)
    compilers.end()
    assert "'no job' was not compiled" in capfd.readouterr().err
    assert jobs.missing(["no job", "gate"]) == ["no job"]
    assert list(folder.rglob("*_gated*.nbc"))
    assert not place.exists()
    code = "import sys, engine.loading.compiling.child, engine.model.products.native; print('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "False"
    )


def test_processes_end_when_they_are_told_to_and_with_whoever_started_them(folder: Path) -> None:
    compilers = Compilers(["gate"] * 2, folder, 2)
    for child in compilers._children:
        child.kill()
        child.wait()
    assert not compilers.are_at_work, "who waits goes on without them"
    compilers.end()
    compilers = Compilers(["gate"], folder, 2)
    (child,) = compilers._children
    place = compilers._jobs
    assert child.stdin
    child.stdin.close()  # as a process that was killed leaves it
    child.wait(60)
    assert not place.exists()


def test_no_file_where_a_person_stands_is_run(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model's folder may hold a `numba.py`, and somebody asks for the model from there."""
    for name in ("numba", "psutil", "platform"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    compilers = Compilers(["no job"], folder, 1)
    (child,) = compilers._children
    child.wait(60)
    compilers.end()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("module", "name"), [(subprocess, "Popen"), (tempfile, "mkdtemp")])
def test_where_the_system_gives_no_process_or_folder_there_is_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    monkeypatch.setattr(module, name, Mock(side_effect=OSError("no more")))
    compilers = Compilers(["gate"], folder, 2)
    assert not compilers.are_at_work
    compilers.end()


def test_as_many_processes_as_cores_and_memory_allow() -> None:
    room = FOREMOST_BYTES + 4 * CHILD_BYTES
    assert [how_many(cores, room) for cores in (1, 3, 16)] == [1, 3, 4]
    assert how_many(16, 1 << 40) == MOST
    assert how_many(16, 0) == 0


class Told(Compilers):
    """Does a job each time that it is looked at."""

    ended = False

    def __init__(self, wanted: Sequence[str], folder: Path, count: int) -> None:
        super().__init__((), folder, count)
        self._left = list(wanted)
        type(self).ended = False

    @property
    def are_at_work(self) -> bool:
        if self._left:
            jobs.mark_done(self._left.pop())
        return bool(self._left)

    def end(self) -> None:
        super().end()
        type(self).ended = True


@pytest.fixture
def pair(folder: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Who needs three long jobs, on a machine with two cores."""
    monkeypatch.setattr(needed, "Compilers", Told)
    monkeypatch.setattr(needed, "LOOK_SECONDS", 0)
    monkeypatch.setattr(needed, "jobs_for", lambda *_: ["going on", "attention in pairs", "attention"])
    monkeypatch.setattr(needed, "threads_allowed", lambda: 2)
    monkeypatch.setattr(needed, "memory_now", lambda _: Mock(ram_free=1 << 40))
    monkeypatch.setattr(jobs, "_machine", lambda: "")
    return SimpleNamespace(options=LoadOptions(cache_dir=str(folder.parent)))


def steps_of(pair: SimpleNamespace, cancellation: Cancellation) -> Iterator[tuple[int, int]]:
    for event in needed.compile_missing(1, pair, CPU, cancellation):  # type: ignore[arg-type]  # a pair's options count
        assert event.stage == needed.COMPILING
        yield event.done, event.total


def test_progress_is_told_and_nothing_is_compiled_twice(pair: SimpleNamespace) -> None:
    assert list(steps_of(pair, Cancellation())) == [(0, 3), (1, 3), (2, 3)]
    assert Told.ended
    assert list(steps_of(pair, Cancellation())) == []


def test_who_cancels_ends_the_processes(pair: SimpleNamespace) -> None:
    cancellation = Cancellation()
    cancellation.begin(1)
    steps = steps_of(pair, cancellation)
    next(steps)
    cancellation.cancel(1)
    with pytest.raises(Cancelled):
        next(steps)
    assert Told.ended


@pytest.mark.parametrize("without", ["cores", "memory", "work"])
def test_nothing_is_started_where_it_would_not_be_faster(
    pair: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    if without == "cores":
        monkeypatch.setattr(needed, "threads_allowed", lambda: 1)
    if without == "memory":
        monkeypatch.setattr(needed, "memory_now", lambda _: Mock(ram_free=FOREMOST_BYTES + CHILD_BYTES))
    if without == "work":
        monkeypatch.setattr(needed, "jobs_for", lambda *_: ["gate"])
    assert list(steps_of(pair, Cancellation())) == []


@NEED_NUMBA
def test_a_model_needs_the_loops_of_all_ways_in_which_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = open_pair(LoadOptions(target="embedded", device="cpu"))
    assert needed.jobs_for(pair, CPU) == [], "so small a model is computed without"
    monkeypatch.setattr(needed, "SMALLEST", 0)
    monkeypatch.setattr(needed, "is_arithmetic_missing", lambda *_: False)
    found = needed.jobs_for(pair, CPU)
    assert "going on" in found
    assert not any("uint8" in job for job in found), "it is stored in 16 bits"


@NEED_NUMBA
def test_of_packed_weights_one_of_each_kind_is_looked_at_experts_too() -> None:
    def weight(name: str, *shape: int) -> PackedWeight:
        kind = next(kind for kind in TYPES if kind.name == name)
        stored = *shape[:-1], shape[-1] // kind.elements * kind.nbytes
        return PackedWeight(name, shape, {"0": TensorInfo("U8", stored, Path(), 0, 0)}, Gguf((kind,)))

    weights = [weight("Q4_K", 512, 256), weight("Q4_K", 1024, 256), weight("Q8_0", 4, 512, 256), weight("Q6_K", 256)]
    model: Any = SimpleNamespace(packed=dict(enumerate(weights)))
    products = list(needed._products(model, "auto"))
    found = [jobs.layout_text(parts) for product in products for parts in needed._layouts(product)]
    assert found == ["Q4K uint8:2", "Q80 uint8:2"]
    woven = Woven(Joined(products), 2)  # type: ignore[arg-type]  # products all
    assert [jobs.layout_text(parts) for parts in needed._layouts(woven)] == found


@NEED_NUMBA
def test_rows_in_8_bits_have_loops_of_their_own() -> None:
    packed, plain = layouts.Q4K(np.zeros((1, 1), np.uint8)), layouts.Q80(np.zeros((1, 1), np.uint8))
    exact, rounded = (jobs.of_layout(packed, False, is_rounded) for is_rounded in (False, True))
    if not arranged.rounds_blocks(["Q4_K"]):
        pytest.skip("this processor has no loop for rows in 8 bits")
    assert [job.partition(" ")[0] for job in rounded] == ["bytes", "decode", "decode_from"]
    assert not any(job.startswith("bytes") for job in exact)
    few = jobs.of_layout(packed, False, is_rounded=True, keeps_few=True)
    assert set(few) - set(rounded) == {job for job in exact if job.startswith(("alone", "whole"))}
    assert jobs.of_layout(plain, False, is_rounded=True) == jobs.of_layout(plain, False)

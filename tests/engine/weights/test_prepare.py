"""Preparing: stopped at any point and taken up, refused before harm is done, one sentence when the disk gives up."""

import errno
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from engine.errors import Cancellation, Cancelled, CoppiceError, ModelError
from engine.weights.store import layer_file
from engine.weights.store.manifest import NAME
from engine.weights.store.prepare import prepare
from engine.weights.store.prepared_model import delete_prepared, folder_name, layer_path, open_prepared
from tests.engine.weights.five_layers import LAYERS, Maker, assert_whole, finish, flip, run, truncate

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def maker() -> Maker:
    return Maker()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "tiny-float32"


def test_all_layers_are_prepared_and_progress_is_told(folder: Path, maker: Maker) -> None:
    progress = finish(folder, maker.work())
    assert [(step.layers, step.total, step.kept) for step in progress] == [
        (i + 1, LAYERS, False) for i in range(LAYERS)
    ]
    assert progress[-1].nbytes == progress[-1].total_bytes == sum(maker.work().layer_bytes)
    assert progress[-1].seconds_left == 0
    assert all(step.seconds_left is not None and step.seconds_left > 0 for step in progress[:-1])
    assert_whole(folder)


@pytest.mark.parametrize("stopped_after", range(1, LAYERS + 1))
def test_a_stopped_run_is_taken_up(folder: Path, maker: Maker, stopped_after: int) -> None:
    run(folder, maker.work(), stopped_after)
    with pytest.raises(ModelError, match=f"{stopped_after} of {LAYERS} layers"):
        open_prepared(folder)
    maker.made.clear()
    progress = finish(folder, maker.work())
    assert [step.kept for step in progress] == [i < stopped_after for i in range(LAYERS)]
    assert maker.made == list(range(stopped_after, LAYERS))
    assert_whole(folder)


def test_cancelling_lands_between_two_layers_and_keeps_what_is_done(folder: Path, maker: Maker) -> None:
    cancellation = Cancellation()
    cancellation.begin(3)
    steps = prepare(folder, maker.work(), cancellation)
    next(steps)
    cancellation.cancel(3)
    with pytest.raises(Cancelled):
        next(steps)
    assert maker.made == [0]
    assert [step.kept for step in finish(folder, maker.work())] == [True, False, False, False, False]


def test_a_complete_model_is_not_made_nor_read_again(
    folder: Path, maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(folder, maker.work())
    maker.made.clear()
    monkeypatch.setattr("engine.weights.store.prepared_model.digest_of", lambda path: pytest.fail("read a whole layer"))
    assert all(step.kept for step in finish(folder, maker.work()))
    assert not maker.made


KILLED = """
import sys, threading
from pathlib import Path
from engine.weights.store import layer_file
from engine.errors import Cancellation
from engine.weights.store.prepare import prepare
from tests.engine.weights.five_layers import Maker

original = layer_file._pieces

def pieces(head, tensors):
    for number, piece in enumerate(original(head, tensors)):
        yield piece
        if maker.made == [0, 1, 2] and number == 1:
            print("in the middle of layer 2", flush=True)
            threading.Event().wait()

layer_file._pieces = pieces
maker = Maker()
for _ in prepare(Path(sys.argv[1]), maker.work(), Cancellation()):
    pass
"""


def test_a_killed_run_is_taken_up(folder: Path, maker: Maker) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in the middle of layer 2\n"
        leftovers = list(folder.glob("*.part"))
        process.kill()
        process.wait()
    assert len(leftovers) == 1
    assert leftovers[0].exists(), "a killed process cleans nothing up"
    assert not layer_path(folder, 2).exists()
    assert [step.kept for step in finish(folder, maker.work())] == [True, True, False, False, False]
    assert_whole(folder)


@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink])
def test_what_was_damaged_while_a_run_was_stopped_is_made_again(
    folder: Path, maker: Maker, damage: Callable[[Path], None]
) -> None:
    run(folder, maker.work(), 3)
    damage(layer_path(folder, 1))
    maker.made.clear()
    finish(folder, maker.work())
    assert maker.made == [1, 3, 4]
    assert_whole(folder)


def test_too_little_space_is_told_before_anything_is_made(
    folder: Path, maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 40, 0, 100 << 20))
    with pytest.raises(CoppiceError, match=r"needs 0\.3 GiB, and 0\.1 GiB are free in .*tiny-float32") as refusal:
        finish(folder, maker.work())
    assert refusal.value.hint
    assert not maker.made


def test_space_for_what_is_there_already_is_not_asked_again(
    folder: Path, maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(folder, maker.work(), LAYERS)  # all layers, but not the end
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 40, 0, 0))
    finish(folder, maker.work())
    assert_whole(folder)


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "is full"), (errno.EIO, "cannot be written")])
def test_a_disk_that_fails_midway_is_one_sentence_and_what_is_done_stays(
    folder: Path, maker: Maker, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    original = layer_file._pieces

    def pieces(head: bytes, tensors: list[Tensor]) -> Any:
        yield memoryview(head)
        if maker.made[-1] == 3:
            raise OSError(number, os.strerror(number))
        yield from list(original(head, tensors))[1:]

    with monkeypatch.context() as patch:
        patch.setattr(layer_file, "_pieces", pieces)
        with pytest.raises(CoppiceError, match=words) as failure:
            finish(folder, maker.work())
    assert str(folder) in failure.value.message
    assert not list(folder.glob("*.part"))
    assert [step.kept for step in finish(folder, maker.work())] == [True, True, True, False, False]
    assert_whole(folder)


def test_a_source_that_changed_meanwhile_is_refused(folder: Path, maker: Maker) -> None:
    run(folder, maker.work(), 2)
    with pytest.raises(ModelError, match="have changed since its preparation began"):
        finish(folder, maker.work(fingerprint="another"))
    maker.state = "changed during the run"
    with pytest.raises(ModelError, match="have changed since its preparation began"):
        finish(folder, maker.work())
    with pytest.raises(ModelError, match="only partly prepared"):
        open_prepared(folder)


def test_layers_of_a_source_that_changed_do_not_count_as_those_of_the_one_before(folder: Path, maker: Maker) -> None:
    """Another model for a while in the place of one: its layers are whole, and the other's."""
    steps = prepare(folder, maker.work(), Cancellation())
    next(steps)
    maker.state = "another"
    with pytest.raises(ModelError, match="have changed"):
        next(steps)
    maker.state = "as it was"
    maker.made.clear()
    finish(folder, maker.work())
    assert maker.made == [1, 2, 3, 4]


def test_two_processes_that_prepare_the_same_share_the_work_and_undo_nothing(folder: Path, maker: Maker) -> None:
    other = Maker()
    slow = prepare(folder, other.work(), Cancellation())
    next(slow)
    fast = prepare(folder, maker.work(), Cancellation())
    steps = [next(fast), next(fast)]
    next(slow)
    steps += fast
    assert [step.layers for step in steps] == [1, 2, 3, 4, 5]
    assert_whole(folder)
    for step in slow:
        assert step.kept
        assert_whole(folder)
    assert sorted([*maker.made, *other.made]) == [0, 1, 2, 3, 4]


def test_a_slow_process_does_not_undo_what_another_finished_while_it_wrote(folder: Path, maker: Maker) -> None:
    """It looks once more when its layer is written, and what is complete stays so."""
    other, work = Maker(), maker.work()

    def make(index: int) -> Any:
        finish(folder, other.work())
        return maker.make(index)

    for _ in prepare(folder, replace(work, make=make), Cancellation()):
        assert_whole(folder)
    assert maker.made == [0]


def test_a_model_that_was_moved_is_still_the_same(folder: Path, maker: Maker) -> None:
    run(folder, maker.work(), 2)
    steps = finish(folder, maker.work(name="tiny", source="/elsewhere/tiny"))
    assert [step.kept for step in steps] == [True, True, False, False, False]


@pytest.mark.parametrize("changes", [{"codec": "nf4"}, {"dtype": "bfloat16"}])
def test_a_folder_prepared_in_another_way_is_refused(folder: Path, maker: Maker, changes: dict[str, str]) -> None:
    run(folder, maker.work(), 1)
    with pytest.raises(ModelError, match="prepared in another way"):
        finish(folder, maker.work(**changes))


@pytest.mark.parametrize("names", [("thesis.txt",), ("film.mkv.part",), ("film.mkv.part", "thesis.txt")])
def test_a_folder_with_other_files_is_left_alone(names: tuple[str, ...], folder: Path, maker: Maker) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("precious")
    with pytest.raises(ModelError, match="holds other files"):
        finish(folder, maker.work())
    with pytest.raises(ModelError, match="holds no prepared model"):
        delete_prepared(folder)
    assert sorted(path.name for path in folder.iterdir()) == list(names)


@pytest.mark.parametrize("content", ["", "[", "{}", '{"kind": "coppice prepared layers", "format": 1}', None])
def test_a_folder_called_by_its_recipe_is_made_anew_where_its_manifest_is_lost(
    content: str | None, tmp_path: Path, maker: Maker
) -> None:
    """Nobody else gives a folder of the cache such a name, and nothing but deleting it by hand would help."""
    work = maker.work(fingerprint="0123456789abcdef")
    maker.state = work.recipe.fingerprint
    folder = tmp_path / folder_name("org/tiny", "float32", work.recipe.fingerprint)
    finish(folder, work)
    if content is None:
        (folder / NAME).unlink()
    else:
        (folder / NAME).write_text(content)
    maker.made.clear()
    finish(folder, work)
    assert maker.made == list(range(LAYERS))
    assert_whole(folder)


def test_a_run_that_was_killed_at_its_first_write_is_taken_up(folder: Path, maker: Maker) -> None:
    folder.mkdir(parents=True)
    (folder / "manifest.json.x.part").write_text("{")
    finish(folder, maker.work())
    assert not list(folder.glob("*.part"))
    assert_whole(folder)


def test_a_writer_that_is_still_running_is_not_disturbed(folder: Path, maker: Maker) -> None:
    run(folder, maker.work(), 1)
    living, dead = folder / f"layer-00004.safetensors.{os.getppid()}.part", folder / "layer-00004.safetensors.x.part"
    living.write_text("")
    dead.write_text("")
    finish(folder, maker.work())
    assert living.exists()
    assert not dead.exists()

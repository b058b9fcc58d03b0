"""Whatever ends the making of a runtime, and whenever: the next start finishes it, and half a runtime is never used."""

import errno
import os
import random
import signal
import subprocess
import sys
import threading
from io import FileIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pytestqt.qtbot import QtBot

from app.downloads.control import StopKind
from app.installation.link import RuntimeLink
from app.installation.runtime.environment import clean_environment
from app.installation.runtime.installation import Installation
from app.installation.runtime.lock import Lock
from app.installation.runtime.manager import RuntimeManager
from app.installation.runtime.place import Installed, Wanted
from app.installation.runtime.progress import Stage
from app.installation.runtime.tools import InstallDependencies
from engine.errors import InputError
from tests.app.downloads.test_disk_full import TinyDisk
from tests.app.installation.conftest import install, make_dependencies, with_disk
from tests.app.installation.packages import BLOB, TORCH, PackageIndex
from tests.app.installation.tiny_tools import LOCK, TinyTools
from tests.campaigns.extent import choose
from tests.hub import drop, slow, stall

ROOT = Path(__file__).parents[3]
KILLS = choose(1, 20)


def works(here: Installed) -> bool:
    """Whether a runtime can really do what it was verified for."""
    told = subprocess.run(
        [here.python, "-c", "import torch; print(torch.answer())"],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment({}),
    )
    return told.stdout.strip() == "300000 bytes"


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is POSIX's")
def test_killed_at_random_moments_it_is_finished_by_the_next_start(index: PackageIndex, tmp_path: Path) -> None:
    """What is there after a kill is whole, or is not used."""
    folder = tmp_path / "Büro 1"
    dependencies = make_dependencies(folder)
    chance = random.Random(20)
    command = [sys.executable, "-m", "tests.app.installation.driver", str(folder)]
    whole = 0
    for number in range(KILLS):
        index.heal()
        # Some of them are to end in the middle of the network; the first, on however fast a machine.
        index.fail(BLOB, slow(60_000, 0.01) if number else slow(1_000, 0.05))
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            process.wait(chance.uniform(0.2, 1.4))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        here = dependencies.place.installed()
        if here is not None:
            whole += 1
            assert works(here)
            (dependencies.place.folder / "active.json").unlink()
            (here.folder / "runtime.json").unlink()  # begin anew: nothing is to be adopted
    index.heal()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    here = dependencies.place.installed()
    assert here is not None
    assert works(here)
    assert sorted(path.name for path in dependencies.place.folder.iterdir()) == [
        "active.json",
        here.folder.name,
        *LOCK,
    ]
    assert whole < KILLS, "no start was killed in time"


class _EndsBefore(BaseException):
    """Stands for a power cut at one step."""


STEPS = choose(("stage", "commit", "_activate"), ("want", "stage", "sweep", "commit", "_activate", "adopt"))


@pytest.mark.parametrize("step", STEPS)
def test_an_end_before_any_step_leaves_nothing_that_counts(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def end(*arguments: object) -> None:
        raise _EndsBefore

    with monkeypatch.context() as patch:
        patch.setattr(dependencies.place, step, end)
        with pytest.raises(_EndsBefore):
            install(dependencies, lock)
    assert dependencies.place.installed() is None
    assert install(dependencies, lock).progress.stage is Stage.DONE
    here = dependencies.place.installed()
    assert here is not None
    assert works(here)


def test_a_pause_in_the_middle_of_a_wheel_keeps_what_has_arrived(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    index.fail(BLOB, stall(after=150_000))
    installation = Installation(dependencies, lock, Wanted("cpu"))
    thread = threading.Thread(target=installation.run)
    thread.start()
    arrived = threading.Event()
    while installation.progress.fetched.file_bytes < 150_000:
        arrived.wait(0.01)
    installation.stop(StopKind.PAUSE)
    thread.join()
    assert installation.progress.stage is Stage.PAUSED
    assert dependencies.place.wanted() == Wanted("cpu", paused=True)
    index.release()
    installation.run()
    assert dependencies.place.installed() is not None
    sent = sum(each.sent_bytes for each in index.asked(BLOB)[1:])
    assert sent == len(index.shelves.wheels[BLOB]) - 150_000


def test_leaving_the_program_is_no_pause_of_its_owner(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    installation = Installation(dependencies, lock, Wanted("cpu"))
    installation.leave()
    installation.run()
    assert installation.progress.stage is Stage.PAUSED
    assert dependencies.place.wanted() == Wanted("cpu", paused=False)


def test_cancelling_forgets_it_and_what_has_arrived(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    index.fail(BLOB, drop(after=0), times=99)
    assert install(dependencies, lock).progress.stage is Stage.FAILED
    assert list(dependencies.wheels.iterdir())
    index.heal()
    again = Installation(dependencies, lock, Wanted("cpu"))
    again.stop(StopKind.CANCEL)
    again.run()
    assert again.progress.stage is Stage.CANCELLED
    assert dependencies.place.wanted() is None
    assert not dependencies.wheels.exists()
    assert [path.name for path in dependencies.place.folder.iterdir()] == LOCK


def test_a_stop_that_a_failure_overtook_is_over_when_it_is_tried_again(
    qtbot: QtBot,
    index: PackageIndex,
    dependencies: InstallDependencies,
    lock: Lock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index.fail(BLOB, drop(after=0), times=99)
    assert install(dependencies, lock).progress.stage is Stage.FAILED
    index.heal()
    installation = Installation(dependencies, lock, Wanted("cpu"))
    manager = SimpleNamespace(install=lambda _wanted: installation, propose=None, tidy=None)
    link = RuntimeLink(cast(RuntimeManager, manager))
    stages: list[Stage] = []
    link.ended.connect(lambda progress: stages.append(progress.stage))

    def fail(_tools: TinyTools) -> str:
        installation.stop(StopKind.CANCEL)
        raise InputError("Nobody says which package index to ask.")

    with monkeypatch.context() as patch, qtbot.waitSignal(link.ended):
        patch.setattr(TinyTools, "default_index", fail)
        link.install(Wanted("cpu"))
    with qtbot.waitSignal(link.ended):
        link.resume()
    assert stages == [Stage.FAILED, Stage.DONE]
    assert len(index.asked(TORCH)) == 1, "what had arrived is kept"


def test_a_disk_that_fills_up_while_wheels_arrive_pauses_it(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    disk = TinyDisk(room=120_000)
    paused = install(with_disk(dependencies, disk), lock).progress
    assert paused.stage is Stage.PAUSED
    assert "more are needed" in paused.message
    assert dependencies.place.wanted() == Wanted("cpu")
    assert dependencies.place.installed() is None
    disk.room = 1 << 30
    assert install(with_disk(dependencies, disk), lock).progress.stage is Stage.DONE


class _ShrinkingDisk(TinyDisk):
    """Somebody else takes everything as soon as wheels are unpacked."""

    def free_bytes(self, folder: Path) -> int:
        return -1 if list(folder.glob(".staging-*/python/bin")) else self.claimed

    def open(self, path: Path) -> FileIO:
        return super().open(path)


def test_a_disk_that_fills_up_while_wheels_are_unpacked_pauses_it(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    paused = install(with_disk(dependencies, _ShrinkingDisk(room=1 << 30)), lock).progress
    assert paused.stage is Stage.PAUSED
    assert dependencies.place.installed() is None
    assert not list(dependencies.place.folder.glob(".staging-*"))
    asked = len(index.asked(BLOB))
    assert install(dependencies, lock).progress.stage is Stage.DONE
    assert len(index.asked(BLOB)) == asked, "what was complete is not fetched again"


def test_a_full_disk_that_the_system_tells_of_pauses_it(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(dependencies.place, "commit", full)
        paused = install(dependencies, lock).progress
    assert paused.stage is Stage.PAUSED
    assert dependencies.place.installed() is None
    assert install(dependencies, lock).progress.stage is Stage.DONE

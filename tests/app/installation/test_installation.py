"""A runtime from tiny wheels, from beginning to end: made, used, made anew, taken away; and what can go wrong."""

import json
import subprocess
import time
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import pytest

from app.downloads.disk import Check
from app.installation.runtime.environment import clean_environment
from app.installation.runtime.installation import PYTHON_BYTES, Installation
from app.installation.runtime.lock import Lock, Wheel
from app.installation.runtime.place import OccupiedError, Wanted
from app.installation.runtime.progress import (
    DamagedWheelError,
    MissingWheelsError,
    Stage,
    UncheckableError,
    UnfitError,
)
from app.installation.runtime.tools import InstallDependencies, Verification
from app.installation.runtime.wheels import copy_checked
from tests.app.downloads.conftest import SmallDisk, Waits
from tests.app.installation.conftest import install, with_disk
from tests.app.installation.packages import BLOB, TORCH, PackageIndex, lock_of, tiny_wheels, wheel
from tests.app.installation.tiny_tools import LOCK, TinyTools
from tests.hub import corrupt, drop, status


def fill(folder: Path, wheels: dict[str, bytes]) -> Path:
    """A folder of wheels."""
    folder.mkdir(parents=True)
    for name, body in wheels.items():
        (folder / name).write_bytes(body)
    return folder


def says(dependencies: InstallDependencies) -> str:
    """What the runtime's own Python says of its torch."""
    here = dependencies.place.installed()
    assert here is not None
    told = subprocess.run(
        [here.python, "-c", "import torch; print(torch.answer())"],
        capture_output=True,
        text=True,
        check=True,
        env=clean_environment({}),
    )
    return told.stdout.strip()


def test_an_index_is_enough_for_a_runtime_and_nothing_is_left_beside_it(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    done = install(dependencies, lock)
    assert done.progress.stage is Stage.DONE, done.progress.message
    assert says(dependencies) == "300000 bytes"
    here = dependencies.place.installed()
    assert here is not None
    assert (here.torch, here.build, here.fingerprint) == ("9.1.0+tiny", "cpu", lock.fingerprint)
    assert sorted(path.name for path in dependencies.place.folder.iterdir()) == [
        "active.json",
        here.folder.name,
        *LOCK,
    ]
    assert not dependencies.wheels.exists()
    assert dependencies.place.wanted() is None


def test_pages_of_links_serve_as_well_and_fill_in_what_a_lock_leaves_open(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    index.shelves.speaks_json = False
    about = tuple(Wheel(each.file, "", each.bytes + 7) for each in lock.wheels)
    assert install(dependencies, replace(lock, wheels=about)).progress.stage is Stage.DONE
    assert says(dependencies) == "300000 bytes"


def test_a_folder_of_wheels_needs_no_index(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock, tmp_path: Path
) -> None:
    folder = fill(tmp_path / "Räder und mehr", tiny_wheels())
    assert install(dependencies, lock, folder).progress.stage is Stage.DONE
    assert index.requests == []
    assert sorted(path.name for path in folder.iterdir()) == sorted([BLOB, TORCH])


def test_a_folder_is_told_what_it_lacks(dependencies: InstallDependencies, lock: Lock, tmp_path: Path) -> None:
    folder = fill(tmp_path / "some", {TORCH: tiny_wheels()[TORCH]})
    failed = install(dependencies, lock, folder).progress
    assert failed.stage is Stage.FAILED
    assert isinstance(failed.error, MissingWheelsError)
    assert BLOB in failed.message
    assert dependencies.place.installed() is None


def test_a_file_that_is_not_the_one_meant_is_never_unpacked(
    dependencies: InstallDependencies, lock: Lock, tmp_path: Path
) -> None:
    changed = wheel(TORCH, {"torch/__init__.py": "raise SystemExit('changed')"})
    failed = install(dependencies, lock, fill(tmp_path / "changed", tiny_wheels() | {TORCH: changed})).progress
    assert isinstance(failed.error, DamagedWheelError)
    assert dependencies.place.installed() is None


def test_a_folder_is_refused_where_a_checksum_is_not_known(
    dependencies: InstallDependencies, lock: Lock, tmp_path: Path
) -> None:
    changed = wheel(TORCH, {"torch/__init__.py": "raise SystemExit('changed')"})
    about = tuple(replace(each, sha256="" if each.file == TORCH else each.sha256) for each in lock.wheels)
    open_lock = replace(lock, wheels=about)
    failed = install(dependencies, open_lock, fill(tmp_path / "changed", tiny_wheels() | {TORCH: changed})).progress
    assert isinstance(failed.error, UncheckableError)
    assert TORCH in failed.message
    assert "from the network" in failed.hint
    assert dependencies.place.installed() is None


def test_a_wheel_that_is_exchanged_after_it_was_checked_is_not_installed(
    dependencies: InstallDependencies, lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(tmp_path / "shared", tiny_wheels())
    changed = wheel(TORCH, {"torch/__init__.py": "raise SystemExit('changed')"})
    make_python = type(dependencies.tools).make_python

    def exchange(tools: TinyTools, target: Path, check: Check) -> Path:
        for each in folder.iterdir():  # in place: also what is linked to them is another file then
            each.write_bytes(changed)
        return make_python(tools, target, check)

    monkeypatch.setattr(type(dependencies.tools), "make_python", exchange)
    assert install(dependencies, lock, folder).progress.stage is Stage.DONE
    assert says(dependencies) == "300000 bytes"


def test_no_more_is_copied_than_a_wheel_has(lock: Lock, tmp_path: Path) -> None:
    about = next(each for each in lock.wheels if each.file == TORCH)
    endless = fill(tmp_path / "endless", {TORCH: tiny_wheels()[TORCH] + bytes(1 << 20)})
    (tmp_path / "shelf").mkdir()
    with pytest.raises(DamagedWheelError):
        copy_checked(about, endless / TORCH, tmp_path / "shelf", lambda: None)
    assert (tmp_path / "shelf" / TORCH).stat().st_size == about.bytes + 1


def test_an_index_with_another_file_is_refused(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    index.shelves.wheels[TORCH] = wheel(TORCH, {"torch/__init__.py": "raise SystemExit('changed')"})
    assert isinstance(install(dependencies, lock).progress.error, DamagedWheelError)


def test_an_index_without_a_wheel_says_which(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    del index.shelves.wheels[BLOB]
    failed = install(dependencies, lock).progress
    assert isinstance(failed.error, MissingWheelsError)
    assert BLOB in failed.message


def test_a_network_that_comes_and_goes_is_endured_and_no_byte_comes_twice(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    index.fail(BLOB, drop(after=100_000))
    index.fail(BLOB, status(503))
    index.fail("torch/", status(500), times=2)
    assert install(dependencies, lock).progress.stage is Stage.DONE
    assert sum(each.sent_bytes for each in index.asked(BLOB)) == len(index.shelves.wheels[BLOB])


def test_an_index_that_names_a_date_is_asked_again_then(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock, waits: Waits
) -> None:
    index.fail("torch/", status(503, retry_after=formatdate(time.time() + 5, usegmt=True)))
    assert install(dependencies, lock).progress.stage is Stage.DONE
    assert len(waits.seconds) == 1
    assert max(waits.seconds) < 60


def test_without_a_network_it_stops_and_goes_on_later_where_it_was(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    index.fail(BLOB, drop(after=200_000))
    index.fail(BLOB, drop(after=0), times=99)
    failed = install(dependencies, lock).progress
    assert failed.stage is Stage.FAILED
    assert "resume" in failed.hint
    assert dependencies.place.wanted() == Wanted("cpu")
    index.heal()
    sent = sum(each.sent_bytes for each in index.asked(BLOB))
    assert sent == 200_000
    assert install(dependencies, lock).progress.stage is Stage.DONE
    assert sum(each.sent_bytes for each in index.asked(BLOB)) == len(index.shelves.wheels[BLOB])
    assert len(index.asked(TORCH)) == 1


def test_a_wheel_that_arrives_damaged_twice_is_named(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    index.fail(BLOB, corrupt(at=1000), times=2)
    failed = install(dependencies, lock).progress
    assert isinstance(failed.error, DamagedWheelError)
    assert BLOB in failed.message


def test_a_runtime_that_does_not_work_is_not_taken(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    assert install(dependencies, lock).progress.stage is Stage.DONE
    before = dependencies.place.installed()
    broken = tiny_wheels() | {TORCH: wheel(TORCH, {"torch/__init__.py": "import a_library_that_is_not_there"})}
    index.shelves.wheels.update(broken)
    failed = install(dependencies, lock_of(broken)).progress
    assert isinstance(failed.error, UnfitError)
    assert "a_library_that_is_not_there" in failed.message
    assert dependencies.place.installed() == before
    assert says(dependencies) == "300000 bytes"


def test_a_library_that_windows_cannot_load_tells_what_to_install(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    fails = "raise OSError('[WinError 126] The specified module could not be found. Error loading c10.dll')"
    broken = tiny_wheels() | {TORCH: wheel(TORCH, {"torch/__init__.py": fails})}
    index.shelves.wheels.update(broken)
    error = install(dependencies, lock_of(broken)).progress.error
    assert isinstance(error, UnfitError)
    assert "c10.dll" in error.message
    assert "vc_redist.x64.exe" in error.hint


def test_an_engine_that_has_nothing_to_say_does_not_work(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    silent = replace(dependencies, verification=Verification(arguments=("-c", "print('{}')"), limits=()))
    assert isinstance(install(silent, lock).progress.error, UnfitError)
    assert dependencies.place.installed() is None


def test_another_lock_replaces_the_runtime_and_the_next_start_takes_the_old_one_away(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    install(dependencies, lock)
    before = dependencies.place.installed()
    newer = tiny_wheels() | {BLOB: wheel(BLOB, {"tiny_blob/__init__.py": 'DATA = "new"'})}
    index.shelves.wheels.update(newer)
    assert install(dependencies, lock_of(newer)).progress.stage is Stage.DONE
    assert says(dependencies) == "3 bytes"
    assert before is not None
    assert before.python.is_file(), "an engine may still be running from it"
    dependencies.place.sweep()
    assert not before.folder.exists()
    assert says(dependencies) == "3 bytes"


def test_one_that_was_replaced_does_not_come_back(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    install(dependencies, lock)
    broken = dependencies.place.installed()
    assert broken is not None
    next(broken.folder.rglob("torch/__init__.py")).write_text("raise SystemExit('broken')")
    for _ in range(2):
        assert install(dependencies, lock).progress.stage is Stage.DONE
        here = dependencies.place.installed()
        assert here is not None
        assert here.folder != broken.folder
        assert says(dependencies) == "300000 bytes"


def test_a_runtime_that_somebody_took_apart_is_none(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    install(dependencies, lock)
    here = dependencies.place.installed()
    assert here is not None
    here.python.unlink()
    assert dependencies.place.installed() is None
    assert install(dependencies, lock).progress.stage is Stage.DONE
    assert says(dependencies) == "300000 bytes"


def test_one_that_was_verified_before_a_crash_is_adopted(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    install(dependencies, lock)
    (dependencies.place.folder / "active.json").unlink()
    asked = len(index.requests)
    assert dependencies.place.installed() is None
    assert install(dependencies, lock).progress.stage is Stage.DONE
    assert len(index.requests) == asked
    assert says(dependencies) == "300000 bytes"


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"folder": "../elsewhere"}', '{"folder": 3}', "\x00", pytest.param("[" * 100_000, id="deep")],
)
def test_a_damaged_marker_is_no_runtime(dependencies: InstallDependencies, content: str) -> None:
    dependencies.place.folder.mkdir(parents=True)
    (dependencies.place.folder / "active.json").write_text(content)
    assert dependencies.place.installed() is None


def test_two_never_make_a_runtime_at_once(index: PackageIndex, dependencies: InstallDependencies, lock: Lock) -> None:
    with dependencies.place.occupied():
        failed = install(dependencies, lock).progress
    assert isinstance(failed.error, OccupiedError)
    assert install(dependencies, lock).progress.stage is Stage.DONE


def test_removing_leaves_nothing(index: PackageIndex, dependencies: InstallDependencies, lock: Lock) -> None:
    install(dependencies, lock)
    dependencies.place.remove()
    assert [path.name for path in dependencies.place.folder.iterdir()] == LOCK


def test_the_disk_is_asked_before_anything_is_fetched(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock
) -> None:
    class Claims(SmallDisk):
        def free_bytes(self, folder: Path) -> int:
            return lock.bytes + lock.installed_bytes + PYTHON_BYTES - 1

    paused = install(with_disk(dependencies, Claims()), lock).progress
    assert paused.stage is Stage.PAUSED
    assert "more are needed" in paused.message
    assert index.requests == []
    assert install(dependencies, lock).progress.stage is Stage.DONE


def test_a_folder_that_cannot_be_written_is_named(
    index: PackageIndex, dependencies: InstallDependencies, lock: Lock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(wanted: Wanted) -> None:
        raise PermissionError(13, "Permission denied", str(dependencies.place.folder))

    monkeypatch.setattr(dependencies.place, "want", refuse)
    failed = install(dependencies, lock).progress
    assert failed.stage is Stage.FAILED
    assert str(dependencies.place.folder) in failed.message


def test_what_is_wanted_outlives_the_program(dependencies: InstallDependencies) -> None:
    dependencies.place.want(Wanted("cuda", "/some/wheels", paused=True))
    assert dependencies.place.wanted() == Wanted("cuda", "/some/wheels", paused=True)
    assert json.loads((dependencies.place.folder / "wanted.json").read_text("utf-8"))["build"] == "cuda"
    dependencies.place.want(None)
    assert dependencies.place.wanted() is None


def test_progress_never_exceeds_the_whole(index: PackageIndex, dependencies: InstallDependencies, lock: Lock) -> None:
    installation = Installation(dependencies, lock, Wanted("cpu"))
    assert installation.progress.fraction == 0.0
    installation.run()
    assert installation.progress.fraction == 1.0

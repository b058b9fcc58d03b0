"""Nobody but the owner reads what the application writes for itself; what it writes for others keeps the umask."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.downloads.destinations import CacheDestination, FolderDestination
from app.hub.files import RemoteFile
from app.hub.place import HubPlace
from app.system.files import become_private, tighten, write_chosen
from app.system.paths import ROOT, folders_below, portable_folder
from tests.app.test_application import PATIENCE_MS
from tests.links import make_link

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")

FILE = RemoteFile("model.safetensors", 4, "a" * 64)


def open_to_others(folder: Path) -> list[str]:
    """Everything in a folder, and the folder, that group or others may do something with."""
    found = []
    for each in (folder, *folder.rglob("*")):
        with suppress(FileNotFoundError):  # a program that runs replaces its files
            if each.lstat().st_mode & 0o077 and not each.is_symlink():
                found.append(str(each.relative_to(folder)))
    return found


@pytest.fixture
def umask() -> Iterator[None]:
    """A person whose files others may read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def populate(root: Path) -> None:
    """The folders as earlier versions left them."""
    folders = folders_below(root)
    for folder in (folders.config, folders.data / "runtime" / "cpu-1-2" / "lib", folders.cache / "facts", folders.logs):
        folder.mkdir(parents=True)
    for file in (
        folders.settings_file,
        folders.config / "settings.damaged.json",
        folders.chats_file,
        folders.data / "chats.v1.sqlite3",
        folders.downloads_file,
        folders.data / "runtime" / "cpu-1-2" / "lib" / "torch.py",
        folders.cache / "facts" / "facts.json",
        folders.application_log,
        folders.engine_log,
        folders.logs / "crash-20250101-101010.txt",
    ):
        file.write_text("{}" if file.suffix == ".json" else "")
    for each in [root, *root.rglob("*")]:
        each.chmod(0o755 if each.is_dir() else 0o644)


def test_a_session_leaves_nothing_that_others_can_read(engine_python: Path, qtbot: QtBot, tmp_path: Path) -> None:
    root = tmp_path / "data"
    populate(root)
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "--data-dir", str(root)],
        cwd=ROOT,
        env=os.environ | {"COPPICE_ENGINE_PYTHON": str(engine_python)},
        umask=0o022,
    )
    try:
        qtbot.waitUntil((root / "data" / "chats.sqlite3-wal").exists, timeout=PATIENCE_MS)
        during = open_to_others(root)
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    finally:
        process.kill()
        process.wait()
    assert (during, open_to_others(root)) == ([], [])
    assert (root / "data" / "chats.sqlite3").stat().st_size > 0, "the session wrote something"
    assert process.returncode == 0, "SIGTERM closes the window in order"
    assert json.loads(folders_below(root).settings_file.read_text(encoding="utf-8"))["geometry"]


def test_a_new_database_and_its_companions_are_private(umask: None, tmp_path: Path) -> None:
    become_private()
    connection = sqlite3.connect(tmp_path / "chats.sqlite3")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (x)")
    names = {each.name for each in tmp_path.iterdir()}
    assert names == {"chats.sqlite3", "chats.sqlite3-wal", "chats.sqlite3-shm"}
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in tmp_path.iterdir())
    connection.close()


def test_links_are_not_followed(umask: None, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.write_text("")
    theirs.chmod(0o644)
    make_link(ours / "link", theirs)
    tighten(ours)
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o644
    assert stat.S_IMODE(ours.stat().st_mode) == 0o700


def test_a_program_stays_a_program(umask: None, tmp_path: Path) -> None:
    program = tmp_path / "below" / "python"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    tighten(tmp_path)
    assert stat.S_IMODE(program.stat().st_mode) == 0o700


def test_a_start_that_was_interrupted_is_made_up_for(umask: None, tmp_path: Path) -> None:
    below = tmp_path / "below" / "deeper"
    below.mkdir(parents=True)
    (below / "file").write_text("")
    tmp_path.chmod(0o700)  # as far as the first start came
    tighten(tmp_path)
    assert open_to_others(tmp_path) == []


def test_a_named_folder_that_holds_other_things_is_left_as_it_is(umask: None, tmp_path: Path) -> None:
    folders = folders_below(tmp_path)
    folders.create()
    (tmp_path / "theirs").mkdir()
    tmp_path.chmod(0o755)
    folders.tighten()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "theirs").stat().st_mode) == 0o755
    assert not any(open_to_others(tmp_path / name) for name in ("config", "data", "cache", "logs"))


def test_files_of_somebody_else_do_not_keep_the_program_from_starting(
    umask: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o755)

    def refuse(_path: Path, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    tighten(tmp_path)
    assert "Other users may read" in caplog.text


@pytest.mark.parametrize("symlinks", [True, False])
def test_the_hub_cache_keeps_the_persons_umask(umask: None, tmp_path: Path, symlinks: bool) -> None:
    become_private()
    cache = CacheDestination(HubPlace("http://hub", tmp_path / "hub", symlinks=symlinks), "org/name", "main", "c" * 40)
    cache.prepare()
    cache.partial(FILE).write_bytes(b"four")
    cache.keep(FILE)
    cache.finish()
    modes = {stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "hub").rglob("*") if each.is_dir()}
    assert modes == {0o755}
    assert {stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "hub").rglob("*") if each.is_file()} == {0o644}


@pytest.mark.parametrize(("is_private", "mode"), [(False, 0o644), (True, 0o600)])
def test_a_plain_folder_of_a_person_keeps_their_umask(umask: None, tmp_path: Path, is_private: bool, mode: int) -> None:
    become_private()
    place = FolderDestination(tmp_path / "model", is_private)
    place.prepare()
    place.partial(FILE).write_bytes(b"four")
    place.keep(FILE)
    assert stat.S_IMODE((tmp_path / "model" / FILE.name).stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == (0o700 if is_private else 0o755)


def test_an_exported_file_is_the_persons(umask: None, tmp_path: Path) -> None:
    become_private()
    path = tmp_path / "notes.md"
    write_chosen(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    path.chmod(0o640)
    write_chosen(path, b"newer")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_a_portable_checkout_holds_is_not_committed() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert f"/{portable_folder().relative_to(ROOT)}/" in ignored

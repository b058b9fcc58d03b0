"""Files are replaced as a whole or not at all, wherever the application writes one."""

import errno
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from unittest.mock import Mock

import pytest

import app
from app.chat.archive.exchange.formats import read_conversations
from app.chat.archive.exchange.importing import Importing
from app.chat.archive.exchange.reading import ExchangeError
from app.chat.generation.formal_text import read_formal_text
from app.library.local.app_settings import downloads_folder, named_gguf, pointed_folder
from app.library.local.completeness import damage_of_gguf, damage_of_safetensors
from app.settings.generation import GenerationSettings
from app.system import files as own_files
from app.system.files import extended, write_chosen, write_private
from app.system.json_text import read_object
from app.tree.rounds.recording import read_recording
from engine import files
from engine.errors import InputError, ModelError
from engine.files import Replacement, write_atomically
from engine.gguf_header import read_beginning
from engine.model.json_file import read_json_object
from tests.links import make_link, make_pipe, needs_links

APP = Path(app.__file__).parent
WRITERS = [write_atomically, write_private, write_chosen]


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("step", ["fsync", "replace", "write"])
def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes], None], step: str
) -> None:
    file = tmp_path / "notes.md"
    file.write_text("old")
    if step == "fsync":
        monkeypatch.setattr(os, "fsync", refuse)
    elif step == "replace":
        monkeypatch.setattr(Path, "replace", refuse)
    else:
        monkeypatch.setattr(Replacement, "write", refuse)
    with pytest.raises(OSError, match="No space"):
        write(file, b"new")
    assert file.read_text("utf-8") == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["notes.md"]


@pytest.mark.parametrize("write", WRITERS)
def test_a_file_is_written_and_replaced(tmp_path: Path, write: Callable[[Path, bytes], None]) -> None:
    file = tmp_path / ("ä" * 120)  # as long as a file system allows
    for content in (b"one", b"two"):
        write(file, content)
        assert file.read_bytes() == content
    assert len(list(tmp_path.iterdir())) == 1


@needs_links
def test_what_lies_where_it_is_written_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "victim").write_text("somebody's")
    marks = iter(("first", "second"))
    monkeypatch.setattr(files, "_mark", lambda: next(marks))
    make_link(tmp_path / "notes.first.part", tmp_path / "victim")
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "notes", b"new")
    write_atomically(tmp_path / "notes", b"new")
    assert (tmp_path / "victim").read_text("utf-8") == "somebody's"
    assert (tmp_path / "notes").read_bytes() == b"new"


WRITER = """
import sys
import time
from pathlib import Path
from engine import files
files._computer = lambda: sys.argv[2]
made = files.Replacement(Path(sys.argv[1]))
made.write(b"half")
made.file.flush()
print(made._beside.name, flush=True)
sys.stdin.read()
"""
HERE, ELSEWHERE = files._computer(), "0a1b2c"


@contextmanager
def written_by(path: Path, computer: str = HERE) -> Iterator[Path]:
    """The half-written file of another process, which is killed at the end."""
    command = [sys.executable, "-c", WRITER, str(path), computer]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        yield path.with_name(writer.stdout.readline().strip())
        writer.kill()


def let_grow_old(path: Path) -> None:
    long_ago = time.time() - files.ABANDONED_SECONDS - 60
    os.utime(path, (long_ago, long_ago))


def overwrite(path: Path) -> None:
    write_atomically(path, b"new")


def sweep(path: Path) -> None:
    files.remove_leftovers(path.parent)


@pytest.mark.skipif(os.name != "posix", reason="there what is open cannot be removed")
@pytest.mark.parametrize("act", [overwrite, files.remove, sweep])
def test_what_a_killed_process_left_half_written_goes_and_what_a_living_one_writes_stays(
    tmp_path: Path, act: Callable[[Path], None]
) -> None:
    """Whatever the numbers of processes are: those of two containers mean nothing to each other."""
    path = tmp_path / "wanted.json"
    with written_by(path) as half:
        let_grow_old(half)
        act(path)
        assert half.read_bytes() == b"half"
    act(path)
    assert not half.exists()


@pytest.mark.skipif(os.name != "posix", reason="there what is open cannot be removed")
def test_what_another_computer_writes_stays_for_a_day_as_its_lock_may_not_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "wanted.json"
    with written_by(path, ELSEWHERE) as half:
        pass
    overwrite(path)
    assert half.exists()
    let_grow_old(half)
    overwrite(path)
    assert not half.exists()


@pytest.mark.skipif(os.name != "posix", reason="there what is open cannot be removed")
def test_where_files_cannot_be_locked_their_age_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr("engine.files.fcntl.flock", refuse)
    path = tmp_path / "wanted.json"
    made = files.Replacement(path)
    overwrite(path)
    assert made._beside.exists()
    let_grow_old(made._beside)
    overwrite(path)
    assert not made._beside.exists()
    made.discard()


@pytest.mark.skipif(os.name != "posix", reason="there what is open cannot be removed")
def test_a_file_that_is_taken_for_abandoned_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lock, seen = tmp_path / "wanted.json", files._lock, list[int]()

    def late(descriptor: int) -> None:
        if not seen:
            files.remove_leftovers(tmp_path)
        seen.append(descriptor)
        lock(descriptor)

    monkeypatch.setattr(files, "_lock", late)
    overwrite(path)
    assert len(seen) == 2
    assert path.read_bytes() == b"new"


def test_what_earlier_versions_left_goes_when_it_is_old(tmp_path: Path) -> None:
    left = tmp_path / "wanted.json.4711.part"
    left.write_text("half")
    overwrite(tmp_path / "wanted.json")
    assert left.exists(), "one may be running"
    let_grow_old(left)
    overwrite(tmp_path / "wanted.json")
    assert not left.exists()


def test_a_name_with_another_mark_is_somebody_else_s(tmp_path: Path) -> None:
    theirs = tmp_path / "wanted.json.20261130123456789012.part"
    theirs.write_text("a download")
    let_grow_old(theirs)
    write_atomically(tmp_path / "wanted.json", b"new")
    files.remove(tmp_path / "wanted.json")
    assert theirs.read_text("utf-8") == "a download"


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes")
def test_where_no_permissions_can_be_set_a_file_is_saved_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr("app.system.files.os.fchmod", refuse)
    write_chosen(tmp_path / "chosen", b"content")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("chosen", b"content")]


@pytest.mark.skipif(os.name != "posix", reason="modes and links")
def test_own_files_are_private_and_chosen_ones_are_as_the_person_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    monkeypatch.setattr(own_files._Umask, "own", 0o027)  # as `become_private` finds it
    write_private(tmp_path / "private", b"")
    write_chosen(tmp_path / "chosen", b"")
    (tmp_path / "shared").touch(0o666)
    (tmp_path / "shared").chmod(0o664)
    make_link(tmp_path / "link", "shared")
    write_chosen(tmp_path / "link", b"new")
    assert mode(tmp_path / "private") == 0o600
    assert mode(tmp_path / "chosen") == 0o640
    assert mode(tmp_path / "shared") == 0o664
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "shared").read_bytes() == b"new"


def test_a_file_that_another_program_holds_for_a_moment_is_replaced_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [PermissionError(errno.EACCES, "held")] * 3
    replace = Path.replace

    def held(path: Path, target: Path) -> Path:
        if refusals:
            raise refusals.pop()
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", held)
    monkeypatch.setattr(files, "_TRIES", 4)
    monkeypatch.setattr(files, "_PAUSE_SECONDS", 0)
    write_atomically(tmp_path / "notes", b"new")
    assert (tmp_path / "notes").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (PureWindowsPath(r"C:\Users\Ada\coppice"), r"\\?\C:\Users\Ada\coppice"),
        (PureWindowsPath(r"\\server\share\coppice"), r"\\?\UNC\server\share\coppice"),
        (PureWindowsPath(r"\\?\C:\coppice"), r"\\?\C:\coppice"),
        (PurePosixPath("/home/ada/coppice"), "/home/ada/coppice"),
    ],
)
def test_paths_of_windows_have_names_of_any_length(path: PurePath, name: str) -> None:
    assert extended(path) == name


def test_a_folder_is_tried_for_longer_than_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_TRIES", 2)
    monkeypatch.setattr(files, "_PATIENT_TRIES", 5)
    monkeypatch.setattr(files, "_PAUSE_SECONDS", 0)
    held = [PermissionError(errno.EACCES, "held")] * 4
    with pytest.raises(PermissionError):
        files.retried(Mock(side_effect=[*held, None]))
    rename = Mock(side_effect=[*held, None])
    files.retried(rename, patiently=True)
    assert rename.call_count == 5


# Each with the reason why a half-written file does no harm there.
IN_PLACE = {
    **dict.fromkeys(("drawing_program.py", "own_program.py", "__main__.py"), "a pipe to the window"),
    "link.py": "a log, which grows",
    "encoding_program.py": "a pipe to the window, and a file that the window has opened and puts in its place",
    "process.py": "a log, which grows, and a setting of the kernel",
    "bench.py": "a place that a person gave, which may be a pipe",
    "tokenizer_files.py": "a temporary folder of one process",
    "files.py": "it is how the others are written",
    "facts.py": "a temporary folder that is renamed when it is whole",
    "crash.py": "a report has a name of its own, and the fault handler needs an open file",
    "tools.py": "what a program prints while it runs",
    "processes.py": "what processes are to compile, in a temporary folder, before they are started",
    "child.py": "an empty file whose name alone counts, in the same folder",
    "wheels.py": "a copy in the folder of an installation, which is checked, and removed if it did not end",
}
_WRITES = re.compile(r"""\.write_text\(|\.write_bytes\(|os\.replace\(|open\((\w+, )?["'][wx]|fdopen\(.*["'][wx]b["']""")


def problems_of_import(path: Path) -> object:
    importing = Importing([path.parent], GenerationSettings())
    list(importing._found)
    return importing._problems[path.name]


READERS: dict[str, Callable[[Path], object]] = {
    "chats.json": lambda path: list(read_conversations(path)),
    "more chats.json": problems_of_import,
    "config.json": lambda path: read_object(path, 1 << 20),
    "manifest": lambda path: read_json_object(path, 1 << 20),
    "schema.json": read_formal_text,
    "answer.coppice": lambda path: list(read_recording(path)),
    "a.gguf": read_beginning,
    "whole.gguf": damage_of_gguf,
    "b.safetensors": lambda path: damage_of_safetensors([path]),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_among_the_files_of_others_is_not_waited_for(name: str, tmp_path: Path) -> None:
    """An archive that was unpacked can hold one; who opens it as a file waits until somebody writes into it."""
    make_pipe(tmp_path / name)
    try:
        told = str(READERS[name](tmp_path / name))
    except (ExchangeError, InputError, ModelError, OSError) as error:
        told = str(error)
    assert re.search("ordinary file|cannot be read|damaged", told)


def test_a_pipe_among_the_settings_of_other_programs_says_nothing(tmp_path: Path) -> None:
    make_pipe(tmp_path / "pipe")
    assert downloads_folder(tmp_path / "pipe") is pointed_folder(tmp_path / "pipe") is None
    assert named_gguf(tmp_path / "pipe", tmp_path) is None


def test_a_folder_is_still_told_from_other_files(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        files.open_ordinary(tmp_path)


def test_no_other_place_writes_a_whole_file() -> None:
    """Others do it through `engine.files`, or are named above with the reason."""
    sources = [path for folder in (APP, Path(files.__file__).parent) for path in folder.rglob("*.py")]
    found = {path.name for path in sources if _WRITES.search(path.read_text("utf-8"))}
    assert found == set(IN_PLACE)


def test_only_one_place_asks_where_to_save() -> None:
    asking = [path.name for path in APP.rglob("*.py") if "getSaveFileName" in path.read_text(encoding="utf-8")]
    assert asking == ["file_dialogs.py"]

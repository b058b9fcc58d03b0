"""What really makes a runtime: a Python that is copied, a virtual environment, uv and pip."""

import errno
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.downloads.control import Control, StopKind, Stopped
from app.downloads.disk import is_full
from app.installation.runtime.environment import clean_environment
from app.installation.runtime.lock import Lock
from app.installation.runtime.progress import Stage
from app.installation.runtime.tools import INDEX_VARIABLE, Ending, InstallDependencies, Tools, tools_of
from app.system.bundle import RuntimeParts, python_of
from engine.errors import InputError
from tests.app.installation.conftest import install
from tests.app.installation.packages import tiny_wheels
from tests.links import make_link, needs_links

UV = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


@pytest.mark.parametrize("uv", [None, pytest.param(UV, marks=pytest.mark.skipif(UV is None, reason="needs uv"))])
def test_a_runtime_is_made_by_either(
    dependencies: InstallDependencies, lock: Lock, tmp_path: Path, uv: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the person has told pip and uv about other versions of the same packages."""
    others = tmp_path / "constraints.txt"
    others.write_text("torch==1.0\n")
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "pip.conf").write_text(f"[global]\nconstraint = {others}\n")
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path))
    monkeypatch.setenv("UV_CONSTRAINT", str(others))
    folder = tmp_path / "Räder, [viele] & mehr"
    folder.mkdir()
    for name, body in tiny_wheels().items():
        (folder / name).write_bytes(body)
    done = install(replace(dependencies, tools=Tools(Path(uv) if uv else None)), lock, folder).progress
    assert done.stage is Stage.DONE, done.message
    here = dependencies.place.installed()
    assert here is not None
    told = subprocess.run(
        [here.python, "-c", "import torch, sys; print(torch.answer(), sys.prefix)"],
        capture_output=True,
        text=True,
        check=True,
        env=clean_environment({}),
    )
    assert told.stdout.split() == ["300000", "bytes", *str(here.folder / "python").split()]


@needs_links
def test_a_carried_python_is_copied_whole_and_takes_packages(tmp_path: Path) -> None:
    home = tmp_path / "home"
    program = home / "bin" / "python3"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho tiny\n")
    program.chmod(0o755)
    make_link(home / "bin" / "python", "python3")
    (home / "lib").mkdir()
    (home / "lib" / "EXTERNALLY-MANAGED").write_text("not here")
    copy = Tools(home=home).make_python(tmp_path / "copy", lambda: None)
    assert subprocess.run([copy], capture_output=True, text=True, check=True).stdout == "tiny\n"
    assert copy.stat().st_mode & stat.S_IXUSR
    assert (copy.parent / "python").is_symlink()
    assert not (tmp_path / "copy" / "lib" / "EXTERNALLY-MANAGED").exists()
    assert (home / "lib" / "EXTERNALLY-MANAGED").exists()


def test_copying_stops_when_asked(tmp_path: Path) -> None:
    (tmp_path / "home" / "bin").mkdir(parents=True)
    (tmp_path / "home" / "bin" / "python3").write_text("")
    control = Control()
    control.stop(StopKind.PAUSE)
    with pytest.raises(Stopped):
        Tools(home=tmp_path / "home").make_python(tmp_path / "copy", control.check)


def test_copying_ends_with_the_first_error_which_keeps_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / "bin").mkdir(parents=True)
    for name in ("python3", "pip3", "idle3"):
        (tmp_path / "home" / "bin" / name).write_text("")
    tried = []

    def full(source: str, target: str) -> None:
        tried.append(source)
        raise OSError(errno.ENOSPC, "No space left on device", target)

    monkeypatch.setattr("app.installation.runtime.tools.shutil.copy2", full)
    with pytest.raises(OSError, match="No space left on device") as raised:
        Tools(home=tmp_path / "home").make_python(tmp_path / "copy", lambda: None)
    assert is_full(raised.value), "the installation pauses, and goes on when there is room"
    assert len(tried) == 1


def test_the_index_is_the_named_one_or_uvs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INDEX_VARIABLE, raising=False)
    uv, asked = tmp_path / ("uv.cmd" if os.name == "nt" else "uv"), tmp_path / "asked"
    posix = f"#!/bin/sh\ncat && echo \"$@\" > '{asked}' && echo '--index-url https://index.example/simple'\n"
    windows = f'@echo %* > "{asked}"\n@echo --index-url https://index.example/simple\n'
    uv.write_text(windows if os.name == "nt" else posix, encoding="utf-8")
    uv.chmod(0o755)
    assert Tools(uv).default_index() == "https://index.example/simple"
    assert asked.read_text(encoding="utf-8").strip().endswith(f" --no-python-downloads --python {sys.executable} -")
    Tools(uv, home=tmp_path).default_index()
    assert f" --python {python_of(tmp_path)} " in asked.read_text(encoding="utf-8"), "the one that the bundle carries"
    monkeypatch.setenv(INDEX_VARIABLE, "http://localhost/simple")
    assert Tools(uv).default_index() == "http://localhost/simple"


def test_without_any_index_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INDEX_VARIABLE, raising=False)
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\nexit 3\n")
    uv.chmod(0o755)
    for tools in (Tools(), Tools(uv), Tools(tmp_path / "gone")):
        with pytest.raises(InputError, match=INDEX_VARIABLE):
            tools.default_index()


@pytest.mark.skipif(os.name == "nt", reason="names of programs differ")
def test_a_bundle_gives_its_uv_and_its_python(tmp_path: Path) -> None:
    (tmp_path / "python" / "bin").mkdir(parents=True)
    (tmp_path / "python" / "bin" / "python3").write_text("")
    (tmp_path / "uv").write_text("")
    assert tools_of(RuntimeParts(tmp_path)) == Tools(tmp_path / "uv", tmp_path / "python")
    (tmp_path / "python" / "bin" / "python3").unlink()
    assert tools_of(RuntimeParts(tmp_path)).home is None


def test_a_program_that_failed_gives_a_reason_that_ends_no_sentence() -> None:
    said = ["The disk is broken.", "Really."]
    assert Ending(1, "", "").reason(said) == "The disk is broken"
    assert Ending(1, "", "").reason(["word " * 100]).endswith("word…"), "what was cut off shows"
    assert Ending(3, "", "").reason([]) == "exit code 3"
    assert Ending(0xC0000005, "", "").reason([]) == "exit code 0xC0000005", "as Windows' own pages have it"

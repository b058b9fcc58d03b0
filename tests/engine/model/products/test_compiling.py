"""Compiled loops are kept in one folder, for one state of the sources, and numba is imported when it is needed."""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.model.products import compiling
from tests.links import make_link


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """What was found for another folder."""
    compiling.kept_folder.cache_clear()
    yield
    compiling.kept_folder.cache_clear()


def test_nothing_is_kept_without_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling._Folder, "path", None)
    assert compiling.kept_folder() is None


def test_code_of_other_sources_is_removed_when_nobody_uses_it_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling._Folder, "path", tmp_path / "compiled")
    for name, age in (("of-before", 2 * compiling.UNUSED_SECONDS), ("in-use", 60)):
        (tmp_path / "compiled" / name).mkdir(parents=True)
        os.utime(tmp_path / "compiled" / name, (time.time() - age,) * 2)
    found = compiling.kept_folder()
    assert found is not None
    assert {path.name for path in (tmp_path / "compiled").iterdir()} == {found.name, "in-use"}


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(compiling._Folder, "path", tmp_path / "file" / "compiled")
    assert compiling.kept_folder() is None


POSIX = pytest.mark.skipif(os.name != "posix", reason="permissions come from the folder there")


@POSIX
def test_a_folder_of_code_is_open_to_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling._Folder, "path", tmp_path / "compiled")
    folder = compiling.kept_folder()
    assert folder
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)  # as an earlier version, or a careless umask, left it
    compiling.kept_folder.cache_clear()
    assert compiling.kept_folder() == folder
    assert folder.stat().st_mode & 0o777 == 0o700


@POSIX
@pytest.mark.parametrize("is_link", [False, True])
def test_code_in_a_folder_that_somebody_else_made_is_not_run(
    is_link: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling._Folder, "path", tmp_path / "compiled")
    folder = compiling.kept_folder()
    assert folder
    if is_link:
        folder.rename(tmp_path / "elsewhere")
        make_link(folder, tmp_path / "elsewhere")
    else:
        monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    compiling.kept_folder.cache_clear()
    assert compiling.kept_folder() is None


@POSIX
def test_code_in_a_file_of_somebody_else_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    from engine.model.products.code_cache import CodeFiles

    files = CodeFiles(str(tmp_path), "function", 0)
    files.save("key", b"code")
    assert files.load("key") == b"code"
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert files.load("key") is None


def test_numba_is_not_imported_with_what_uses_it() -> None:
    code = "import sys, engine.weights.codecs.codec, engine.model.gguf.packed_blocks; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_without_numba_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    compiling.has_compiler.cache_clear()
    monkeypatch.setitem(sys.modules, "numba", None)
    assert not compiling.has_compiler()
    compiling.has_compiler.cache_clear()


KEEPING = """
import sys
from pathlib import Path
import torch
from engine.model.products import compiling
compiling.keep_compiled_in(Path(sys.argv[1]))
from engine.model.products import native, product
weight = torch.ones(512, 256, dtype=torch.bfloat16)
assert product.plain(weight)(torch.ones(1, 256)).eq(256).all()
print(sum(loop.cache_hits for loop in native._loops.values()))
"""


def multiplied(folder: Path) -> tuple[str, str]:
    """What a process that keeps code there says of its loops' hits, and its errors."""
    done = subprocess.run([sys.executable, "-c", KEEPING, folder], capture_output=True, text=True, check=True)
    return done.stdout.strip(), done.stderr


def kept_files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.nbc"))


def test_a_second_process_compiles_nothing_and_files_do_not_grow(tmp_path: Path) -> None:
    assert multiplied(tmp_path)[0] == "0"
    files = kept_files(tmp_path)
    assert multiplied(tmp_path)[0] == "1"
    assert kept_files(tmp_path) == files


def test_kept_code_that_was_cut_off_is_compiled_anew(tmp_path: Path) -> None:
    multiplied(tmp_path)
    for path in kept_files(tmp_path):
        path.write_bytes(path.read_bytes()[:-9])
    hits, errors = multiplied(tmp_path)
    assert hits == "0"
    assert "made anew" in errors
    assert multiplied(tmp_path) == ("1", "")


def test_processes_that_compile_at_the_same_time_are_handed_no_code_of_the_other(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    from engine.model.products.code_cache import CodeFiles

    first, second = (CodeFiles(str(tmp_path), "function", 0) for _ in range(2))
    first.save("of one type", b"one")
    second.save("of another", b"other")
    assert (first.load("of another"), second.load("of one type")) == (b"other", b"one")
    assert CodeFiles(str(tmp_path), "function", 1).load("of another") is None, "of another source"


def test_a_full_disk_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    from engine.model.products.code_cache import CodeFiles  # where numba is installed

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compiling._Folder, "path", tmp_path)
    monkeypatch.setattr(CodeFiles, "save", full)
    assert compiling.compiled(lambda x: x + 1)(2) == 3


def test_code_belongs_to_all_sources_that_it_is_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "blocks.py").write_text("before")
    monkeypatch.setattr(compiling, "__file__", str(tmp_path / "compiling.py"))
    monkeypatch.setattr(compiling._Folder, "path", tmp_path / "compiled")
    before = compiling.kept_folder()
    compiling.kept_folder.cache_clear()
    (tmp_path / "units" / "blocks.py").write_text("after")
    assert compiling.kept_folder() != before


@pytest.mark.skipif(platform.machine().lower() not in {"x86_64", "amd64"}, reason="names of such processors")
def test_processors_that_do_not_widen_float16_have_no_loops() -> None:
    code = "from engine.model.products.compiling import has_compiler; print(has_compiler())"
    environment = {**os.environ, "NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

"""Compiled loops are kept in one folder, for one state of the sources, and numba is imported when it is needed."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.model.products import compiling


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """What was found for another folder."""
    compiling._kept.cache_clear()
    yield
    compiling._kept.cache_clear()


def test_nothing_is_kept_without_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling._Folder, "path", None)
    assert compiling._kept() is None


def test_code_of_other_sources_is_removed_when_nobody_uses_it_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling._Folder, "path", tmp_path / "compiled")
    for name, age in (("of-before", 2 * compiling.UNUSED_SECONDS), ("in-use", 60)):
        (tmp_path / "compiled" / name).mkdir(parents=True)
        os.utime(tmp_path / "compiled" / name, (time.time() - age,) * 2)
    found = compiling._kept()
    assert found is not None
    assert {path.name for path in (tmp_path / "compiled").iterdir()} == {found.name, "in-use"}


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(compiling._Folder, "path", tmp_path / "file" / "compiled")
    assert compiling._kept() is None


def test_numba_is_not_imported_with_what_uses_it() -> None:
    code = "import sys, engine.weights.codecs.codec, engine.model.gguf.packed_blocks; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_without_numba_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    compiling.has_compiler.cache_clear()
    monkeypatch.setitem(sys.modules, "numba", None)
    assert not compiling.has_compiler()
    compiling.has_compiler.cache_clear()

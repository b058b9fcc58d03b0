"""A packaged Coppice finds its resources, the engine's sources and the runtime parts where the build puts them."""

import sys
from pathlib import Path

import pytest

from app.system import bundle


def test_a_checkout_is_its_own_root_and_carries_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(bundle.PARTS_VARIABLE, raising=False)
    assert not bundle.is_frozen()
    assert (bundle.root() / "engine" / "process.py").is_file()
    assert (bundle.root() / "resources" / "models").is_dir()
    assert bundle.runtime_parts() is None


def test_a_packaged_program_looks_inside_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(bundle.PARTS_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path), raising=False)
    parts = bundle.runtime_parts()
    assert bundle.root() == tmp_path / "source"
    assert parts is not None
    assert parts.folder == tmp_path / "runtime"
    assert not parts.is_complete


def test_parts_made_by_hand_are_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(bundle.PARTS_VARIABLE, str(tmp_path))
    parts = bundle.runtime_parts()
    assert parts is not None
    for path in (parts.uv, parts.python, parts.lock("cpu")):
        assert not parts.is_complete
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert parts.is_complete
    assert parts.lock("cuda") == tmp_path / "locks" / "cuda.json"

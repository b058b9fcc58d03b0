"""The locks that are shipped: what the engine imports is in each, in the versions that everything is tested with."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from app.installation.runtime.lock import Lock, LockError, read_lock

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "packaging" / "locks").glob("*/*.json"))
CALLED = {"PIL": "pillow"}  # packages whose modules are called otherwise
ON_DEMAND = {"accelerate", "bitsandbytes"}  # a baseline of benchmarks; 4-bit kernels on CUDA


def versions() -> dict[str, str]:
    """The exact versions of constraints.txt."""
    lines = (ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pairs}


@cache
def imported() -> frozenset[str]:
    """The packages that the engine imports, as an index spells them."""
    found = set()
    for path in (ROOT / "engine").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    others = found - set(sys.stdlib_module_names) - {"engine"} - ON_DEMAND
    return frozenset(CALLED.get(name, name).replace("_", "-") for name in others)


@pytest.fixture(params=LOCKS, ids=[f"{path.parent.name}-{path.stem}" for path in LOCKS])
def lock(request: pytest.FixtureRequest) -> Lock:
    """Each lock in turn."""
    return read_lock(request.param)


def test_there_are_locks_for_every_system() -> None:
    named = {f"{path.parent.name}/{path.stem}" for path in LOCKS}
    assert {
        "linux-x86_64/cpu",
        "linux-x86_64/cuda",
        "linux-x86_64/rocm",
        "windows-x86_64/cpu",
        "windows-x86_64/cuda",
        "macos-arm64/metal",
    } <= named


def test_a_lock_has_everything_that_the_engine_imports(lock: Lock) -> None:
    assert imported() <= {wheel.project for wheel in lock.wheels}


def test_a_lock_has_the_versions_that_are_tested(lock: Lock) -> None:
    wanted = versions()
    others = {
        wheel.project: wheel.version
        for wheel in lock.wheels
        if wanted.get(wheel.project, wheel.version) != wheel.version.split("+")[0]
    }
    assert others == {}


def test_a_lock_names_each_package_once_and_checks_all_but_torch_s_own(lock: Lock) -> None:
    projects = [wheel.project for wheel in lock.wheels]
    assert len(projects) == len(set(projects))
    assert {wheel.project for wheel in lock.wheels if not wheel.sha256} <= {"torch", "triton-rocm"}
    assert lock.installed_bytes > lock.bytes


def test_only_an_index_that_is_named_has_builds_of_its_own(lock: Lock) -> None:
    assert [wheel.file for wheel in lock.wheels if "+" in wheel.version and not wheel.index] == []


def test_a_lock_has_torch_for_what_it_computes_on(lock: Lock) -> None:
    torch = next(wheel for wheel in lock.wheels if wheel.project == "torch")
    has_cuda_libraries = any(wheel.project == "nvidia-cublas" for wheel in lock.wheels)
    assert has_cuda_libraries == (lock.build == "cuda" and "linux" in torch.file), "on Windows they are inside torch"
    assert ("rocm" in torch.version) == (lock.build == "rocm")
    assert "cpu" not in torch.version or lock.build == "cpu"


def test_a_lock_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    for content in ("", "{}", '{"format": 2}', '{"format": 1, "wheels": [{"file": "../x.whl"}]}'):
        (tmp_path / "cpu.json").write_text(content)
        with pytest.raises(LockError, match="cannot be read"):
            read_lock(tmp_path / "cpu.json")
    with pytest.raises(LockError, match="carries no lock"):
        read_lock(tmp_path / "metal.json")

"""The set-up script, as far as it can be tried without installing anything."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the script is for Linux and macOS")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what the script reads, under a name with a space and a letter beyond ASCII."""
    root = tmp_path / "Größe x" / "coppice"
    shutil.copytree(ROOT / "packaging", root / "packaging", ignore=shutil.ignore_patterns("demo_models"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def bootstrap(clone: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script from another folder than its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COPPICE_")}
    return subprocess.run(
        ["bash", str(clone / "packaging" / "bootstrap.sh"), *arguments],
        cwd=clone.parents[1],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def write_script(path: Path, text: str) -> Path:
    """Write an executable shell script."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_help_names_the_commands(clone: Path) -> None:
    done = bootstrap(clone, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    for command in ("run", "test", "check"):
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize("arguments", [[], ["install"]])
def test_anything_but_a_command_shows_the_help_and_exits_2(clone: Path, arguments: list[str]) -> None:
    done = bootstrap(clone, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage:")


def test_check_says_what_is_missing_and_changes_nothing(clone: Path) -> None:
    before = sorted(clone.rglob("*"))
    done = bootstrap(clone, "check", PYTHON=sys.executable)
    assert (done.returncode, done.stderr) == (1, "")
    assert f"ok       Python {sys.version.split()[0]}: {sys.executable}" in done.stdout
    assert f"missing  virtual environment: {clone}/.venv" in done.stdout
    assert "missing  packages" in done.stdout
    assert "missing  embedded model" in done.stdout
    assert sorted(clone.rglob("*")) == before


def test_a_python_that_does_not_run_is_passed_over(clone: Path, tmp_path: Path) -> None:
    """A version manager leaves commands for Pythons that are not switched on: they exist, and fail."""
    shims = tmp_path / "shims"
    shims.mkdir()
    for version in ("3.11", "3.12", "3.13"):
        write_script(shims / f"python{version}", f"echo 'python{version}: command not found' >&2; exit 127")
    write_script(shims / "python3", f'exec "{sys.executable}" "$@"')
    done = bootstrap(clone, "check", PATH=f"{shims}:/usr/bin:/bin", PYENV_ROOT=str(tmp_path))
    assert f"ok       Python {sys.version.split()[0]}: " in done.stdout or "/usr/bin/python3.1" in done.stdout
    assert "shims/python3.1" not in done.stdout


def test_a_python_named_by_hand_that_does_not_run_is_an_error(clone: Path, tmp_path: Path) -> None:
    broken = write_script(tmp_path / "python", "exit 127")
    done = bootstrap(clone, "run", PYTHON=str(broken))
    assert done.returncode == 1
    assert f"error: PYTHON={broken} is not a working 64-bit Python 3.11, 3.12 or 3.13." in done.stderr
    assert not (clone / ".venv").exists()


def test_a_folder_that_is_no_environment_is_never_emptied(clone: Path, tmp_path: Path) -> None:
    letters = tmp_path / "letters"
    letters.mkdir()
    (letters / "dear.txt").write_text("Dear", encoding="utf-8")
    done = bootstrap(clone, "run", PYTHON=sys.executable, COPPICE_VENV="letters")
    assert done.returncode == 1
    assert f"error: {letters} is not a virtual environment and not empty." in done.stderr
    assert (letters / "dear.txt").read_text(encoding="utf-8") == "Dear"


def test_an_unknown_build_of_torch_is_an_error(clone: Path) -> None:
    done = bootstrap(clone, "run", PYTHON=sys.executable, COPPICE_TORCH="rocm")
    assert done.returncode == 1
    assert "error: COPPICE_TORCH=rocm is not a build of PyTorch. Give cpu, cuda or default." in done.stderr
    assert not (clone / ".venv").exists()


def test_the_table_of_libraries_has_a_package_for_every_library_and_manager() -> None:
    table = (ROOT / "packaging" / "linux" / "libraries.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in table if not line.startswith("#")]
    assert {len(row) for row in rows} == {4}
    assert [row[0] for row in rows] == sorted({row[0] for row in rows})

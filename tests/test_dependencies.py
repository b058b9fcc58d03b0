"""Dependencies: every one has its reason, a range that admits the tested version, and a tested version."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REQUIREMENTS = [
    Requirement(line)
    for line in [
        *PYPROJECT["project"]["dependencies"],
        *PYPROJECT["project"]["optional-dependencies"]["dev"],
        *PYPROJECT["project"]["optional-dependencies"]["bundle"],
        *PYPROJECT["build-system"]["requires"],
    ]
]
CONSTRAINTS = [
    Requirement(line)
    for line in (ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
TESTED = {canonicalize_name(line.name): str(line.specifier).removeprefix("==") for line in CONSTRAINTS}


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda requirement: requirement.name)
def test_a_range_admits_the_tested_version(requirement: Requirement) -> None:
    assert requirement.specifier.contains(TESTED[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("line", CONSTRAINTS, ids=lambda line: line.name)
def test_a_constraint_is_one_exact_version_for_every_platform(line: Requirement) -> None:
    assert re.fullmatch(r"==[0-9][0-9A-Za-z.]*", str(line.specifier)), "no range, and no build suffix such as +cpu"
    assert line.marker is None


def test_every_dependency_says_why_it_is_there() -> None:
    block = (
        (ROOT / "pyproject.toml")
        .read_text(encoding="utf-8")
        .split("\ndependencies = [")[1]
        .split("[project.scripts]")[0]
    )
    lines = [line for line in block.splitlines() if line.strip().startswith('"')]
    assert len(lines) == len(REQUIREMENTS) - len(PYPROJECT["build-system"]["requires"])
    assert [line for line in lines if not re.search(r'",\s+# \w', line)] == []


def test_our_packaging_folder_does_not_hide_the_library_of_that_name() -> None:
    """Without an `__init__.py` a folder on the path gives way to an installed package; with one it would win."""
    assert not (ROOT / "packaging" / "__init__.py").exists()
    code = "import packaging.requirements; print(packaging.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ROOT / "packaging" not in Path(done.stdout.strip()).parents

"""What goes into the bundle: every package the window imports, nothing of the engine's, tools in exact versions."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib import util
from importlib.metadata import packages_distributions
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
HEAVY = {"torch", "transformers", "tokenizers", "safetensors", "bitsandbytes", "accelerate", "numba"}


def imported(path: Path) -> set[str]:
    """The modules from elsewhere that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name for name in found if name.split(".")[0] not in {*sys.stdlib_module_names, "app", "engine"}}


@cache
def of_the_window() -> frozenset[str]:
    """Those of the application, and of the part of the engine that it knows."""
    known = [ROOT / "engine" / "errors.py", *(ROOT / "engine" / "protocol").rglob("*.py")]
    return frozenset().union(*(imported(path) for path in [*(ROOT / "app").rglob("*.py"), *known]))


def lines_of(name: str) -> set[str]:
    """The packages in a list of packages."""
    lines = (PACKAGING / "bundle" / name).read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(line) for line in lines if not line.startswith("#")}


def unwanted() -> set[str]:
    """The modules that the spec leaves out."""
    spec = ast.parse((PACKAGING / "bundle" / "coppice.spec").read_text(encoding="utf-8"))
    values = (node.value for node in spec.body if isinstance(node, ast.Assign) and _name(node) == "UNWANTED")
    return {str(leaf.value) for value in values for leaf in ast.walk(value) if isinstance(leaf, ast.Constant)}


def _name(node: ast.Assign) -> str:
    return node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""


def test_the_bundle_is_made_with_every_package_the_window_imports() -> None:
    known = packages_distributions()
    tops = {name.split(".")[0] for name in of_the_window()}
    names = {canonicalize_name(known[top][0]) for top in tops}
    assert names - {"shiboken6"} <= lines_of("window.in") | {"markdown-it-py"}


def test_nothing_the_window_imports_is_left_out() -> None:
    out = unwanted()
    assert [name for name in of_the_window() if any(name == each or name.startswith(f"{each}.") for each in out)] == []


def test_the_bundle_holds_no_torch() -> None:
    assert unwanted() >= HEAVY
    assert not lines_of("window.in") & {canonicalize_name(name) for name in HEAVY}
    assert not {name.split(".")[0] for name in of_the_window()} & HEAVY


def test_the_tools_of_the_build_have_exact_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    constraints = (PACKAGING / "constraints.txt").read_text(encoding="utf-8")
    exact = {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", constraints, re.MULTILINE)}
    tools = {canonicalize_name(Requirement(line).name) for line in project["optional-dependencies"]["bundle"]}
    assert {"pyinstaller", "uv"} <= tools <= exact
    assert lines_of("window.in") <= exact


def test_the_bundle_ships_what_the_engine_finds_beside_itself() -> None:
    """Both look for `resources` next to their package: the bundle's folder `source` has to be like the checkout."""
    source = (ROOT / "engine" / "model" / "model_folder.py").read_text(encoding="utf-8")
    spec = (PACKAGING / "bundle" / "coppice.spec").read_text(encoding="utf-8")
    assert 'parents[2] / "resources" / "models"' in source
    assert 'files_below("engine", "*.py")' in spec
    assert 'files_below("resources", "*")' in spec
    assert 'Path("source", ' in spec


@pytest.mark.parametrize("name", ["linux/build.sh", "macos/build.sh", "linux/verify.sh", "linux/extract.sh"])
def test_a_script_says_how_it_is_used(name: str) -> None:
    assert "--help" in (PACKAGING / name).read_text(encoding="utf-8")


def test_the_runtime_that_torch_needs_on_windows_lies_beside_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = util.spec_from_file_location("carried_python", PACKAGING / "bundle" / "carried_python.py")
    assert spec is not None
    assert spec.loader is not None
    carried = util.module_from_spec(spec)
    spec.loader.exec_module(carried)
    wheel, home = tmp_path / "shiboken6", tmp_path / "python"
    home.mkdir()
    wheel.mkdir()
    monkeypatch.setattr(carried, "find_spec", lambda _name: SimpleNamespace(submodule_search_locations=[str(wheel)]))
    with pytest.raises(SystemExit, match="Visual C\\+\\+ runtime"):
        carried.add_visual_runtime(home)
    for name in ("msvcp140.dll", "vcruntime140_1.dll", "shiboken6.abi3.dll"):
        (wheel / name).write_text("new")
    (home / "vcruntime140_1.dll").write_text("old")
    carried.add_visual_runtime(home)
    assert {path.name: path.read_text() for path in home.iterdir()} == dict.fromkeys(
        ("msvcp140.dll", "vcruntime140_1.dll"), "new"
    )

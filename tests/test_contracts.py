"""What the source tree promises as a whole: light imports, short files, a reason for every dependency."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST_FILE = 500
HEAVY = {"torch", "transformers", "safetensors", "tokenizers", "huggingface_hub", "bitsandbytes"}


def sources(*folders: str, pattern: str = "*.py") -> list[Path]:
    """Every file below `folders` that fits `pattern`."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob(pattern))]


PYTHON = sources("engine", "app", "tests", "packaging")
EVERYTHING = sources("engine", "app", "tests", "packaging", "resources", pattern="*")


def name(path: Path) -> str:
    """The path as a test id."""
    return str(path.relative_to(ROOT))


def imported_by(module: str) -> set[str]:
    """The top-level packages that a fresh interpreter loads for `import module`."""
    code = f"import sys; before = set(sys.modules); import {module}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return {loaded.partition(".")[0] for loaded in done.stdout.split()}


@pytest.mark.parametrize(
    "module", ["engine.errors", "engine.gguf_header", "engine.protocol.options", "engine.protocol.messages"]
)
def test_the_counter_loads_the_standard_library_only(module: str) -> None:
    assert imported_by(module) <= sys.stdlib_module_names | {"engine"}


def test_the_window_loads_nothing_heavy() -> None:
    loaded = imported_by("app.main")
    assert "PySide6" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize("module", ["engine.__main__", "app.__main__", "engine.process"])
def test_entry_points_load_nothing_heavy_before_they_must(module: str) -> None:
    assert not imported_by(module) & HEAVY


@pytest.mark.parametrize("package", ["engine", "app"])
def test_help_is_there_without_a_traceback(package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", package, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage" in done.stdout.lower()


def test_files_compile_without_warnings_open_with_their_purpose_and_are_short() -> None:
    """All in one test: a thousand cases of their own would cost more than what they do."""
    long, aimless = [], []
    for path in PYTHON:
        text = path.read_text(encoding="utf-8")
        compiled = compile(text, str(path), "exec")  # pytest turns warnings into errors, which name the file
        long += [name(path)] if len(text.splitlines()) > LONGEST_FILE else []
        aimless += [name(path)] if text.strip() and "__doc__" not in compiled.co_names else []
    assert long == []
    assert aimless == [], "a module opens with one sentence of purpose"


@pytest.mark.parametrize("path", sources("packaging", pattern="*.sh"), ids=name)
def test_a_shell_script_is_short_and_opens_with_its_purpose(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#!")]
    assert len(lines) <= LONGEST_FILE
    assert lines[0].startswith("# ")


def test_nothing_is_a_symbolic_link() -> None:
    assert [name(path) for path in EVERYTHING if path.is_symlink()] == []


@pytest.mark.parametrize("model", ["demo-target", "demo-draft"])
def test_an_embedded_model_holds_weights_and_nothing_that_can_run(model: str) -> None:
    files = sources(f"resources/models/{model}", pattern="*")
    # Other tests, at the same time, measure the disk with a file that is there for a moment.
    files = [path for path in files if path.suffix != ".part"]
    assert {path.suffix for path in files} <= {".safetensors", ".json", ".jinja", ".md", ".txt"}
    weights = [path for path in files if path.suffix == ".safetensors"]
    assert weights
    for path in weights:
        with path.open("rb") as file:
            header_bytes = int.from_bytes(file.read(8), "little")
            assert file.read(1) == b"{", "a safetensors file begins with the size of its JSON header, then the header"
        assert header_bytes < path.stat().st_size

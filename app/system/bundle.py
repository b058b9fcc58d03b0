"""Says whether this is a packaged Coppice, and where the parts lie that the engine's runtime is made from."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

PARTS_VARIABLE = "COPPICE_RUNTIME_PARTS"
"""Names a folder of runtime parts made by hand, for work on the first run from a checkout and for tests."""

DRAW = "draw"
"""The word by which a packaged program, which has no Python to start, is told to be the `drawing_program`."""

ENCODE = "encode"
"""The same for the `encoding_program` of animations."""

READ_PDF = "read-pdf"
"""The same for the `pdf_program`, which finds the text of an attached file."""

READ_PICTURE = "read-picture"
"""The same for the `picture_program`, which decodes an attached picture."""


def is_frozen() -> bool:
    """Whether this process is a packaged program, which has no Python to start others with."""
    return bool(getattr(sys, "frozen", False))


def root() -> Path:
    """The folder that holds `resources/` and the package `engine`: the engine's Python gets it as `PYTHONPATH`.

    It is the checkout (or site-packages), or the folder `source` of a packaged Coppice, which holds nothing else.
    """
    if is_frozen():
        return _contents() / "source"
    return Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class RuntimeParts:
    """What a packaged Coppice carries to make an engine runtime from; `packaging/README.md` tells the layout."""

    folder: Path

    @property
    def uv(self) -> Path:
        """The program that installs packages."""
        return self.folder / ("uv.exe" if os.name == "nt" else "uv")

    @property
    def python_home(self) -> Path:
        """A whole Python that works wherever it is copied to; the engine must never run from here, only from a copy."""
        return self.folder / "python"

    @property
    def python(self) -> Path:
        """The program of `python_home`."""
        return python_of(self.python_home)

    def lock(self, build: str) -> Path:
        """The exact wheels for one build of torch on this system: `cpu`, `cuda`, `rocm` or `metal`."""
        return self.folder / "locks" / f"{build}.json"

    @property
    def is_complete(self) -> bool:
        """Whether a runtime can be made from it."""
        return all(path.is_file() for path in (self.uv, self.python)) and any(self.folder.glob("locks/*.json"))


def python_of(home: Path) -> Path:
    """The program of a Python that was copied to `home`."""
    return home / "python.exe" if os.name == "nt" else home / "bin" / "python3"


def runtime_parts() -> RuntimeParts | None:
    """The parts this Coppice carries; None where it was not packaged and the environment names none."""
    named = os.environ.get(PARTS_VARIABLE)
    if named:
        return RuntimeParts(Path(named).absolute())
    return RuntimeParts(_contents() / "runtime") if is_frozen() else None


def _contents() -> Path:
    """Where the files of a packaged Coppice lie: `_internal` beside the program, or within the .app."""
    return Path(getattr(sys, "_MEIPASS", Path(sys.executable).parent))

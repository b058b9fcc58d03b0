"""Freezes Coppice into one folder: `python packaging/bundle/freeze.py` leaves it in build/bundle/coppice.

Start it with the Python 3.11 to be frozen; it makes an environment of its own below build/ with the packages of
window.in and of the extra `bundle` in pyproject.toml, in the versions of constraints.txt. README.md tells the result.
"""

import argparse
import compileall
import os
import platform
import py_compile
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build"
ENVIRONMENT = BUILD / "environment"
PYTHON = (3, 11)  # that of packaging/locks


def main() -> None:
    """Outside of the environment: make it, then go on inside. Inside: freeze."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python", type=Path, metavar="HOME", help="a relocatable Python to carry, instead of this one"
    )
    options = parser.parse_args()
    if sys.version_info[:2] != PYTHON:
        raise SystemExit(
            f"Start this with Python {PYTHON[0]}.{PYTHON[1]}: the locks of the engine's runtime are for that."
        )
    if Path(sys.prefix) == ENVIRONMENT:
        freeze(options.python)
    else:
        raise SystemExit(subprocess.run([prepare(), __file__, *sys.argv[1:]], check=False).returncode)


def requirements() -> list[str]:
    """What the environment holds: the window's packages, and the tools."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [*window_packages(), *project["project"]["optional-dependencies"]["bundle"]]


def window_packages() -> list[str]:
    """The names in window.in."""
    lines = (HERE / "window.in").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def version() -> str:
    """Coppice's own."""
    text = (ROOT / "engine" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "(.+)"', text)
    assert found
    return found[1]


def prepare() -> Path:
    """Make the environment if it is not there, and bring it up to date; returns its Python."""
    python = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.is_file():
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
    constraints = str(ROOT / "packaging" / "constraints.txt")
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints]
    subprocess.run([*command, *requirements()], check=True)
    return python


def freeze(carried: Path | None) -> None:
    """The whole bundle."""
    bundle = BUILD / "bundle" / "coppice"
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"]
    command += ["--distpath", str(bundle.parent), "--workpath", str(BUILD / "work"), str(HERE / "coppice.spec")]
    subprocess.run(command, check=True)
    furnish(bundle, carried)


def furnish(bundle: Path, carried: Path | None) -> None:
    """Add to what PyInstaller made what it knows nothing of, and tell what all weighs."""
    import notices  # noqa: PLC0415  # what they need is only in the environment
    import runtime_parts  # noqa: PLC0415

    contents = contents_of(bundle)
    strip(contents)
    runtime_parts.make(contents / "runtime", carried)
    compile_sources(contents / "source" / "engine")
    shutil.rmtree(contents / "licenses", ignore_errors=True)
    count = notices.write(contents / "licenses", contents, window_packages(), version())
    if platform.system() == "Linux":
        subprocess.run([bundle / "coppice", "--version"], check=True)  # it starts; `verify.sh` opens its window
    print(f"{bundle}: {weight(bundle) / 1e6:,.0f} MB, {count} components")
    for name in ("source", "runtime", "licenses"):
        print(f"  {name}: {weight(contents / name) / 1e6:,.0f} MB")


def contents_of(bundle: Path) -> Path:
    """Where files are added to a folder that PyInstaller made, or to its .app, where code and other files lie apart."""
    app = bundle.with_name("Coppice.app")
    if platform.system() != "Darwin" or not app.exists():
        return bundle / "_internal"
    for name in ("runtime", "licenses"):
        link = app / "Contents" / "Frameworks" / name
        if not link.is_symlink():
            link.symlink_to(Path("..", "Resources", name))
    return app / "Contents" / "Resources"


def strip(contents: Path) -> None:
    """Take the debugger's names out of Python itself: three quarters of it. Wheels come as they should be."""
    if sys.platform != "linux":
        return
    for path in [*contents.glob("libpython*"), *contents.glob("python3*/lib-dynload/*.so")]:
        subprocess.run(["strip", "--strip-unneeded", str(path)], check=True)  # noqa: S607  # whichever is there


def compile_sources(folder: Path) -> None:
    """So that an engine that may not write there starts as fast as one that may; valid wherever the files go."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(folder, quiet=1, invalidation_mode=mode, stripdir=str(folder.parent), workers=0):
        raise SystemExit(f"{folder} could not be compiled")


def weight(path: Path) -> int:
    """The bytes of the files below."""
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file() and not each.is_symlink())


if __name__ == "__main__":
    main()

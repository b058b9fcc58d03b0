"""Collects the licences of everything that a bundle holds, and writes its bill of materials (CycloneDX).

Part of the build, in the environment that was frozen: freeze.py calls it. What has no licence text fails the build.
"""

import json
import platform
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).resolve().parent
TEXTS = HERE.parent / "licenses"
QT = {"pyside6-essentials", "shiboken6"}  # their wheels hold no licence
CARRIED = ("uv", "pyinstaller")  # the one as a program, the other's loader
_LICENSE = re.compile(r"(^|/)(LICEN[CS]E|COPYING|NOTICE|AUTHORS)[^/]*$|/licenses/", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Component:
    """One thing in the bundle, and the files that hold its licence."""

    name: str
    version: str
    license: str
    url: str
    texts: tuple[Path, ...]

    def entry(self) -> dict[str, Any]:
        """As CycloneDX has it; `url` is a package URL."""
        entry: dict[str, Any] = {"type": "library", "name": self.name, "version": self.version, "bom-ref": self.url}
        if self.license:
            entry["licenses"] = [{"license": {"name": self.license}}]
        return entry | {"purl": self.url}


def write(folder: Path, bundle: Path, names: Iterable[str], version: str) -> int:
    """Fill `folder` for a bundle made of these requirements; returns the number of components."""
    components = [component(each) for each in closure([*names, *CARRIED[:1]])]
    components += [component(distribution(CARRIED[1])), interpreter()]
    if sys.platform == "linux":
        components += system_libraries(bundle)
    folder.mkdir()
    for each in components:
        if not each.texts:
            raise SystemExit(f"{each.name} {each.version} has no licence text; put it into {TEXTS}")
        target = folder / each.name
        target.mkdir(exist_ok=True)
        for number, text in enumerate(each.texts):
            name = text.name if not (target / text.name).exists() else f"{number}-{text.name}"
            shutil.copyfile(text, target / name)
    shutil.copyfile(HERE.parents[1] / "LICENSE", folder / "LICENSE")
    models = HERE.parent / "demo_models" / "LICENSES.md"
    shutil.copyfile(models, folder / "embedded-models.md")
    (folder / "sbom.json").write_text(json.dumps(bill(components, version), indent=1) + "\n", encoding="utf-8")
    return len(components)


def bill(components: Iterable[Component], version: str) -> dict[str, Any]:
    """The bill of materials."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "component": {"type": "application", "name": "coppice", "version": version, "bom-ref": "coppice"},
            "properties": [{"name": "coppice:platform", "value": f"{sys.platform}-{platform.machine()}"}],
        },
        "components": [each.entry() for each in sorted(components, key=lambda each: each.url)],
    }


def closure(names: Iterable[str]) -> list[Distribution]:
    """The installed distributions of these names, and all that they require here."""
    found: dict[str, Distribution] = {}
    queue = list(names)
    while queue:
        name = canonicalize_name(queue.pop())
        if name in found or name == "hf-xet":  # left out of the bundle
            continue
        found[name] = distribution(name)
        required = (Requirement(each) for each in found[name].requires or ())
        queue += [each.name for each in required if each.marker is None or each.marker.evaluate({"extra": ""})]
    return [found[name] for name in sorted(found)]


def component(of: Distribution) -> Component:
    """What the metadata of an installed package says."""
    meta: Message = of.metadata  # type: ignore[assignment]  # it is one, at run time
    name = canonicalize_name(meta["Name"])
    files = (each for each in of.files or () if _LICENSE.search(each.as_posix()) and "sboms" not in each.parts)
    texts = tuple(
        path for path in (Path(str(each.locate())) for each in files) if path.is_file() and path.suffix != ".py"
    )
    if name in QT:
        texts = tuple(TEXTS / each for each in ("QT.txt", "LGPL-3.0.txt", "GPL-3.0.txt"))
    return Component(name, of.version, license_of(meta), f"pkg:pypi/{name}@{of.version}", texts or _kept(name))


def license_of(meta: Message) -> str:
    """In one line, from wherever a package says it."""
    classifiers = [
        each.rsplit(" :: ", 1)[-1] for each in meta.get_all("Classifier") or () if each.startswith("License")
    ]
    short = str(meta.get("License") or "").strip().splitlines()[:1]
    return str(meta.get("License-Expression") or " OR ".join(classifiers) or "".join(short))


def interpreter() -> Component:
    """Python itself, which the bundle holds twice: for the window, and for the engine."""
    version = platform.python_version()
    base = Path(sys.base_prefix)
    found = [
        path
        for path in (base / "LICENSE.txt", base / "lib" / f"python{version.rpartition('.')[0]}" / "LICENSE.txt")
        if path.is_file()
    ]
    return Component("python", version, "PSF-2.0", f"pkg:generic/python@{version}", tuple(found[:1]))


def system_libraries(bundle: Path) -> Iterator[Component]:
    """The libraries of the build's system that were copied into the bundle, by Debian package."""
    known: dict[str, set[Path]] = {}
    for path in sorted(bundle.rglob("*.so*")):
        if path.is_file() and not path.is_symlink() and not path.name.startswith("libpython"):
            for package in _packages_with(path.name):
                known.setdefault(package, set()).add(path)
    for package in sorted(known):
        version = _run("dpkg-query", "--show", "--showformat=${Version}", package)
        name = package.partition(":")[0]
        text = Path("/usr/share/doc") / name / "copyright"
        yield Component(name, version, "", f"pkg:deb/debian/{name}@{version}", (text,) if text.is_file() else ())


def _packages_with(name: str) -> list[str]:
    """The packages that own a library of that name; libraries of wheels have names of their own."""
    lines = (line.partition(": ") for line in _run("dpkg-query", "--search", f"*/{name}").splitlines())
    owners = {owner for owner, _, path in lines if re.fullmatch(rf"(/usr)?/lib/[^/]+/{re.escape(name)}", path)}
    return sorted(owners)[:1]


def _kept(name: str) -> tuple[Path, ...]:
    return tuple(sorted(TEXTS.glob(f"{name}.txt")))


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout

"""Tiny wheels made on the fly, a lock of them, and a package index on this machine that hands them out, or fails to."""

import hashlib
import json
import random
import zipfile
from dataclasses import dataclass, field
from io import BytesIO

from app.installation.runtime.lock import Lock, Wheel
from tests.hub import Hub
from tests.hub.answers import Answer, Catalogue, Question

TORCH = "torch-9.1.0+tiny-py3-none-any.whl"
BLOB = "tiny_blob-1.0-py3-none-any.whl"
_MODULE = """import os, tiny_blob
__version__ = "9.1.0+tiny"
class cuda:
    def is_available(): return "COPPICE_TINY_CARD" in os.environ
def answer(): return f"{len(tiny_blob.DATA)} bytes"
"""


def wheel(file: str, modules: dict[str, str]) -> bytes:
    """A wheel with these modules; the same bytes every time."""
    name, version = file.split("-")[:2]
    about = f"{name}-{version}.dist-info"
    files = {path: text.encode() for path, text in modules.items()}
    files[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    files[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{about}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{about}/RECORD"]).encode()
    body = BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path), content)
    return body.getvalue()


def tiny_wheels() -> dict[str, bytes]:
    """A torch that can answer, and a large package that it needs, 300 kB of it."""
    data = random.Random(8).randbytes(150_000).hex()
    return {
        TORCH: wheel(TORCH, {"torch/__init__.py": _MODULE, "transformers/__init__.py": ""}),
        BLOB: wheel(BLOB, {"tiny_blob/__init__.py": f'DATA = "{data}"\n'}),
    }


def lock_of(wheels: dict[str, bytes], build: str = "cpu") -> Lock:
    """What pins them."""
    entries = tuple(Wheel(name, hashlib.sha256(body).hexdigest(), len(body)) for name, body in wheels.items())
    return Lock(build, "3.11", sum(map(len, wheels.values())), entries)


@dataclass
class _Shelves(Catalogue):
    wheels: dict[str, bytes] = field(default_factory=dict)
    speaks_json: bool = True

    def answer(self, question: Question) -> Answer:
        """A project's page, or a file."""
        parts = question.path.strip("/").split("/")
        name = parts[-1].replace("%2B", "+")
        if parts[0] == "simple":
            return self._page(name)
        if name in self.wheels:
            return Answer(200, self.wheels[name], {"Accept-Ranges": "bytes"}, is_file=True)
        return Answer(404, b"Not found")

    def _page(self, project: str) -> Answer:
        named = {name: body for name, body in self.wheels.items() if Wheel(name, "", 1).project == project}
        if not named:
            return Answer(404, b"Not found")
        sums = {name: hashlib.sha256(body).hexdigest() for name, body in named.items()}
        if not self.speaks_json:
            links = (
                f'<a href="../../files/{name.replace("+", "%2B")}#sha256={sums[name]}">{name}</a>' for name in named
            )
            page = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>"
            return Answer(200, page.encode(), {"Content-Type": "text/html"})
        files = [
            {"filename": name, "url": f"../../files/{name}", "hashes": {"sha256": sums[name]}, "size": len(body)}
            for name, body in named.items()
        ]
        page = json.dumps({"meta": {"api-version": "1.1"}, "files": files})
        return Answer(200, page.encode(), {"Content-Type": "application/vnd.pypi.simple.v1+json"})


class PackageIndex(Hub):
    """The loopback hub's servers and faults with packages on them; `address` is the index's."""

    def __init__(self, wheels: dict[str, bytes]) -> None:
        super().__init__()
        self.shelves = _Shelves(wheels=dict(wheels))
        self.catalogue = self.shelves
        self.address = f"{self.endpoint}/simple"

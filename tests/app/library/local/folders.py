"""Model folders and hub caches to find models in."""

import hashlib
from pathlib import Path

from tests.links import make_link


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """A plain folder with these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def cached(cache: Path, repo: str, files: dict[str, bytes], commit: str = "c" * 40, main: bool = True) -> Path:
    """A model in a hub cache, with blobs, links and a ref; returns its `models--` folder."""
    root = cache / f"models--{repo.replace('/', '--')}"
    snapshot = root / "snapshots" / commit
    for folder in (snapshot, root / "blobs", root / "refs"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        large = name.endswith((".safetensors", ".gguf"))
        git = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        blob = root / "blobs" / (hashlib.sha256(content) if large else git).hexdigest()
        blob.write_bytes(content)
        make_link(snapshot / name, Path("../../blobs") / blob.name)
    if main:
        (root / "refs" / "main").write_text(commit)
    return root

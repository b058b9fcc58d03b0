"""The files of one model on the hub, as its API lists them, and which of them a model needs."""

import re
from dataclasses import dataclass
from typing import Any

from app.hub.client import REPO, HubClient
from app.hub.rows import ModelRow, row_of
from app.hub.trouble import unusable
from app.system.background import Stop
from app.system.json_text import count

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
TOKENIZER_FILES = (
    "added_tokens.json", "merges.txt", "special_tokens_map.json", "tokenizer.json", "tokenizer.model",
    "tokenizer_config.json", "vocab.json", "vocab.txt", "spiece.model",
)  # fmt: skip

_MOST_BYTES = 32 << 20
_MOST_FILES = 20_000
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a model. `digest`: SHA-256 for large files (LFS), else git's own name for the content."""

    name: str
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Listing:
    """One commit of a model: its row, and the files at its top level whose names mean a file there and nothing else."""

    row: ModelRow
    files: dict[str, RemoteFile]

    @property
    def weight_bytes(self) -> int:
        """Bytes of all safetensors files."""
        return sum(file.bytes for name, file in self.files.items() if name.endswith(".safetensors"))


def list_files(client: HubClient, repo: str, stop: Stop, revision: str = "main") -> Listing:
    """Ask the hub for a model's files. Blocks; raises `HubError` and `Cancelled`."""
    if not REPO.fullmatch(repo):
        raise unusable(repo[:80], "that is no name of a model on the hub")
    address = f"api/models/{repo}/revision/{revision}"
    described, _ = client.json(address, stop, _MOST_BYTES, {"blobs": "true"}, repo)
    row = row_of(described)
    if row is None or not row.revision:
        raise unusable(repo, "the hub does not say what it is")
    siblings = described.get("siblings")
    if not isinstance(siblings, list) or len(siblings) > _MOST_FILES:
        raise unusable(repo, "the hub does not say what files it has")
    files = filter(None, map(_file, siblings))
    return Listing(row, {file.name: file for file in files})


def is_file_name(name: str) -> bool:
    """Whether a name can only mean an entry of the folder itself, on every platform."""
    return (
        0 < len(name) <= 255
        and name not in (".", "..")
        and name.isprintable()
        and not any(character in name for character in '/\\:*?"<>|')
        and not name.endswith((" ", "."))
    )


def _file(sibling: Any) -> RemoteFile | None:
    """An entry of the list; None for what lies in folders, which no model needs, and for names that mean no file."""
    if not isinstance(sibling, dict):
        return None
    name, lfs = sibling.get("rfilename"), sibling.get("lfs")
    if not isinstance(name, str) or not is_file_name(name):
        return None
    digest = lfs.get("sha256") if isinstance(lfs, dict) else sibling.get("blobId")
    known = isinstance(digest, str) and _DIGEST.fullmatch(digest)
    return RemoteFile(name, count(sibling.get("size")), str(digest) if known else "")

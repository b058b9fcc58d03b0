"""Which files of a repository are to be fetched, with sizes and checksums, from the hub's own listing."""

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from app.hub.failures import UnsuitableError
from app.hub.names import choose, is_writable, leads_out
from engine.protocol.sentences import Amount, say

MAX_SMALL_BYTES = 512 << 20  # the largest tokenizers have some 30 MB; the engine opens none above this
MAX_CONFIG_BYTES = 16 << 20
MAX_FILES = 10_000
_CONFIGS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.json",
    "chat_template.jinja",
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ETAG = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DO_NOT_USE = say("Do not use this model, or tell its authors.")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file. `etag` names its content: SHA-256 of an LFS file (64 digits), git's SHA-1 of any other (40)."""

    name: str
    bytes: int
    etag: str

    def checksum(self) -> "hashlib._Hash":
        """A fresh checksum whose hexadecimal digits must be `etag` after all bytes."""
        if len(self.etag) == 64:
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.bytes, usedforsecurity=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """The files of one commit, in the order in which they are fetched."""

    repo_id: str
    commit: str
    files: tuple[RemoteFile, ...]

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(file.bytes for file in self.files)


def read_plan(repo_id: str, listing: Any) -> Plan:
    """The plan for what `/api/models/REPO?blobs=true` answered; raises `UnsuitableError` where there can be none."""
    described = listing if isinstance(listing, dict) else {}
    commit, siblings = described.get("sha"), described.get("siblings")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit) or not isinstance(siblings, list):
        raise _strange(repo_id, say("its listing is not one of a model"))
    if len(siblings) > MAX_FILES:
        raise _strange(repo_id, say("it has more than {limit} files", limit=MAX_FILES))
    entries = {_name(repo_id, sibling): sibling for sibling in siblings}
    chosen = choose(list(entries))
    if not chosen:
        raise UnsuitableError(
            say(
                "{name} holds no weights that can be opened: neither a model.safetensors nor an index of several.",
                name=repo_id,
            ),
            say("Choose a version of the model in the safetensors format."),
        )
    if "config.json" not in chosen:
        raise UnsuitableError(
            say("{name} has no config.json.", name=repo_id), say("Choose a model in the transformers format.")
        )
    return Plan(repo_id, commit, tuple(_file(repo_id, name, entries[name]) for name in chosen))


def _name(repo_id: str, sibling: Any) -> str:
    name = sibling.get("rfilename") if isinstance(sibling, dict) else None
    if not isinstance(name, str):
        raise _strange(repo_id, say("its listing has a file without a name"))
    if leads_out(name):
        raise UnsuitableError(
            say(
                "{name} has a file that would be written outside its folder, {file}.",
                name=repo_id,
                file=repr(name[:80]),
            ),
            _DO_NOT_USE,
        )
    return name


def _file(repo_id: str, name: str, sibling: dict[str, Any]) -> RemoteFile:
    if not is_writable(name):
        raise UnsuitableError(
            say(
                "{name} has a file whose name not every system can keep, {file}.",
                name=repo_id,
                file=repr(name[:80]),
            ),
            _DO_NOT_USE,
        )
    lfs = sibling.get("lfs")
    size = lfs.get("size") if isinstance(lfs, dict) else sibling.get("size")
    etag = lfs.get("sha256") if isinstance(lfs, dict) else sibling.get("blobId")
    if type(size) is not int or size < 0 or not isinstance(etag, str) or not _ETAG.fullmatch(etag):
        raise _strange(repo_id, say("the hub names no size or checksum of {file}", file=name))
    limit = MAX_CONFIG_BYTES if name in _CONFIGS else MAX_SMALL_BYTES
    if not name.endswith(".safetensors") and size > limit:
        message = say(
            "{file} of {name} claims to have {size} MB; such a file has at most {most} MB.",
            file=name,
            name=repo_id,
            size=Amount(f"{size / 1e6:,.0f}"),
            most=limit >> 20,
        )
        raise UnsuitableError(message, _DO_NOT_USE)
    return RemoteFile(name, size, etag)


def _strange(repo_id: str, why: str) -> UnsuitableError:
    return UnsuitableError(
        say("{name} cannot be downloaded: {reason}.", name=repo_id, reason=why),
        say("Check the hub's address (HF_ENDPOINT)."),
    )

"""The files of a model on the hub, as its API lists them, and which of them are to be fetched."""

import hashlib
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from app.hub.client import HubClient
from app.hub.failures import HubError, Reason, unusable
from app.hub.names import choose, is_repo_id, is_writable, leads_out
from app.hub.search import ModelRow, row_of
from app.system.background import Stop
from app.system.json_text import count
from engine.protocol.sentences import Amount, say

MAX_SMALL_BYTES = 512 << 20  # the largest tokenizers have some 30 MB; the engine opens none above this
MAX_CONFIG_BYTES = 16 << 20
MAX_FILES = 10_000
_MAX_LISTING_BYTES = 16 << 20
_CONFIGS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.json",
    "chat_template.jinja",
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
ETAG = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
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
class Listing:
    """One commit of a model: its row, and the files at its top level whose names mean a file there and nothing else.

    Of a file, `bytes` is 0 and `etag` empty where the hub does not say it.
    """

    row: ModelRow
    files: dict[str, RemoteFile]

    @property
    def weight_bytes(self) -> int:
        """Bytes of all safetensors files."""
        return sum(file.bytes for name, file in self.files.items() if name.endswith(".safetensors"))


@dataclass(frozen=True, slots=True)
class Plan:
    """The files of one commit that a model needs, in the order in which they are fetched."""

    repo_id: str
    commit: str
    files: tuple[RemoteFile, ...]

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(file.bytes for file in self.files)


def describe(client: HubClient, repo: str, revision: str, stop: Stop) -> Any:
    """What the hub's API says of a model at a revision, with sizes and checksums of its files.

    Blocks; raises `HubError` and `Cancelled`.
    """
    address = f"api/models/{repo}/revision/{quote(revision, safe='')}"
    return client.json(address, stop, _MAX_LISTING_BYTES, {"blobs": "true"}, repo)[0]


def list_files(client: HubClient, repo: str, stop: Stop, revision: str = "main") -> Listing:
    """A model's files, less those with names that nobody should write. Blocks; raises `HubError` and `Cancelled`."""
    if not is_repo_id(repo):
        raise unusable(repo[:80], say("that is no name of a model on the hub"))
    described = describe(client, repo, revision, stop)
    row = row_of(described)
    if row is None or not row.revision:
        raise unusable(repo, say("the hub does not say what it is"))
    siblings = described.get("siblings")
    if not isinstance(siblings, list) or len(siblings) > MAX_FILES:
        raise unusable(repo, say("the hub does not say what files it has"))
    files = {}
    for sibling in siblings:
        name = sibling.get("rfilename") if isinstance(sibling, dict) else None
        if isinstance(name, str) and is_writable(name):
            size, etag = _content(sibling)
            files[name] = RemoteFile(name, count(size), etag)
    return Listing(row, files)


def read_plan(repo_id: str, described: Any) -> Plan:
    """The plan for what `describe` answered; raises `HubError` where there can be none, or where a name means harm."""
    described = described if isinstance(described, dict) else {}
    commit, siblings = described.get("sha"), described.get("siblings")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit) or not isinstance(siblings, list):
        raise _strange(repo_id, say("its listing is not one of a model"))
    if len(siblings) > MAX_FILES:
        raise _strange(repo_id, say("it has more than {limit} files", limit=MAX_FILES))
    entries = {_name(repo_id, sibling): sibling for sibling in siblings}
    chosen = choose(list(entries))
    if not chosen:
        raise HubError(
            Reason.UNUSABLE,
            say(
                "{name} holds no weights that can be opened: neither a model.safetensors nor an index of several.",
                name=repo_id,
            ),
            say("Choose a version of the model in the safetensors format."),
        )
    if "config.json" not in chosen:
        raise HubError(
            Reason.UNUSABLE,
            say("{name} has no config.json.", name=repo_id),
            say("Choose a model in the transformers format."),
        )
    return Plan(repo_id, commit, tuple(_file(repo_id, name, entries[name]) for name in chosen))


def _name(repo_id: str, sibling: Any) -> str:
    name = sibling.get("rfilename") if isinstance(sibling, dict) else None
    if not isinstance(name, str):
        raise _strange(repo_id, say("its listing has a file without a name"))
    if leads_out(name):
        message = say(
            "{name} has a file that would be written outside its folder, {file}.", name=repo_id, file=repr(name[:80])
        )
        raise HubError(Reason.UNUSABLE, message, _DO_NOT_USE)
    return name


def _file(repo_id: str, name: str, sibling: dict[str, Any]) -> RemoteFile:
    if not is_writable(name):
        message = say(
            "{name} has a file whose name not every system can keep, {file}.", name=repo_id, file=repr(name[:80])
        )
        raise HubError(Reason.UNUSABLE, message, _DO_NOT_USE)
    size, etag = _content(sibling)
    if type(size) is not int or size < 0 or not etag:
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
        raise HubError(Reason.UNUSABLE, message, _DO_NOT_USE)
    return RemoteFile(name, size, etag)


def _content(sibling: dict[str, Any]) -> tuple[object, str]:
    """What the hub gives as a file's size, and its checksum if it has the form of one."""
    lfs = sibling.get("lfs")
    size, etag = (
        (lfs.get("size"), lfs.get("sha256")) if isinstance(lfs, dict) else (sibling.get("size"), sibling.get("blobId"))
    )
    return size, etag if isinstance(etag, str) and ETAG.fullmatch(etag) else ""


def _strange(repo_id: str, why: str) -> HubError:
    return HubError(
        Reason.UNUSABLE,
        say("{name} cannot be downloaded: {reason}.", name=repo_id, reason=why),
        say("Check the hub's address (HF_ENDPOINT)."),
    )

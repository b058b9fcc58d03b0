"""The files of a model on the hub, as its API lists them, and which of them are to be fetched."""

import hashlib
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from app.hub.client import HubClient
from app.hub.failures import HubError, Reason, TransientError, unusable
from app.hub.names import QUANTIZATION, choose, choose_variant, is_repo_id, is_writable, is_writable_path, leads_out
from app.hub.search import ModelRow, row_of
from app.system.background import Stop
from app.system.json_text import count, parse_object, text
from engine.protocol.sentences import Amount, say
from engine.protocol.variants import SUFFIX, Variant, find_variants

MAX_SMALL_BYTES = 128 << 20  # the largest tokenizers have some 35 MB; the engine opens none above this
MAX_CONFIG_BYTES = 16 << 20
MAX_INDEX_BYTES = 64 << 20
MAX_FILES = 10_000
_MAX_LISTING_BYTES = 16 << 20
_CONFIGS = (
    "config.json", "generation_config.json", "tokenizer_config.json", "chat_template.json", "chat_template.jinja",
    "preprocessor_config.json", "processor_config.json", QUANTIZATION,
)  # fmt: skip
_COMMIT = re.compile(r"[0-9a-f]{40}")
ETAG = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DO_NOT_USE = say("Do not use this model, or tell its authors.")
_OTHER_REPO = say("Choose a version of the model in the safetensors format, or in GGUF files.")
_MOST_NAMED = 12


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
    """One commit of a model: its row, and its files whose names mean a file there and nothing else.

    They are those at its top level, and GGUF files in a folder below. Of a file, `bytes` is 0 and `etag` empty where
    the hub does not say it.
    """

    row: ModelRow
    files: dict[str, RemoteFile]

    @property
    def weights(self) -> tuple[RemoteFile, ...]:
        """The safetensors files that a download fetches, as far as names tell: some models hold their weights twice."""
        return tuple(self.files[name] for name in choose(list(self.files)) if name.endswith(".safetensors"))

    @property
    def weight_bytes(self) -> int:
        """What they take together."""
        return sum(file.bytes for file in self.weights)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """What it holds in GGUF files, as far as all parts are there."""
        return tuple(each for each in find_variants(self.files) if each.is_complete)

    def bytes_of(self, variant: Variant) -> int:
        """What its parts take together."""
        return sum(self.files[name].bytes for name in variant.files)

    def download_bytes_of(self, variant: Variant) -> int:
        """The same, with the file that reads pictures for it."""
        return sum(self.files[name].bytes for name in choose_variant(list(self.files), variant.name))


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
        if isinstance(name, str) and (is_writable_path(name) if name.endswith(SUFFIX) else is_writable(name)):
            size, etag = _content(sibling)
            files[name] = RemoteFile(name, count(size), etag)
    return Listing(row, files)


def fetch_index(client: HubClient, plan: Plan, index: RemoteFile, stop: Stop) -> bytes:
    """The index of a model's shards, checked. Blocks; raises `HubError` and `Cancelled`."""
    content = client.small_file(plan.repo_id, plan.commit, index.name, stop, MAX_INDEX_BYTES)
    checksum = index.checksum()
    checksum.update(content)
    if checksum.hexdigest() != index.etag:
        raise TransientError(say("the server sent another part than we asked for"))
    return content


def named_shards(repo: str, index: Mapping[str, Any], there: Container[str]) -> list[str]:
    """The weight files that an index names, each once; empty if it names none.

    Raises `HubError` where one of them is not a weight file beside it, or not `there`.
    """
    weight_map = index.get("weight_map")
    names = list(dict.fromkeys(map(str, weight_map.values()))) if isinstance(weight_map, dict) else []
    for name in names:
        if not is_writable(name) or not name.endswith(".safetensors"):
            raise unusable(repo, say("its index names files outside its folder, or of another format"))
        if name not in there:
            raise unusable(repo, say("its weight file {name} is missing", name=text(name, 80)))
    return names


def read_plan(repo_id: str, described: Any, variant: str = "", index: bytes = b"") -> Plan:
    """The plan for what `describe` answered, for all of the model or one of its GGUF variants.

    `index`: the content of the index of its shards, where that is known.
    Raises `HubError` where there can be none, or where a name means harm.
    """
    described = described if isinstance(described, dict) else {}
    commit, siblings = described.get("sha"), described.get("siblings")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit) or not isinstance(siblings, list):
        raise _strange(repo_id, say("its listing is not one of a model"))
    if len(siblings) > MAX_FILES:
        raise _strange(repo_id, say("it has more than {limit} files", limit=MAX_FILES))
    entries = {_name(repo_id, sibling): sibling for sibling in siblings}
    shards = _shards(repo_id, index, entries)
    chosen = choose_variant(list(entries), variant) if variant else choose(list(entries), shards)
    if not chosen:
        raise _nothing_to_fetch(repo_id, list(entries), variant)
    if not variant and "config.json" not in chosen:
        words = say("{name} has no config.json.", name=repo_id)
        raise HubError(Reason.UNUSABLE, words, say("Choose a model in the transformers format."))
    return Plan(repo_id, commit, tuple(_file(repo_id, name, entries[name]) for name in chosen))


def _shards(repo_id: str, index: bytes, there: Container[str]) -> list[str]:
    try:
        named = parse_object(index)
    except ValueError:
        return []
    return named_shards(repo_id, named, there)


def _nothing_to_fetch(repo_id: str, names: list[str], variant: str) -> HubError:
    """Why a plan has no weights, and what there is instead."""
    there = ", ".join(each.name for each in find_variants(names)[:_MOST_NAMED] if each.is_complete)
    if variant:
        message = say("{name} has no complete variant {variant}.", name=repo_id, variant=variant)
        return HubError(Reason.UNUSABLE, message, say("It has {variants}.", variants=there) if there else _OTHER_REPO)
    if there:
        message = say("{name} holds GGUF files, of which a variant is to be chosen.", name=repo_id)
        return HubError(Reason.UNUSABLE, message, say("Name one, as in {name}:{variant}.", name=repo_id, variant=there))
    message = say(
        "{name} holds no weights that can be opened: neither a model.safetensors nor an index of several.", name=repo_id
    )
    return HubError(Reason.UNUSABLE, message, _OTHER_REPO)


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
    if not (is_writable_path(name) if name.endswith(SUFFIX) else is_writable(name)):
        message = say(
            "{name} has a file whose name not every system can keep, {file}.", name=repo_id, file=repr(name[:80])
        )
        raise HubError(Reason.UNUSABLE, message, _DO_NOT_USE)
    size, etag = _content(sibling)
    if type(size) is not int or size < 0 or not etag:
        raise _strange(repo_id, say("the hub names no size or checksum of {file}", file=name))
    limit = MAX_CONFIG_BYTES if name in _CONFIGS else MAX_SMALL_BYTES
    if not name.endswith((".safetensors", SUFFIX)) and size > limit:
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
    words = say("{name} cannot be downloaded: {reason}.", name=repo_id, reason=why)
    return HubError(Reason.UNUSABLE, words, say("Check the hub's address (HF_ENDPOINT)."))

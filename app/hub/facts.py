"""What the engine must know of a model to say how it would run: fetched without its weights, and kept on disk.

The folder's format is that of `engine.model.checkpoint`.
"""

import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.hub.client import HubClient, Part
from app.hub.failures import offline, unusable
from app.hub.files import Listing, list_files
from app.hub.names import INDEX, SINGLE, TOKENIZER_FILES, is_writable
from app.system import json_text as json
from app.system.background import Stop, pool
from app.system.json_text import count, parse_object, text
from engine.protocol.sentences import say

_MOST_TABLE_BYTES = 32 << 20
_FIRST_BYTES = 1 << 17  # holds most tables; the rest of a longer one is asked for


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """Hands out files of one commit, within bounds. Every method blocks; raises `HubError` and `Cancelled`."""

    client: HubClient
    listing: Listing
    stop: Stop

    @property
    def repo(self) -> str:
        """The model's name."""
        return self.listing.row.repo

    def file(self, name: str, most_bytes: int) -> bytes:
        """A whole file that is not larger than that."""
        listed = self.listing.files.get(name)
        if listed is None:
            raise unusable(self.repo, say("it has no {file}", file=name))
        if listed.bytes > most_bytes:
            raise unusable(self.repo, say("its {file} is larger than {size} MB", file=name, size=most_bytes >> 20))
        return self.client.small_file(self.repo, self.listing.row.revision, name, self.stop, most_bytes)

    def _part(self, name: str, first: int, number: int) -> Part:
        return self.client.part(self.repo, self.listing.row.revision, name, self.stop, first, number)

    def head(self, name: str) -> tuple[bytes, int]:
        """A safetensors file up to the end of its table, and the size of all of it."""
        begun = self._part(name, 0, _FIRST_BYTES)
        length = int.from_bytes(begun.content[:8], "little")
        if len(begun.content) < 8 or length > min(_MOST_TABLE_BYTES, begun.whole_bytes - 8):
            raise unusable(self.repo, say("{file} does not begin as a safetensors file does", file=name))
        missing = 8 + length - len(begun.content)
        rest = self._part(name, len(begun.content), missing).content if missing > 0 else b""
        head = (begun.content + rest)[: 8 + length]
        if len(head) < 8 + length:
            raise offline(say("the connection broke"))
        return head, begun.whole_bytes

    def parsed(self, name: str, content: bytes) -> dict[str, Any]:
        """The object in the file `name`, whose content this is."""
        try:
            return parse_object(content)
        except ValueError as error:
            raise unusable(self.repo, say("its {file} cannot be read: {reason}", file=name, reason=error)) from None


FACTS = "facts.json"
_KIND, _FORMAT = "coppice model facts", 1

_MOST_CONFIG_BYTES = 4 << 20
_MOST_INDEX_BYTES = 64 << 20
_MOST_TABLES_BYTES = 256 << 20  # of all shards together
_MOST_SHARDS = 2000
_AT_A_TIME = 6
_MOST_KEPT = 400


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model without its weights. `folder` can be given to the engine as a source to appraise.

    `weight_bytes`: what its weight files take; `tokenizer_files`: name and digest of each file that a tokenizer is
    made of, so that equal ones mean the same tokenizer; `tokenizer_bytes`: the size of its tokenizer.json.
    """

    repo: str
    revision: str
    folder: Path
    model_type: str
    weight_bytes: int
    tokenizer_files: tuple[tuple[str, str], ...]
    tokenizer_bytes: int = 0


def fetch_facts(client: HubClient, repo: str, cache: Path, stop: Stop, revision: str = "") -> ModelFacts:
    """The facts of a model, from `cache` if that commit is there, else from the hub; without `revision`, the newest.

    Blocks; raises `HubError` and `Cancelled`, and `OSError` if they cannot be kept: they are there whole or not at all.
    """
    if revision and (known := read_facts(facts_folder(cache, repo, revision))):
        return known
    listing = list_files(client, repo, stop, revision or "main")
    return read_facts(facts_folder(cache, repo, listing.row.revision)) or _fetch(client, listing, cache, stop)


def prune_facts(cache: Path, most: int = _MOST_KEPT) -> None:
    """Keep the facts that were fetched last; they cost some megabytes for large models, and seconds to fetch again."""
    folders = [(path.stat().st_mtime, path) for path in (cache / "facts").glob("*") if (path / FACTS).is_file()]
    for _, folder in sorted(folders)[: max(0, len(folders) - most)]:
        shutil.rmtree(folder, ignore_errors=True)


def facts_folder(cache: Path, repo: str, revision: str) -> Path:
    """Where a commit's facts belong."""
    return cache / "facts" / f"{repo.replace('/', '--')}-{revision[:12]}"


def read_facts(folder: Path) -> ModelFacts | None:
    """The facts in a folder; None where there are none that can be read."""
    try:
        kept = parse_object((folder / FACTS).read_bytes())
        files = tuple((text(name), text(digest)) for name, digest in kept["tokenizer_files"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if (kept.get("kind"), kept.get("format")) != (_KIND, _FORMAT):
        return None
    return ModelFacts(
        repo=text(kept.get("name")),
        revision=text(kept.get("revision")),
        folder=folder,
        model_type=text(kept.get("model_type")),
        weight_bytes=count(kept.get("weight_bytes")),
        tokenizer_files=files,
        tokenizer_bytes=count(kept.get("tokenizer_bytes")),
    )


def _fetch(client: HubClient, listing: Listing, cache: Path, stop: Stop) -> ModelFacts:
    folder = facts_folder(cache, listing.row.repo, listing.row.revision)
    beside = folder.with_name(f".{uuid.uuid4().hex}")
    beside.mkdir(parents=True)
    try:
        _write_facts(RemoteModel(client, listing, stop), beside)
        if folder.exists():  # somebody else was faster, or they are damaged
            shutil.rmtree(folder)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    known = read_facts(folder)
    if known is None:
        raise OSError(say("The facts in {folder} cannot be read back.", folder=folder))
    return known


def _write_facts(model: RemoteModel, folder: Path) -> None:
    """Everything into `folder`, facts.json last."""
    config = model.file("config.json", _MOST_CONFIG_BYTES)
    model_type = text(model.parsed("config.json", config).get("model_type"), 60)
    (folder / "config.json").write_bytes(config)
    sizes = _write_heads(model, folder, _shards(model, folder))
    files = model.listing.files
    about = {
        "kind": _KIND,
        "format": _FORMAT,
        "name": model.repo,
        "revision": model.listing.row.revision,
        "model_type": model_type,
        "sizes": sizes,
        "weight_bytes": sum(sizes.values()),
        "tokenizer_files": [(name, files[name].etag) for name in TOKENIZER_FILES if name in files],
        "tokenizer_bytes": files["tokenizer.json"].bytes if "tokenizer.json" in files else 0,
    }
    (folder / FACTS).write_text(json.dumps(about), encoding="utf-8")


def _shards(model: RemoteModel, folder: Path) -> Sequence[str]:
    """The names of the weight files: a single one, or those of the index."""
    if SINGLE in model.listing.files:
        return [SINGLE]
    if INDEX not in model.listing.files:
        raise unusable(model.repo, say("it has no weights in the safetensors format"))
    index = model.file(INDEX, _MOST_INDEX_BYTES)
    weight_map = model.parsed(INDEX, index).get("weight_map")
    values = weight_map.values() if isinstance(weight_map, dict) else ()
    names = list(dict.fromkeys(map(str, values)))
    if not 0 < len(names) <= _MOST_SHARDS:
        raise unusable(model.repo, say("its index of weight files is damaged"))
    for name in names:
        if not is_writable(name) or not name.endswith(".safetensors"):
            raise unusable(model.repo, say("its index names files outside its folder, or of another format"))
        if name not in model.listing.files:
            raise unusable(model.repo, say("its weight file {name} is missing", name=text(name, 80)))
    (folder / INDEX).write_bytes(index)
    return names


def _write_heads(model: RemoteModel, folder: Path, names: Sequence[str]) -> dict[str, int]:
    """The beginning of every weight file; returns the sizes of the whole ones."""
    sizes: dict[str, int] = {}
    written = 0
    with pool(_AT_A_TIME, "facts") as threads:
        for begin in range(0, len(names), _AT_A_TIME):  # no more of them in memory than are fetched at a time
            batch = names[begin : begin + _AT_A_TIME]
            for name, (head, whole_bytes) in zip(batch, threads.map(model.head, batch), strict=True):
                (folder / name).write_bytes(head)
                sizes[name] = whole_bytes
                written += len(head)
            if written > _MOST_TABLES_BYTES:
                raise unusable(model.repo, say("the tables of its weight files are too large"))
    return sizes

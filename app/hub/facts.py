"""What the engine must know of a model to say how it would run: fetched without its weights, and kept on disk.

The folder's format is that of `engine.model.checkpoint`.
"""

import shutil
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.hub.client import HubClient, Part
from app.hub.failures import HubError, Reason, offline, unusable
from app.hub.files import MAX_INDEX_BYTES, Listing, list_files, named_shards
from app.hub.names import INDEX, QUANTIZATION, SINGLE, TOKENIZER_FILES
from app.system import json_text as json
from app.system.background import Stop, can_be_left, pool
from app.system.json_text import count, parse_object, text
from engine.errors import ModelError
from engine.files import retried
from engine.gguf_header import GgufBeginning, ShortError, find_table, read_beginning
from engine.protocol.sentences import say
from engine.protocol.variants import SUFFIX, Variant, join_source, split_source

_MOST_TABLE_BYTES = 32 << 20
_FIRST_BYTES = 1 << 17  # holds most tables; the rest of a longer one is asked for
_GROWTH, _MOST_MORE_BYTES = 8, 4 << 20  # of a GGUF file's beginning, where more of it is needed
_COUNTED_BYTES = 16  # of a GGUF file, up to the number of its tensors
_SLACK_BYTES = 1 << 14  # by which the metadata of two variants may differ


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

    def gguf_head(self, name: str) -> tuple[bytes, int]:
        """A GGUF file up to the end of its table of tensors, and the size of all of it; some megabytes."""
        begun = self._part(name, 0, _FIRST_BYTES)
        content, whole_bytes = begun.content, begun.whole_bytes
        while True:
            try:
                return content[: self._beginning(name, content).end], whole_bytes
            except ShortError as error:
                more = min(_MOST_MORE_BYTES, (_GROWTH - 1) * len(content))
                wanted = min(whole_bytes, max(error.needed, len(content) + more))
                if wanted <= len(content):
                    raise _refused(error) from None
                content += self._part(name, len(content), wanted - len(content)).content
                if len(content) < wanted:
                    raise offline(say("the connection broke")) from None
            except ModelError as error:
                raise _refused(error) from None

    def _beginning(self, name: str, content: bytes) -> GgufBeginning:
        return read_beginning(content, f"{self.repo}/{name}")

    def gguf_table(self, name: str, like: bytes) -> tuple[bytes, int] | None:
        """The same for a file that differs from one with this head in its number formats, from a few kilobytes.

        The metadata are those of the other. None where the table is not where it would be expected, or is of another
        network.
        """
        try:
            known = read_beginning(like)
        except ModelError:
            return None
        if self._part(name, 0, _COUNTED_BYTES).content != like[:_COUNTED_BYTES]:
            return None
        begin = max(0, known.table - _SLACK_BYTES)
        window = self._part(name, begin, known.end - begin + 2 * _SLACK_BYTES)
        found = find_table(window.content, known.tensors)
        if found is None:
            return None
        head = like[: known.table] + window.content[slice(*found)]
        data_bytes = window.whole_bytes - known.aligned(begin + found[1])
        return head, known.aligned(len(head)) + max(0, data_bytes)

    def parsed(self, name: str, content: bytes) -> dict[str, Any]:
        """The object in the file `name`, whose content this is."""
        try:
            return parse_object(content)
        except ValueError as error:
            raise unusable(self.repo, say("its {file} cannot be read: {reason}", file=name, reason=error)) from None


def _refused(error: ModelError) -> HubError:
    return HubError(Reason.UNUSABLE, error.message, say("Choose another model."))


FACTS = "facts.json"
_KIND, _FORMAT = "coppice model facts", 1

_MOST_CONFIG_BYTES = 4 << 20
_MOST_TABLES_BYTES = 256 << 20  # of all shards together
_MOST_SHARDS = 2000
_AT_A_TIME = 6
_KEEPING = threading.Lock()  # one search asks for a model's facts to price it, another for its vocabulary
_MOST_KEPT, _MOST_KEPT_BYTES = 400, 1 << 30


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model without its weights. `folder` can be given to the engine as a source to appraise.

    `repo`: what the model is called, `org/name` or, of a GGUF variant, `org/name:Q4_K_M`;
    `weight_bytes`: what its weight files take; `tokenizer_files`: name and digest of each file that a tokenizer is
    made of, so that equal ones mean the same tokenizer.
    """

    repo: str
    revision: str
    folder: Path
    weight_bytes: int
    tokenizer_files: tuple[tuple[str, str], ...]


def fetch_facts(client: HubClient, source: str, cache: Path, stop: Stop, revision: str = "") -> ModelFacts:
    """The facts of a model, from `cache` if that commit is there, else from the hub; without `revision`, the newest.

    `source`: a repository, or a variant in it. Blocks; raises `HubError` and `Cancelled`, and `OSError` if they cannot
    be kept: they are there whole or not at all.
    """
    if revision and (known := read_facts(facts_folder(cache, source, revision))):
        return known
    repo, variant = split_source(source)
    model = RemoteModel(client, list_files(client, repo, stop, revision or "main"), stop)
    if known := read_facts(facts_folder(cache, source, model.listing.row.revision)):
        return known
    if not variant:
        return _keep(cache, source, model, lambda folder: _write_facts(model, folder))
    found = next((each for each in model.listing.variants if each.answers_to(variant)), None)
    if found is None:
        raise unusable(repo, say("it has no complete variant {variant}", variant=variant))
    return _keep(cache, source, model, lambda folder: _write_variant(model, found, cache, folder))


def prune_facts(cache: Path, most: int = _MOST_KEPT, most_bytes: int = _MOST_KEPT_BYTES) -> None:
    """Keep the facts that were fetched last; they cost some megabytes for large models, and seconds to fetch again."""
    folders = [(path.stat().st_mtime, path) for path in (cache / "facts").glob("*") if (path / FACTS).is_file()]
    for number, (_, folder) in enumerate(sorted(folders, reverse=True)):
        most_bytes -= sum(path.stat().st_size for path in folder.iterdir())
        if number >= most or most_bytes < 0:
            shutil.rmtree(folder, ignore_errors=True)


def facts_folder(cache: Path, source: str, revision: str) -> Path:
    """Where a commit's facts belong."""
    return cache / "facts" / f"{source.replace('/', '--').replace(':', '--')}-{revision[:12]}"


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
        weight_bytes=count(kept.get("weight_bytes")),
        tokenizer_files=files,
    )


def _keep(cache: Path, source: str, model: RemoteModel, write: Callable[[Path], None]) -> ModelFacts:
    folder = facts_folder(cache, source, model.listing.row.revision)
    beside = folder.with_name(f".{uuid.uuid4().hex}")
    beside.mkdir(parents=True)
    try:
        write(beside)
        with _KEEPING:
            known = read_facts(folder)  # somebody else was faster, and has told others of them
            if known is None:
                if folder.exists():
                    shutil.rmtree(folder)
                retried(lambda: beside.rename(folder))
                known = read_facts(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    if known is None:
        raise OSError(say("The facts in {folder} cannot be read back.", folder=folder))
    return known


def _write_facts(model: RemoteModel, folder: Path) -> None:
    """Everything into `folder`, facts.json last."""
    config = model.file("config.json", _MOST_CONFIG_BYTES)
    model.parsed("config.json", config)  # raises for what is none
    (folder / "config.json").write_bytes(config)
    if QUANTIZATION in model.listing.files:
        (folder / QUANTIZATION).write_bytes(model.file(QUANTIZATION, _MOST_CONFIG_BYTES))
    sizes = _write_heads(model, folder, _shards(model, folder))
    files = model.listing.files
    tokenizer_files = [(name, files[name].etag) for name in TOKENIZER_FILES if name in files]
    _write_about(folder, model, model.repo, sizes, tokenizer_files=tokenizer_files)


def _write_variant(model: RemoteModel, variant: Variant, cache: Path, folder: Path) -> None:
    """The beginning of every part, under its own name; the first one holds the metadata and the vocabulary."""
    source = join_source(model.repo, variant.name)
    sizes: dict[str, int] = {}
    for name in variant.files:
        like = None if sizes else _sibling_head(model, cache)
        head, whole_bytes = (like and model.gguf_table(name, like)) or model.gguf_head(name)
        file = name.rpartition("/")[2]
        (folder / file).write_bytes(head)
        sizes[file] = whole_bytes
    weight_bytes = model.listing.bytes_of(variant) or sum(sizes.values())
    _write_about(folder, model, source, sizes, weight_bytes=weight_bytes)


def _sibling_head(model: RemoteModel, cache: Path) -> bytes | None:
    """The beginning of another variant of the same commit, if its facts are here and it is in one file."""
    pattern = facts_folder(cache, join_source(model.repo, "*"), model.listing.row.revision).name
    for folder in (cache / "facts").glob(pattern):
        heads = list(folder.glob(f"*{SUFFIX}"))
        if len(heads) == 1 and (folder / FACTS).is_file():
            return heads[0].read_bytes()
    return None


def _write_about(folder: Path, model: RemoteModel, name: str, sizes: Mapping[str, int], **about: object) -> None:
    """facts.json; `about` replaces what is said of weights and tokenizer."""
    described = {
        "kind": _KIND,
        "format": _FORMAT,
        "name": name,
        "revision": model.listing.row.revision,
        "sizes": sizes,
        "weight_bytes": sum(sizes.values()),
        "tokenizer_files": [],
    }
    (folder / FACTS).write_text(json.dumps(described | about), encoding="utf-8")


def _shards(model: RemoteModel, folder: Path) -> Sequence[str]:
    """The names of the weight files: a single one, or those of the index."""
    if SINGLE in model.listing.files:
        return [SINGLE]
    if INDEX not in model.listing.files:
        raise unusable(model.repo, say("it has no weights in the safetensors format"))
    index = model.file(INDEX, MAX_INDEX_BYTES)
    names = named_shards(model.repo, model.parsed(INDEX, index), model.listing.files)
    if not 0 < len(names) <= _MOST_SHARDS:
        raise unusable(model.repo, say("its index of weight files is damaged"))
    (folder / INDEX).write_bytes(index)
    return names


def _write_heads(model: RemoteModel, folder: Path, names: Sequence[str]) -> dict[str, int]:
    """The beginning of every weight file; returns the sizes of the whole ones."""
    sizes: dict[str, int] = {}
    written = 0
    with can_be_left(), pool(_AT_A_TIME, "facts") as threads:  # the folder counts only once it is whole
        for begin in range(0, len(names), _AT_A_TIME):  # no more of them in memory than are fetched at a time
            batch = names[begin : begin + _AT_A_TIME]
            for name, (head, whole_bytes) in zip(batch, threads.map(model.head, batch), strict=True):
                (folder / name).write_bytes(head)
                sizes[name] = whole_bytes
                written += len(head)
            if written > _MOST_TABLES_BYTES:
                raise unusable(model.repo, say("the tables of its weight files are too large"))
    return sizes

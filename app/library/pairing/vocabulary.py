"""Whether two tokenizers write the same tokens, told from their files without any tokenizer library.

A draft proposes token ids, so it must mean the same by each of them; how text is cut into tokens does not matter.
That is the engine's own test (`Tokenizer.same_as`), and names do not enter into it.
"""

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from app.hub.client import HubClient
from app.hub.facts import ModelFacts
from app.hub.failures import unusable
from app.hub.gguf import MAX_BYTES, read_beginning
from app.i18n.translation import tr
from app.system import json_text as json
from app.system.background import Stop
from app.system.files import write_private
from app.system.json_text import count, parse_object
from engine.protocol.variants import SUFFIX

_log = logging.getLogger(__name__)

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"
_MOST_BYTES = 128 << 20
_BOOK_BYTES = 4 << 20
_MOST_KNOWN = 5000


def fingerprint(tokenizer: bytes, config: bytes = b"{}") -> str:
    """A hash that two vocabularies share if every id stands for the same token in both.

    From tokenizer.json, and tokenizer_config.json, which may add tokens. Raises `ValueError` for what is neither.
    """
    ids = dict(_model_tokens(parse_object(tokenizer)))
    for content, token in _added_tokens(parse_object(tokenizer).get("added_tokens")):
        ids[content] = token
    for content, token in _configured_tokens(parse_object(config).get("added_tokens_decoder")):
        ids.setdefault(content, token)
    if not ids:
        raise ValueError(tr("it has no vocabulary"))
    return _hash(ids)


def _hash(ids: Mapping[str, int]) -> str:
    digest = hashlib.sha256()
    for content, token in sorted(ids.items()):
        digest.update(f"{token}\0{json.dumps(content)}\n".encode())
    return digest.hexdigest()


def _of_gguf(path: Path) -> str:
    with path.open("rb") as file:
        beginning = read_beginning(file.read(MAX_BYTES))
    ids = {content: token for token, content in enumerate(beginning.tokens) if content is not None}
    return _hash(ids) if ids else ""


def _model_tokens(tokenizer: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """A table of ids for most kinds of model; a list of pieces with their scores, in the order of ids, for Unigram."""
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        yield from ((content, count(token)) for content, token in vocabulary.items())
    elif isinstance(vocabulary, list):
        for token, piece in enumerate(vocabulary):
            if not isinstance(piece, list) or not piece or not isinstance(piece[0], str):
                raise ValueError(tr("its vocabulary is damaged"))
            yield piece[0], token


def _added_tokens(added: object) -> Iterator[tuple[str, int]]:
    for entry in added if isinstance(added, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("content"), str):
            yield entry["content"], count(entry.get("id"))


def _configured_tokens(added: object) -> Iterator[tuple[str, int]]:
    for token, entry in added.items() if isinstance(added, dict) else ():
        if token.isdecimal() and len(token) < 12 and isinstance(entry, dict) and isinstance(entry.get("content"), str):
            yield entry["content"], int(token)


class VocabularyCache:
    """Fingerprints by the tokenizer files they were made from, kept on disk: a tokenizer is read once in a lifetime.

    Every method blocks. What has no tokenizer.json has an empty fingerprint: it is known only to the engine.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, str] | None = None

    def of_folder(self, folder: Path) -> str:
        """The fingerprint of a model folder, or of a GGUF file. Raises `OSError`, and `ValueError` for damaged ones."""
        if folder.is_file():
            return self.of_gguf(folder)
        tokenizer, config = _content(folder / TOKENIZER), _content(folder / CONFIG)
        if not tokenizer:
            return ""
        digest = hashlib.sha256(tokenizer + b"\0" + config).hexdigest()
        return self._look_up(digest, lambda: fingerprint(tokenizer, config or b"{}"))

    def of_gguf(self, path: Path) -> str:
        """That of a GGUF file, or of its beginning; read once, as long as the file stays as it is."""
        state = path.stat()
        return self._look_up(f"{path}:{state.st_size}:{state.st_mtime_ns}", lambda: _of_gguf(path))

    def of_remote(self, client: HubClient, facts: ModelFacts, stop: Stop) -> str:
        """That of a model on the hub; its tokenizer is fetched unless one with the same hash has been read before.

        Raises `HubError` and `Cancelled`.
        """
        digests = dict(facts.tokenizer_files)
        if TOKENIZER not in digests:
            heads = sorted(facts.folder.glob(f"*{SUFFIX}"))
            return self.of_gguf(heads[0]) if heads else ""

        def read() -> str:
            files = [
                client.small_file(facts.repo, facts.revision, name, stop, _MOST_BYTES) if name in digests else b"{}"
                for name in (TOKENIZER, CONFIG)
            ]
            try:
                return fingerprint(*files)
            except ValueError as error:
                raise unusable(facts.repo, tr("its tokenizer cannot be read: {reason}").format(reason=error)) from None

        if not digests[TOKENIZER]:
            return read()
        return self._look_up(f"{digests[TOKENIZER]}+{digests.get(CONFIG, '')}", read)

    def _look_up(self, digest: str, read: Callable[[], str]) -> str:
        with self._lock:
            known = self._load().get(digest)
        if known is None:
            known = read()
            with self._lock:
                self._load()[digest] = known
                self._save()
        return known

    def _load(self) -> dict[str, str]:
        if self._known is None:
            try:
                kept = parse_object(_content(self._path, _BOOK_BYTES))
            except (OSError, ValueError):
                kept = {}
            self._known = {digest: made for digest, made in kept.items() if isinstance(made, str)}
        return self._known

    def _save(self) -> None:
        """A book that cannot be written is one that is not remembered; nothing else depends on it."""
        newest = dict(list(self._load().items())[-_MOST_KNOWN:])
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_private(self._path, json.dumps(newest).encode())
        except OSError as error:
            _log.warning("the fingerprints of vocabularies could not be kept: %s", error)


def _content(path: Path, most_bytes: int = _MOST_BYTES) -> bytes:
    """A file's content; nothing where there is none. Raises `ValueError` for one that is far too large."""
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except FileNotFoundError:
        return b""
    if len(content) > most_bytes:
        raise ValueError(tr("{name} is larger than {size} MB").format(name=path.name, size=most_bytes >> 20))
    return content

"""Whether two tokenizers write the same tokens, told from their files without any tokenizer library.

A draft that means the same by every token id proposes ids as they are; how text is cut into tokens does not matter.
That is the engine's own test (`Tokenizer.same_as`), and names do not enter into it. Of another vocabulary, tokens that
write the same are common (`engine.text.intersection`): their share is estimated from a sample.
"""

import base64
import hashlib
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.hub.client import HubClient
from app.hub.facts import ModelFacts
from app.hub.failures import unusable
from app.i18n.translation import tr
from app.library.local.completeness import damage_behind
from app.system import json_text as json
from app.system.background import Stop
from app.system.files import write_private
from app.system.json_text import count, parse_object
from engine.errors import ModelError
from engine.files import open_ordinary
from engine.gguf_header import LazyArray, read_beginning
from engine.protocol.variants import SUFFIX

_log = logging.getLogger(__name__)

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"
_MOST_BYTES = 128 << 20
_MOST_TOKENS = 1 << 20  # four times the largest vocabularies
_MOST_COLONS, _MOST_COMMAS = 1 << 22, 1 << 23  # of a tokenizer.json: entries take up to twenty times their bytes
_BOOK_BYTES = 4 << 20
_MOST_KNOWN = 64
_TOKEN_TYPES, _UNUSED_TOKEN = "tokenizer.ggml.token_type", 5  # as llama.cpp numbers them
_SAMPLED = 32  # one token in so many is in a sample
_HASH_BYTES = 4
_VISIBLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_HIDDEN = tuple(byte for byte in range(0x100) if byte not in _VISIBLE)
_BYTE_OF_LETTER = {chr(byte): byte for byte in _VISIBLE} | {chr(0x100 + at): byte for at, byte in enumerate(_HIDDEN)}
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What is known of a vocabulary.

    `fingerprint`: a hash that two vocabularies share if every id stands for the same token in both; `sample`: hashes of
    what its tokens write, of the same tokens in every vocabulary.
    """

    fingerprint: str
    sample: frozenset[int] = frozenset()

    def share_in(self, other: "Vocabulary") -> float:
        """How many of these tokens `other` has too, from 0 to 1, within a few hundredths; 0 where nothing is known."""
        return len(self.sample & other.sample) / len(self.sample) if self.sample else 0.0

    def to_json(self) -> dict[str, str]:
        """For a file."""
        packed = b"".join(each.to_bytes(_HASH_BYTES, "little") for each in sorted(self.sample))
        return {"fingerprint": self.fingerprint, "sample": base64.b64encode(packed).decode()}

    @classmethod
    def from_json(cls, kept: object) -> "Vocabulary | None":
        """What `to_json` made; None for anything else."""
        match kept:
            case {"fingerprint": str(fingerprint), "sample": str(sample)}:
                try:
                    packed = base64.b64decode(sample, validate=True)
                except ValueError:
                    return None
                places = range(0, len(packed), _HASH_BYTES)
                hashes = (int.from_bytes(packed[at : at + _HASH_BYTES], "little") for at in places)
                return cls(fingerprint, frozenset(hashes))
        return None


def read_vocabulary(tokenizer: bytes, config: bytes = b"{}") -> Vocabulary:
    """From tokenizer.json, and tokenizer_config.json, which may add tokens. Raises `ValueError` for what is neither."""
    if tokenizer.count(b":") > _MOST_COLONS or tokenizer.count(b",") > _MOST_COMMAS:
        raise ValueError(tr("it has too many tokens"))
    content, configured = parse_object(tokenizer), parse_object(config).get("added_tokens_decoder")
    ids, special = dict(_model_tokens(content)), set[str]()
    for name, token, is_special in _added_tokens(content.get("added_tokens")):
        ids[name] = token
        special |= {name} if is_special else set()
    for name, token, is_special in _configured_tokens(configured):
        ids.setdefault(name, token)
        special |= {name} if is_special else set()
    if not ids:
        raise ValueError(tr("it has no vocabulary"))
    return _described(ids, special, '"ByteLevel"' in json.dumps(content.get("decoder")))


def _described(ids: Mapping[str, int], special: Set[str], has_letters: bool) -> Vocabulary:
    digest = hashlib.sha256()
    for name, token in sorted(ids.items()):
        digest.update(f"{token}\0{json.dumps(name)}\n".encode())
    return Vocabulary(digest.hexdigest(), _sample(ids, special, has_letters))


def _sample(names: Iterable[str], special: Set[str], has_letters: bool) -> frozenset[int]:
    """Hashes of what some of these tokens write; which ones, their hashes tell."""
    hashes = (hashlib.blake2b(_written(name, name in special, has_letters), digest_size=8).digest() for name in names)
    numbers = (int.from_bytes(each, "little") for each in hashes)
    return frozenset(number >> 8 * _HASH_BYTES for number in numbers if number % _SAMPLED == 0)


def _written(name: str, is_special: bool, has_letters: bool) -> bytes:
    """The bytes that a token writes inside a text; the name of a special one, marked as such.

    `has_letters`: bytes are written as letters, as GPT-2 does; else a space is `▁`, and some tokens name a byte.
    """
    if is_special:
        return b"\0" + name.encode()
    if has_letters:
        known = [_BYTE_OF_LETTER[letter] for letter in name if letter in _BYTE_OF_LETTER]
        return bytes(known) if len(known) == len(name) else name.encode()
    if byte := _BYTE_TOKEN.fullmatch(name):
        return bytes((int(byte[1], 16),))
    return name.replace("\u2581", " ").encode()


def _of_gguf(path: Path, is_whole: bool) -> Vocabulary | None:
    try:
        beginning = read_beginning(path, path.name)
        metadata = beginning.metadata
        if is_whole and (damage := damage_behind(beginning, path)):
            raise ValueError(damage)
        tokens, kinds = _listed(metadata.get("tokenizer.ggml.tokens")), _listed(metadata.get(_TOKEN_TYPES))
    except ModelError as error:
        raise ValueError(error.message) from None
    if len(kinds) != len(tokens):
        kinds = (None,) * len(tokens)
    ids = {name: token for token, name in enumerate(tokens) if isinstance(name, str) and kinds[token] != _UNUSED_TOKEN}
    return _described(ids, frozenset(), metadata.get("tokenizer.ggml.model") == "gpt2") if ids else None


def _listed(value: object) -> Sequence[object]:
    if isinstance(value, LazyArray) and value.count > _MOST_TOKENS:
        raise ValueError(tr("it has too many tokens"))
    return value.read() if isinstance(value, LazyArray) else ()


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


def _added_tokens(added: object) -> Iterator[tuple[str, int, bool]]:
    for entry in added if isinstance(added, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("content"), str):
            yield entry["content"], count(entry.get("id")), entry.get("special") is True


def _configured_tokens(added: object) -> Iterator[tuple[str, int, bool]]:
    for token, entry in added.items() if isinstance(added, dict) else ():
        if token.isdecimal() and len(token) < 12 and isinstance(entry, dict) and isinstance(entry.get("content"), str):
            yield entry["content"], int(token), entry.get("special") is True


class VocabularyCache:
    """Vocabularies by the tokenizer files they were read from, kept on disk: the last few are not read again.

    Every method blocks. What has no tokenizer.json has no vocabulary here: it is known only to the engine.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, Vocabulary] | None = None

    def of_folder(self, folder: Path) -> Vocabulary | None:
        """The vocabulary of a model folder, or of a GGUF file. Raises `OSError`, and `ValueError` for damaged ones.

        A GGUF file that ends before its weights do is damaged, too.
        """
        if folder.is_file():
            return self._of_gguf(folder, is_whole=True)
        tokenizer, config = _content(folder / TOKENIZER), _content(folder / CONFIG)
        if not tokenizer:
            return None
        digest = hashlib.sha256(tokenizer + b"\0" + config).hexdigest()
        return self._look_up(digest, lambda: read_vocabulary(tokenizer, config or b"{}"))

    def _of_gguf(self, path: Path, is_whole: bool) -> Vocabulary | None:
        """That of a GGUF file, or of its beginning; read once, as long as the file stays as it is."""
        state = path.stat()
        key = f"{path}:{state.st_size}:{state.st_mtime_ns}{':whole' if is_whole else ''}"
        return self._look_up(key, lambda: _of_gguf(path, is_whole))

    def of_remote(self, client: HubClient, facts: ModelFacts, stop: Stop) -> Vocabulary | None:
        """That of a model on the hub; its tokenizer is fetched unless one with the same hash has been read before.

        Raises `HubError` and `Cancelled`.
        """
        digests = dict(facts.tokenizer_files)
        if TOKENIZER not in digests:
            heads = sorted(facts.folder.glob(f"*{SUFFIX}"))
            return self._of_gguf(heads[0], is_whole=False) if heads else None

        def read() -> Vocabulary:
            files = [
                client.small_file(facts.repo, facts.revision, name, stop, _MOST_BYTES) if name in digests else b"{}"
                for name in (TOKENIZER, CONFIG)
            ]
            try:
                return read_vocabulary(*files)
            except ValueError as error:
                raise unusable(facts.repo, tr("its tokenizer cannot be read: {reason}").format(reason=error)) from None

        if not digests[TOKENIZER]:
            return read()
        return self._look_up(f"{digests[TOKENIZER]}+{digests.get(CONFIG, '')}", read)

    def _look_up(self, digest: str, read: Callable[[], Vocabulary | None]) -> Vocabulary | None:
        with self._lock:
            known = self._load().get(digest)
        if known is None and (known := read()):
            with self._lock:
                self._load()[digest] = known
                self._save()
        return known

    def _load(self) -> dict[str, Vocabulary]:
        if self._known is None:
            try:
                kept = parse_object(_content(self._path, _BOOK_BYTES))
            except (OSError, ValueError):
                kept = {}
            read = {digest: Vocabulary.from_json(made) for digest, made in kept.items()}
            self._known = {digest: made for digest, made in read.items() if made}
        return self._known

    def _save(self) -> None:
        """A book that cannot be written is one that is not remembered; nothing else depends on it."""
        newest = {digest: made.to_json() for digest, made in list(self._load().items())[-_MOST_KNOWN:]}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_private(self._path, json.dumps(newest).encode())
        except OSError as error:
            _log.warning("what is known of vocabularies could not be kept: %s", error)


def _content(path: Path, most_bytes: int = _MOST_BYTES) -> bytes:
    """A file's content; nothing where there is none. Raises `ValueError` for one that is far too large."""
    try:
        with open_ordinary(path) as file:
            content = file.read(most_bytes + 1)
    except FileNotFoundError:
        return b""
    if len(content) > most_bytes:
        raise ValueError(tr("{name} is larger than {size} MB").format(name=path.name, size=most_bytes >> 20))
    return content

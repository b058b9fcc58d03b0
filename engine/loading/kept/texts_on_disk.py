"""Which texts of a pair are kept in files, and when one of them is read instead of its tokens."""

import logging
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol

from engine.kept_files import (
    KeptFile,
    files_of,
    forget,
    make_private,
    make_room,
    owner_of,
    part_path,
    planned_bytes,
    remove_parts,
)
from engine.loading.kept.part_file import MALFORMED, PartFile, UnusableText
from engine.loading.kept.text_parts import SavedText, save, saved_text
from engine.loading.out_of_memory import out_of_memory_of
from engine.model.context import same_tokens
from engine.model.passes.kept_text import KeptText
from engine.protocol.keeping import SERVED
from engine.protocol.sentences import joined, reason_of, say
from engine.weights.store.layout import PAGE

LEAST_TOKENS = 64  # fewer are read again in one short pass
LEAST_SECONDS = 1.0  # of reading tokens that must be spared: nobody notices less
TIMES_FASTER = 4  # a file is read at least so many times faster than its tokens
BYTES_PER_SECOND = 5e8  # of a disk that nothing was read from yet: an SSD at the slowest bus
MOST_PARTS = 32  # then a text is written anew, as one
MOST_LOST = 1 / 4  # of a kept text, where another one goes on in its place; else both are kept

_log = logging.getLogger(__name__)


class Reader(Protocol):
    """Reads one text at a time; `engine.model.context.Context` is one."""

    def common(self, tokens: Sequence[int]) -> int:
        """How many of `tokens` it would not have to read."""

    def common_with(self, kept: KeptText, tokens: Sequence[int]) -> int:
        """The same with `kept` in place of what it holds."""

    def restore(self, kept: KeptText, length: int) -> None:
        """Hold the first `length` tokens of `kept`."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where files are kept, below the folder `root`, and within how many bytes; see `KeepTexts`."""

    root: Path
    most_bytes: int


@dataclass(frozen=True, slots=True)
class _Text:
    """A text and its name in names of files."""

    owner: str
    name: str
    saved: SavedText


class TextsOnDisk:
    """The kept texts of a loaded pair. Nothing is kept, or looked for, before `place` is set.

    Whatever goes wrong with a file costs the reading of its tokens, and a sentence, which `take_complaint` gives once.
    """

    def __init__(self, models: Mapping[Any, str]) -> None:
        """`models`: for every context that reads, the name of a folder that tells its network from all others."""
        self.place: Place | None = None
        self._models = {id(reader): name for reader, name in models.items()}
        self._parts: dict[Path, tuple[int, PartFile | None]] = {}  # None: of no use here
        self._texts: dict[tuple[Path, str], SavedText | None] = {}
        self._read: tuple[int, float] = (0, 0.0)  # tokens and seconds
        self._bytes_per_second = BYTES_PER_SECOND
        self._complaints: list[str] = []
        self._told: set[str] = set()

    def learn(self, tokens: int, seconds: float) -> None:
        """So long it took to read so many tokens of a prompt."""
        if tokens >= max(LEAST_TOKENS, self._read[0] // 2):
            self._read = tokens, seconds

    def take_complaint(self) -> str:
        """What went wrong since this was asked last, in words; empty where nothing did."""
        told, self._complaints = self._complaints, []
        return joined(told) if told else ""

    # ---- reading ----------------------------------------------------------------------------------------------------

    def bring(self, reader: Reader, tokens: Sequence[int], conversation: str = "") -> None:
        """Have `reader` hold what is kept of `tokens`, where that is faster than reading them.

        `conversation`: what they belong to; see `engine.protocol.keeping.is_open`.
        Can be stopped between two layers, and run out of memory, as `Context.restore`.
        """
        held = reader.common(tokens)
        if self.place is None or id(reader) not in self._models or len(tokens) - held < LEAST_TOKENS:
            return
        texts = self._find(self._folder(reader), conversation)
        found = max(texts, key=lambda each: reader.common_with(each.saved.outline, tokens), default=None)
        length = reader.common_with(found.saved.outline, tokens) if found else 0
        if found and self._pays(length - held, found.saved.nbytes, _seconds_per_token(found.saved)):
            self._restore(reader, found.saved, length)

    def _restore(self, reader: Reader, saved: SavedText, length: int) -> None:
        begin = time.perf_counter()
        try:
            with saved.opened(length) as kept:
                reader.restore(kept, length)
        except UnusableText as error:
            self._drop(error.path)
            return
        except MALFORMED as error:  # whole, and yet nothing that fits the network
            if out_of_memory_of(error, "") is not None:
                raise
            self._drop(saved.parts[-1].path)
            return
        self._bytes_per_second = saved.nbytes / max(time.perf_counter() - begin, 1e-6)
        if not self._read[0]:
            self._read = length, length * _seconds_per_token(saved)
        with suppress(OSError):  # it goes earlier then, or is gone: a deleted one is not made anew
            os.utime(saved.parts[0].path)

    def _pays(self, tokens: int, nbytes: int, seconds_per_token: float) -> bool:
        seconds = tokens * seconds_per_token
        return (
            tokens >= LEAST_TOKENS
            and seconds >= LEAST_SECONDS
            and seconds >= TIMES_FASTER * nbytes / self._bytes_per_second
        )

    # ---- writing ----------------------------------------------------------------------------------------------------

    def keep(self, reader: Reader, kept: KeptText, conversation: str, check: Callable[[], None]) -> bool:
        """Have all of `kept` in files, if that pays and there is room; whether something was written.

        `check` is called often and may raise; nothing half written is left then.
        """
        place, tokens, (read, seconds) = self.place, kept.tokens, self._read
        if place is None or not place.most_bytes or not conversation or id(reader) not in self._models:
            return False
        if not read or not self._pays(len(tokens), kept.nbytes, seconds / read):
            return False
        folder = self._folder(reader)
        texts = self._find(folder, conversation)
        if any(len(tokens) - same_tokens(each.saved.outline.tokens, tokens) < LEAST_TOKENS for each in texts):
            return False
        try:
            make_private(folder)
            self._write(place, folder, texts, kept, owner_of(conversation), check)
        except OSError as error:
            told = say("What conversations have read cannot be kept on disk: {reason}.", reason=reason_of(error))
            self._complain("write", told)
            return False
        return True

    def _write(
        self,
        place: Place,
        folder: Path,
        texts: Sequence[_Text],
        kept: KeptText,
        owner: str,
        check: Callable[[], None],
    ) -> None:
        name, behind, stale = _continued(kept, [each for each in texts if each.owner == owner])
        new = len(kept.tokens) - (behind.length if behind else 0)
        staying = [part.path for part in behind.parts] if behind else []
        most = planned_bytes(place.root, place.most_bytes)
        needed = kept.nbytes * new // len(kept.tokens) + (kept.states.nbytes if kept.states else 0) + _padding(kept)
        if not make_room(place.root, needed, most, staying):
            self._complain("room", say("There is no room to keep on disk what this conversation has read."))
            return
        path = part_path(folder, owner, name, len(staying))
        about = {"model": folder.name, "seconds_per_token": self._read[1] / self._read[0]}
        part = save(path, kept, behind, about, check)
        remove_parts(each for each in stale if each != path)
        self._parts[path] = path.stat().st_size, part
        self._told -= {"write", "room"}

    def forget(self, conversations: Collection[str]) -> None:
        """Remove what is kept of these, of all where none is named."""
        if self.place is not None:
            forget(self.place.root, conversations or None)

    # ---- what is there ----------------------------------------------------------------------------------------------

    def _folder(self, reader: Reader) -> Path:
        assert self.place is not None, "nothing is kept before there is a place"
        return self.place.root / self._models[id(reader)]

    def _find(self, folder: Path, conversation: str) -> list[_Text]:
        """The texts of a model that this may use; other processes may have written or removed some of them."""
        by_text = defaultdict[tuple[str, str], list[KeptFile]](list)
        is_served = conversation == SERVED
        for file in files_of(folder):
            if is_served and file.owner != owner_of(SERVED):
                continue
            by_text[file.owner, file.text].append(file)
        found = []
        for (owner, name), files in by_text.items():
            parts = list(self._opened(folder, sorted(files, key=lambda file: file.part)))
            if parts and (saved := self._joined(parts)):
                found.append(_Text(owner, name, saved))
        return found

    def _opened(self, folder: Path, files: Sequence[KeptFile]) -> Iterator[PartFile]:
        """The parts from the first on, as far as they can be used."""
        for number, file in zip(count(), files, strict=False):
            known = self._parts.get(file.path)
            if known is None or known[0] != file.nbytes:
                known = self._parts[file.path] = file.nbytes, self._open(file.path, folder.name)
            if known[1] is None or file.part != number:
                return
            yield known[1]

    def _open(self, path: Path, model: str) -> PartFile | None:
        try:
            return _part_of(model, path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._complain(str(path), say("{file} cannot be read: {reason}.", file=path, reason=reason_of(error)))
            return None
        except UnusableText as error:
            if error.is_damaged:
                self._drop(path)
            else:
                told = say("{file} is kept of another model, or by another version, and is not used.", file=path.name)
                self._complain(str(path), told)
            return None

    def _joined(self, parts: Sequence[PartFile]) -> SavedText | None:
        key = parts[0].path, " ".join(part.digest for part in parts)
        if key not in self._texts:
            self._texts = {each: saved for each, saved in self._texts.items() if each[0] != key[0]}
            try:
                if not all(math.isfinite(part.about["seconds_per_token"]) for part in parts):
                    raise ValueError("no time")
                self._texts[key] = saved_text(parts)
            except UnusableText as error:
                self._drop(error.path)
                return None
            except MALFORMED:  # whole, but nothing that we write
                self._drop(parts[0].path)
                return None
        return self._texts[key]

    def _drop(self, path: Path) -> None:
        """A file is damaged: remove it, and say so, unless it is gone, or another one by now."""
        _, known = self._parts.pop(path, (0, None))
        with suppress(OSError, UnusableText):
            if known is not None and PartFile(path).digest != known.digest:
                return
        if path.exists():
            remove_parts([path])
            told = say("What was kept of an earlier conversation is damaged: it was removed, and is read anew.")
            self._complain(str(path), told)

    def _complain(self, about: str, words: str) -> None:
        if about not in self._told:
            self._told.add(about)
            self._complaints.append(words)
            _log.warning("%s (%s)", words, about)


def _continued(kept: KeptText, texts: Sequence[_Text]) -> tuple[str, SavedText | None, list[Path]]:
    """Which text goes on as `kept`: its name, what stays of it, and the parts that go; a new name where none does."""
    best: tuple[str, SavedText | None, list[Path]] = (token_hex(8), None, [])
    length = 0
    for each in texts:
        common = each.saved.common_beginning(kept)
        if common <= length or each.saved.length - common > MOST_LOST * each.saved.length:
            continue
        length, behind = common, each.saved.cut(common)
        parts = [part.path for part in each.saved.parts]
        if len(behind.parts) < MOST_PARTS:
            best = each.name, behind, parts[len(behind.parts) :]
        else:
            best = token_hex(8), None, parts
    return best


def _padding(kept: KeptText) -> int:
    """What a file takes beside the tensors, at most: every section begins on a page."""
    states = len(kept.states.snapshots) + 1 if kept.states else 0
    return PAGE * (sum(1 for _ in kept.slots) + states + 8)


def _part_of(model: str, path: Path) -> PartFile:
    part = PartFile(path)
    if part.about.get("model") != model:
        raise UnusableText(path, is_damaged=False)
    return part


def _seconds_per_token(saved: SavedText) -> float:
    return float(saved.parts[-1].about["seconds_per_token"])

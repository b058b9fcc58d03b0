"""Every round of a conversation, kept small: compressed, and on disk where memory has had enough of them."""

import json
import logging
import tempfile
import zlib
from dataclasses import asdict, fields
from typing import IO, Any

import numpy as np

from engine.messages import Round, Seconds, Tree
from engine.watching import Verdicts

_log = logging.getLogger(__name__)

MEMORY_BYTES = 96 << 20
_FAST = 1  # zlib's level: a round is compressed between two frames
_KEPT_APART = ("tree", "verdicts", "text")  # arrays, and what the conversation has already


class History:
    """Rounds in the order they came. Holds at most `memory_bytes` in memory; the oldest go to a temporary file."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._most = memory_bytes
        self._kept: list[bytes | tuple[int, int] | None] = []  # packed, or begin and length in the file, or lost
        self._in_memory = 0  # bytes
        self._spilled = 0  # so many of the oldest rounds are not in memory
        self._file: IO[bytes] | None = None
        self._pieces: dict[str, int] = {}  # texts come again and again
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def memory_bytes(self) -> int:
        """What the rounds take in memory now, but for the texts of the vocabulary."""
        return self._in_memory

    def append(self, newest: Round) -> None:
        """Keep a round, all but its text."""
        packed = self._pack(newest)
        self._kept.append(packed)
        self._in_memory += len(packed)
        while self._in_memory > self._most and self._spilled < len(self._kept) - 1:
            self._spill()

    def round(self, place: int) -> Round | None:
        """The round number `place`, from 0; None if there was no room for it anywhere."""
        kept = self._kept[place]
        if isinstance(kept, tuple):
            assert self._file, "what is not in memory is in the file"
            try:
                self._file.seek(kept[0])
                kept = self._file.read(kept[1])
            except OSError as error:
                _log.warning("A round of the history could not be read: %s", error)
                return None
        return None if kept is None else self._unpack(kept)

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._in_memory = self._spilled = 0
        self._pieces.clear()
        self._texts.clear()
        if self._file:
            self._file.close()
            self._file = None

    def _spill(self) -> None:
        """Move the oldest round that is in memory to the file; where the disk has no room it is lost."""
        oldest = self._kept[self._spilled]
        assert isinstance(oldest, bytes), "those before it are not in memory"
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="coppice-rounds-")  # noqa: SIM115  # lives as long as this
            begin = self._file.seek(0, 2)
            self._file.write(oldest)
            self._kept[self._spilled] = (begin, len(oldest))
        except OSError as error:
            _log.warning("A round of the history could not be kept: %s", error)
            self._kept[self._spilled] = None
        self._in_memory -= len(oldest)
        self._spilled += 1

    def _pack(self, newest: Round) -> bytes:
        values = {each.name: getattr(newest, each.name) for each in fields(newest) if each.name not in _KEPT_APART}
        tree, verdicts = newest.tree, newest.verdicts or Verdicts(b"", b"")
        pieces = np.array([self._number(piece) for piece in tree.pieces], "<i4").tobytes()
        parts = (tree.tokens, tree.parents, tree.log_probs, pieces, verdicts.log_probs, verdicts.ranks)
        head = json.dumps([values, [len(part) for part in parts]], default=asdict).encode()
        return zlib.compress(b"\n".join((head, b"".join(parts))), _FAST)

    def _unpack(self, packed: bytes) -> Round:
        head, _, body = zlib.decompress(packed).partition(b"\n")
        values, lengths = json.loads(head)
        parts, begin = [], 0
        for length in lengths:
            parts.append(body[begin : begin + length])
            begin += length
        tokens, parents, log_probs, pieces, target, ranks = parts
        texts = tuple(self._texts[number] for number in np.frombuffer(pieces, "<i4").tolist())
        tree = Tree(tokens, parents, log_probs, texts)
        return _round(values, tree, Verdicts(target, ranks) if ranks else None)

    def _number(self, piece: str) -> int:
        number = self._pieces.setdefault(piece, len(self._texts))
        if number == len(self._texts):
            self._texts.append(piece)
        return number


def _round(values: dict[str, Any], tree: Tree, verdicts: Verdicts | None) -> Round:
    values["seconds"] = Seconds(**values["seconds"])
    values["accepted"] = tuple(values["accepted"])
    return Round(tree=tree, text="", verdicts=verdicts, **values)

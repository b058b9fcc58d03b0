"""A round in few bytes, and back: what the history holds in memory, and what the conversations' file keeps of it."""

import zlib
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any

from app.system import json_text as json
from engine.protocol.messages import Round, Seconds, Tree
from engine.protocol.watching import TargetLogProbs

_FORM = b"\x01"  # another one would be read in another way
_FAST = 1  # zlib's level: a round is packed between two frames
_LARGEST = 64 << 20  # bytes of an unpacked round; more is a damaged one
_BYTES = "bytes"  # the key of bytes that are written as text
_SILENT = "silent"  # the key of `Tree.silent` among the round's own values, where older versions pass over it
_KEPT = 64  # packed rounds: more than come before they are saved
_APART = ("id", "tree", "verdicts", "text")  # arrays, what the conversation has already, and a number of this session


class DamagedRoundError(ValueError):
    """The bytes are not those of a round."""


@lru_cache(_KEPT)
def pack(of: Round) -> bytes:
    """Everything but its text and the id of its request.

    What the history has packed as it came is not packed again for the file: both threads would want the interpreter.
    """
    values = {each.name: getattr(of, each.name) for each in fields(of) if each.name not in _APART}
    values[_SILENT] = of.tree.silent
    verdicts = of.verdicts or TargetLogProbs(b"", b"")
    parts = (of.tree.tokens, of.tree.parents, of.tree.log_probs, verdicts.log_probs, verdicts.ranks)
    head = json.dumps([values, [len(each) for each in parts], of.tree.pieces], default=_plain)
    return _FORM + zlib.compress(b"\n".join((head.encode(), b"".join(parts))), _FAST)


def unpack(packed: bytes, request: int) -> Round:
    """A round as it was, as one of this request, without its text. Raises `DamagedRoundError`."""
    if packed[:1] != _FORM:
        raise DamagedRoundError("another version of the program kept this round")
    try:
        reader = zlib.decompressobj()
        head, _, body = reader.decompress(packed[1:], _LARGEST).partition(b"\n")
        if not reader.eof:
            raise DamagedRoundError("what was kept of this round is not whole")
        values, lengths, pieces = json.loads(head)
        tokens, parents, log_probs, target, ranks = _cut(body, lengths)
        known = {each.name for each in fields(Round)} - set(_APART)
        silent = values.get(_SILENT)
        return Round(
            id=request,
            tree=Tree(tokens, parents, log_probs, tuple(pieces), None if silent is None else tuple(silent)),
            text="",
            verdicts=TargetLogProbs(target, ranks) if ranks else None,
            **{name: _value(name, value) for name, value in values.items() if name in known},
        )
    except (zlib.error, ValueError, TypeError, RecursionError) as error:
        raise DamagedRoundError(f"what was kept of this round is damaged ({error})") from error


def _plain(value: Any) -> Any:
    return {_BYTES: value.hex()} if isinstance(value, bytes) else asdict(value)


def _cut(body: bytes, lengths: Sequence[int]) -> list[bytes]:
    parts, begin = [], 0
    for length in lengths:
        parts.append(body[begin : begin + length])
        begin += length
    return parts


def _value(name: str, value: Any) -> Any:
    """JSON knows neither tuples nor bytes nor dataclasses."""
    if name == "seconds":
        known = {each.name for each in fields(Seconds)}
        return Seconds(**{part: float(spent) for part, spent in value.items() if part in known})
    if isinstance(value, dict) and _BYTES in value:
        return bytes.fromhex(value[_BYTES])
    return tuple(value) if isinstance(value, list) else value

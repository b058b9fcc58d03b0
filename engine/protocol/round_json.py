"""The events of one answer as JSON, for windows on other machines: what is read was made by nobody knows whom.

A number that JSON does not know, the logarithm of probability 0, is null. Everything else comes back as it was.
"""

import math
from array import array
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from itertools import pairwise
from typing import Any, TypeVar, cast, get_args

from engine.protocol.messages import Calling, Finished, FinishReason, Prefilled, Round, Seconds, Statistics
from engine.protocol.options import LARGEST_BUDGET, MOST_TOP_LOG_PROBS
from engine.protocol.tools import ToolCall, WrittenCall
from engine.protocol.watching import TargetLogProbs, Tree

MOST_NODES = LARGEST_BUDGET + 1  # with the root
LONGEST_TEXT = 1 << 20  # characters; no round and no token writes as much
MOST_COUNTED = 1 << 62
MOST_WRITTEN = 1 << 31  # characters of an answer
LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127

Number = TypeVar("Number", int, float)
Figures = TypeVar("Figures", Seconds, Statistics)


class MalformedEventError(ValueError):
    """What was read is no event; the message says what is wrong with it."""


def round_to_json(of: Round) -> dict[str, Any]:
    """A round as an object of JSON; arrays are lists of numbers."""
    return {
        "id": of.id,
        "index": of.index,
        "tokens": array("i", of.tree.tokens).tolist(),
        "parents": array("i", of.tree.parents).tolist(),
        "log_probs": _finite(of.tree.log_probs),
        "pieces": list(of.tree.pieces),
        "silent": None if of.tree.silent is None else list(of.tree.silent),
        "accepted": list(of.accepted),
        "bonus": of.bonus,
        "bonus_piece": of.bonus_piece,
        "new_tokens": of.new_tokens,
        "text": of.text,
        "seconds": asdict(of.seconds),
        "method": of.method,
        "budget": of.budget,
        "bytes_streamed": of.bytes_streamed,
        "lengths": array("I", of.lengths).tolist(),
        "token_log_probs": _finite(of.log_probs),
        "target_log_probs": _finite(of.verdicts.log_probs) if of.verdicts else [],
        "ranks": array("i", of.verdicts.ranks).tolist() if of.verdicts else [],
        "top": [[[piece, _finite_or_none(log_prob)] for piece, log_prob in each] for each in of.top],
    }


def round_from_json(given: object) -> Round:
    """The round that `round_to_json` made it of. Raises `MalformedEventError` for anything that is none."""
    read = _Fields(given)
    tree = _tree(read)
    accepted = tuple(read.integers("accepted"))
    new_tokens, text = read.count("new_tokens", len(accepted)), read.text("text")
    lengths, log_probs = read.integers("lengths", largest=LONGEST_TEXT), read.floats("token_log_probs")
    _require(_is_path(accepted, read.integers("parents", least=-1)), "the accepted path does not lead down the tree")
    _require(new_tokens == len(accepted), "the path has another length than what it wrote")
    _require(
        not lengths or (len(lengths) == new_tokens and sum(lengths) == len(text)), "the lengths are not the text's"
    )
    _require(len(log_probs) in (0, new_tokens), "there are too many probabilities, or too few")
    return Round(
        id=read.count("id"),
        index=read.count("index"),
        tree=tree,
        accepted=accepted,
        bonus=read.count("bonus", largest=(1 << 31) - 1),
        bonus_piece=read.text("bonus_piece"),
        new_tokens=new_tokens,
        text=text,
        seconds=_figures(Seconds, read.values.get("seconds", {})),
        method=read.text("method"),
        budget=read.count("budget"),
        bytes_streamed=read.count("bytes_streamed"),
        verdicts=_target_log_probs(read, len(tree.pieces) + 1),
        lengths=array("I", lengths).tobytes(),
        log_probs=array("f", log_probs).tobytes(),
        top=_top(read, new_tokens),
    )


def prefilled_from_json(given: object) -> Prefilled:
    """What was read before the answer, as `asdict` has it. Raises `MalformedEventError`."""
    read = _Fields(given)
    prompt_tokens = read.count("prompt_tokens")
    return Prefilled(
        read.count("id"), prompt_tokens, read.count("cached_tokens", prompt_tokens), read.number("seconds", float)
    )


def calling_from_json(given: object) -> Calling:
    """Where a call may begin, as `asdict` has it. Raises `MalformedEventError`."""
    read = _Fields(given)
    begin = read.values.get("begin")
    _require(_is_whole(begin) and -1 <= cast(int, begin) <= MOST_WRITTEN, "a call has no place")
    return Calling(read.count("id"), cast(int, begin), read.text("name"))


def finished_from_json(given: object) -> Finished:
    """The end of an answer, as `asdict` has it. Raises `MalformedEventError`."""
    read = _Fields(given)
    reason, statistics = read.text("reason"), read.values.get("statistics")
    _require(reason in get_args(FinishReason), "it ended for no reason that is known")
    figures = None if statistics is None else _figures(Statistics, statistics)
    calls = tuple(_call(each) for each in read.list_of("calls"))
    places = [place for each in calls for place in (each.begin, each.end)]
    _require(places == sorted(places), "calls stand in the place of others")
    return Finished(read.count("id"), cast(FinishReason, reason), read.text("text"), figures, read.text("stop"), calls)


def _call(given: object) -> WrittenCall:
    read = _Fields(given)
    its = _Fields(read.values.get("call"))
    begin, end = read.count("begin", MOST_WRITTEN), read.count("end", MOST_WRITTEN)
    _require(begin < end, "a call has no place")
    return WrittenCall(begin, end, ToolCall(its.text("id"), its.text("name"), its.text("arguments")))


class _Fields:
    """The fields of an object; one that is missing has the value of none: 0, an empty text or list."""

    def __init__(self, given: object) -> None:
        _require(isinstance(given, dict), "it is not an object")
        self.values = cast(Mapping[str, object], given)

    def number(self, name: str, kind: Callable[[int | float], Number]) -> Number:
        """One that is finite and not below 0."""
        value = self.values.get(name, 0)
        _require(_is_number(value) and 0 <= cast(float, value) <= MOST_COUNTED, f"'{name}' is no count")
        return kind(cast(float, value))

    def count(self, name: str, largest: int = MOST_COUNTED) -> int:
        """A whole number from 0 to `largest`."""
        value = self.values.get(name, 0)
        _require(_is_whole(value) and 0 <= cast(int, value) <= largest, f"'{name}' is no count, or too large")
        return cast(int, value)

    def text(self, name: str) -> str:
        """A text that is not too long."""
        value = self.values.get(name, "")
        _require(isinstance(value, str) and len(value) <= LONGEST_TEXT, f"'{name}' is no text, or too long")
        return cast(str, value)

    def list_of(self, name: str) -> list[Any]:
        """A list with no more entries than a tree may have nodes, and one for the bonus token."""
        value = self.values.get(name, [])
        _require(isinstance(value, list) and len(value) <= MOST_NODES + 1, f"'{name}' is no list, or too long")
        return cast(list[Any], value)

    def integers(self, name: str, least: int = 0, largest: int = (1 << 31) - 1) -> list[int]:
        """Whole numbers within these bounds."""
        values = self.list_of(name)
        _require(all(_is_whole(each) and least <= each <= largest for each in values), f"'{name}' holds what it cannot")
        return values

    def floats(self, name: str) -> list[float]:
        """Logarithms of probabilities."""
        return [_log_prob(each) for each in self.list_of(name)]


def _tree(read: _Fields) -> Tree:
    tokens, parents = read.integers("tokens"), read.integers("parents", least=-1)
    log_probs, pieces = read.floats("log_probs"), read.list_of("pieces")
    is_text = all(isinstance(piece, str) and len(piece) <= LONGEST_TEXT for piece in pieces)
    _require(is_text, "the text of a token is none")
    _require(0 < len(tokens) <= MOST_NODES, "it has no nodes, or too many")
    _require(len(tokens) == len(parents) == len(log_probs) == len(pieces), "not every node has all it needs")
    stands_right = parents[0] == -1 and all(0 <= parent < node for node, parent in enumerate(parents[1:], start=1))
    _require(stands_right, "a node stands before its parent")
    is_told = read.values.get("silent") is not None  # older versions did not say
    return Tree(
        array("i", tokens).tobytes(),
        array("i", parents).tobytes(),
        array("f", log_probs).tobytes(),
        tuple(pieces),
        tuple(read.integers("silent", largest=len(tokens) - 1)) if is_told else None,
    )


def _is_path(accepted: tuple[int, ...], parents: list[int]) -> bool:
    """Whether it begins at the root, and leads on from every node to a child of it."""
    steps = pairwise(accepted)
    return accepted[:1] == (0,) and all(0 < node < len(parents) and parents[node] == above for above, node in steps)


def _target_log_probs(read: _Fields, count: int) -> TargetLogProbs | None:
    log_probs, ranks = read.floats("target_log_probs"), read.integers("ranks")
    _require(len(log_probs) == len(ranks) in (0, count), "the target's word on some nodes is missing")
    return TargetLogProbs(array("f", log_probs).tobytes(), array("i", ranks).tobytes()) if ranks else None


def _top(read: _Fields, new_tokens: int) -> tuple[tuple[tuple[str, float], ...], ...]:
    of_tokens = read.list_of("top")
    _require(len(of_tokens) in (0, new_tokens), "the likeliest tokens are not those of the tokens")
    return tuple(tuple(_likely(each) for each in _short_list(likeliest)) for likeliest in of_tokens)


def _short_list(given: object) -> list[Any]:
    _require(isinstance(given, list) and len(given) <= MOST_TOP_LOG_PROBS, "there are too many likeliest tokens")
    return cast(list[Any], given)


def _likely(given: object) -> tuple[str, float]:
    match given:
        case [str(piece), log_prob] if len(piece) <= LONGEST_TEXT:
            return piece, _log_prob(log_prob)
        case _:
            raise MalformedEventError("a likely token is none")


def _figures(kind: type[Figures], given: object) -> Figures:
    """One of the dataclasses that hold numbers, their names, and each other."""
    read = _Fields(given)
    by_type: dict[object, Callable[[str], Any]] = {
        int: read.count,
        float: lambda name: read.number(name, float),
        str: read.text,
        Seconds: lambda name: _figures(Seconds, read.values.get(name, {})),
    }
    return kind(**{each.name: by_type[each.type](each.name) for each in fields(kind) if each.name in read.values})


def _log_prob(value: object) -> float:
    if value is None:
        return -math.inf
    _require(_is_number(value) and abs(cast(float, value)) <= LARGEST_FLOAT32, "a probability is not a number")
    return float(cast(float, value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value  # noqa: PLR0124  # no NaN


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(packed: bytes) -> list[float | None]:
    return [_finite_or_none(each) for each in array("f", packed)]


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _require(condition: bool, words: str) -> None:
    if not condition:
        raise MalformedEventError(words)

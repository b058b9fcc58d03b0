"""Decodes a layer straight from a checkpoint's own packed weights, as they lie in its files."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from torch import Tensor

from engine.model.assembly import Assembly, Piece, Source, View
from engine.model.formats.packed import PackedWeight, TurnedFormat
from engine.model.products.arranged import Joined
from engine.model.products.product import Product, plain
from engine.model.safetensors_header import TensorInfo
from engine.weights.codecs.members import member_name

PLAIN = "weight"  # what the only part of a weight that is not packed is called

Members = list[list[Piece]]
"""The pieces of every member of a stack, where those of all members are alike; empty where they are not."""


class Packed:
    """A `Decoder` for one layer, whose weights, by their names in the layer, are put together in these ways.

    Stored tensors are called as the weight they belong to and their part in it. Where the members of a stack are stored
    one by one, the member's number stands behind it (`member_name`). Those of a module that is put together in any
    other way have a number in front: their names do not begin with the module's, and its experts are not decoded alone.
    """

    name = "packed"

    def __init__(self, assemblies: Mapping[str, Assembly]) -> None:
        self._assemblies = assemblies
        members = {name: _members(assembly) for name, assembly in assemblies.items()}
        together = {_module(name) for name, each in assemblies.items() if not (_has_rows(each) or members[name])}
        self._members: dict[str, Members] = {
            name: [] if _module(name) in together else found for name, found in members.items()
        }
        self._put_together = together

    def entries(self) -> dict[str, TensorInfo]:
        """Where all stored tensors of the layer lie in the checkpoint, by their names here."""
        return {
            names[role]: info
            for name in self._assemblies
            for piece, names in self._named(name)
            for role, info in _parts(piece.source).items()
        }

    def decode(self, stored: Mapping[str, Tensor], name: str, out: Tensor) -> None:
        """See `Decoder.decode`; `out` may also be one member of a stack, and `stored` its own part alone."""
        if out.ndim == len(self._assemblies[name].shape):
            for piece, names in self._named(name):
                _decode(piece, {role: stored[each] for role, each in names.items()}, out)
        elif members := self._members[name]:
            for number, piece in enumerate(members[0]):
                parts = {role: stored[_part_name(name, number, role)] for role in _parts(piece.source)}
                _decode(replace(piece, views=_alone(piece)[1]), parts, out[None])
        else:  # a stack whose parts have rows for each member
            for piece, names in self._named(name):
                _decode(piece, {role: stored[each][None] for role, each in names.items()}, out[None])

    def product(
        self, stored: Mapping[str, Tensor], name: str, shape: tuple[int, int], turned: bool = False
    ) -> Product | None:
        """See `Decoder.product`: of pieces one below the other, each of which is multiplied as it is stored."""
        own = self._assemblies[name].shape
        if len(own) == 3 and own[1:] == (shape[::-1] if turned else shape):
            return self._member_product(stored, name, shape, turned)
        if own != shape or turned:
            return None
        found, below = [], 0
        for piece, names in self._named(name):
            rows = _rows(piece)
            if rows is None or rows.start != below or rows.stop > shape[0]:
                return None
            part = _product(piece, {role: stored[each] for role, each in names.items()})
            if part is None:
                return None
            found.append(part)
            below = rows.stop
        if below != shape[0]:
            return None
        return found[0] if len(found) == 1 else Joined(found)

    def _member_product(
        self, stored: Mapping[str, Tensor], name: str, shape: tuple[int, int], turned: bool
    ) -> Product | None:
        """Of one member of a stack; `stored` is its own part alone."""
        if not self._members[name]:  # parts have rows for each member
            (piece, names), *others = self._named(name)
            if others:
                return None
            parts = {role: stored[each] for role, each in names.items()}
            return _whole_product(piece.source, parts, shape, turned)
        found, below = [], 0
        for number, piece in enumerate(self._members[name][0]):
            rows = _member_rows(piece, turned)
            if rows is None or rows.start != below:
                return None
            parts = {role: stored[_part_name(name, number, role)] for role in _parts(piece.source)}
            part = _product(piece, parts)
            if part is None:
                return None
            found.append(part)
            below = rows.stop
        if below != shape[0]:
            return None
        return found[0] if len(found) == 1 else Joined(found)

    def _named(self, name: str) -> Iterator[tuple[Piece, dict[str, str]]]:
        """The pieces of a weight, and what their parts are called, by role."""
        assembly, members = self._assemblies[name], self._members[name]
        together = _module(name) in self._put_together
        if isinstance(assembly.whole, TensorInfo) and not together:
            yield assembly.pieces[0], {PLAIN: name}  # nothing to decode
            return
        for member, pieces in enumerate(members):
            for number, piece in enumerate(pieces):
                roles = _parts(piece.source)
                yield piece, {role: member_name(_part_name(name, number, role), member) for role in roles}
        for number, piece in enumerate([] if members else assembly.pieces):
            prefix = f"{number}/{name}." if together else f"{name}."
            yield piece, {role: prefix + role for role in _parts(piece.source)}


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _part_name(name: str, number: int, role: str) -> str:
    return f"{name}.{number}.{role}"


def _decode(piece: Piece, parts: Mapping[str, Tensor], weight: Tensor) -> None:
    place = piece.place(weight)
    if isinstance(piece.source, PackedWeight):
        piece.source.format.decode(parts, place)
    else:
        place.copy_(parts[PLAIN])


def _product(piece: Piece, parts: Mapping[str, Tensor]) -> Product | None:
    if isinstance(piece.source, PackedWeight):
        return piece.source.format.product(parts, (piece.source.shape[0], piece.source.shape[1]))
    return plain(parts[PLAIN])


def _whole_product(source: Source, parts: Mapping[str, Tensor], shape: tuple[int, int], turned: bool) -> Product | None:
    """Of one member of a stack that is stored as it is, or turned as its format has it."""
    if not isinstance(source, PackedWeight):
        return None if turned else plain(next(iter(parts.values())))
    if turned:
        return source.format.turned_product(parts, shape) if isinstance(source.format, TurnedFormat) else None
    return source.format.product(parts, shape)


def _member_rows(piece: Piece, turned: bool) -> range | None:
    """Which rows of its member, as loops multiply it, a piece is; None for anything else."""
    views = list(_alone(piece)[1])
    if turned and views[:1] == [View("transpose", (1, 2))]:
        del views[0]
    elif turned:
        return None
    match views:
        case [View("select", (0, 0))]:
            return range(piece.source.shape[0])
        case [View("narrow", (1, begin, count)), View("select", (0, 0))]:
            return range(begin, begin + count)
    return None


def _rows(piece: Piece) -> range | None:
    """Which rows of a matrix a piece is, as it is; None for anything else."""
    if len(piece.source.shape) != 2:
        return None
    match piece.views:
        case ():
            return range(piece.source.shape[0])
        case (View("narrow", (0, begin, count)),):
            return range(begin, begin + count)
    return None


def _has_rows(assembly: Assembly) -> bool:
    """Whether the members of the weight, if it is a stack, have rows of their own in all that is stored of it."""
    source = assembly.whole
    return source is not None and (isinstance(source, TensorInfo) or source.is_stack or len(source.shape) < 3)


def _members(assembly: Assembly) -> Members:
    """What is stored of each member of a stack, in the same number, form and size for all of them."""
    found: dict[int, list[Piece]] = defaultdict(list)
    for piece in assembly.pieces:
        member, views = _alone(piece)
        if not views:
            return []
        found[member].append(piece)
    members = [found[member] for member in sorted(found)]
    alike = {tuple((_alone(piece)[1], _form(piece.source)) for piece in pieces) for pieces in members}
    return members if len(members) == assembly.shape[0] and len(alike) == 1 else []


def _alone(piece: Piece) -> tuple[int, tuple[View, ...]]:
    """Which member of a stack a piece is, or belongs to, and its place in a stack of that alone; no views for none."""
    for number, view in enumerate(piece.views):
        if view.kind == "select" and view.arguments[0] == 0:
            first = View("select", (0, 0))
            return view.arguments[1], (*piece.views[:number], first, *piece.views[number + 1 :])
        if view.kind == "select" or 0 in view.arguments[: 2 if view.kind == "transpose" else 1]:
            break  # the first dimension is not that of the members any more
    return 0, ()


def _form(source: Source) -> tuple[object, ...]:
    """All that decoding depends on besides content."""
    sizes = tuple((role, part.dtype, part.shape) for role, part in _parts(source).items())
    return (source.shape, source.format if isinstance(source, PackedWeight) else None, sizes)


def _parts(source: Source) -> Mapping[str, TensorInfo]:
    return source.parts if isinstance(source, PackedWeight) else {PLAIN: source}

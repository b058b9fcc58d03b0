"""Decodes a layer straight from a checkpoint's own packed weights, as they lie in its files."""

from collections.abc import Iterator, Mapping

from torch import Tensor

from engine.model.assembly import Assembly, Piece
from engine.model.formats.packed import PackedWeight
from engine.model.safetensors_header import TensorInfo

PLAIN = "weight"  # what the only part of a weight that is not packed is called


class Packed:
    """A `Decoder` for one layer, whose weights, by their names in the layer, are put together in these ways.

    Stored tensors are called as the weight they belong to and their part in it. Those of a module that is put together
    have a number in front: their names do not begin with the module's, and its experts are not decoded one by one.
    """

    name = "packed"

    def __init__(self, assemblies: Mapping[str, Assembly]) -> None:
        self._assemblies = assemblies
        self._put_together = {_module(name) for name, assembly in assemblies.items() if not _has_rows(assembly)}

    def entries(self) -> dict[str, TensorInfo]:
        """Where all stored tensors of the layer lie in the checkpoint, by their names here."""
        found = {}
        for name, assembly in self._assemblies.items():
            if isinstance(assembly.whole, TensorInfo) and _module(name) not in self._put_together:
                found[name] = assembly.whole  # nothing to decode
                continue
            for prefix, piece in self._named(name):
                found |= {prefix + role: info for role, info in _parts(piece).items()}
        return found

    def decode(self, stored: Mapping[str, Tensor], name: str, out: Tensor) -> None:
        """See `Decoder.decode`; `out` may also be one member of a stack, and `stored` its rows alone."""
        assembly = self._assemblies[name]
        is_member = out.ndim < len(assembly.shape)
        weight = out[None] if is_member else out
        for prefix, piece in self._named(name):
            parts = {role: stored[prefix + role] for role in _parts(piece)}
            if is_member:
                parts = {role: part[None] for role, part in parts.items()}
            place = piece.place(weight)
            if isinstance(piece.source, PackedWeight):
                piece.source.format.decode(parts, place)
            else:
                place.copy_(parts[PLAIN])

    def _named(self, name: str) -> Iterator[tuple[str, Piece]]:
        """The pieces of a weight, and what the names of their parts begin with."""
        for number, piece in enumerate(self._assemblies[name].pieces):
            yield f"{number}/{name}." if _module(name) in self._put_together else f"{name}.", piece


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _has_rows(assembly: Assembly) -> bool:
    """Whether the members of the weight, if it is a stack, have rows of their own in all that is stored of it."""
    source = assembly.whole
    return source is not None and (isinstance(source, TensorInfo) or source.is_stack or len(source.shape) < 3)


def _parts(piece: Piece) -> Mapping[str, TensorInfo]:
    return piece.source.parts if isinstance(piece.source, PackedWeight) else {PLAIN: piece.source}

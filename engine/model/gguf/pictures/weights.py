"""The weights of an encoder of pictures in a GGUF file, by the names of transformers' parameters."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.errors import ModelError
from engine.gguf_header import FETCH_AGAIN
from engine.model.formats.faults import unknown_weights
from engine.model.formats.packed import PackedWeight
from engine.model.gguf.contents import info_of
from engine.model.gguf.header import GgufHeader, GgufTensor
from engine.model.gguf.packed_blocks import Gguf
from engine.model.gguf.pictures.naming import (
    BREAK,
    FURTHER_PATCHES,
    PATCHES,
    QUERIES_KEYS_VALUES,
    SOUND,
    Change,
    Names,
)
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say, shown

Weight = TensorInfo | PackedWeight
IN_LAYER = re.compile(r"v\.blk\.(?P<index>\d{1,5})\.(?P<name>.+)", re.ASCII)
KINDS = ("weight", "bias")
OF_PICTURES = ("v.", "mm.")
WITH_COLOURS = 3  # red, green and blue
SWAPPED = {"ffn_up": "ffn_down", "ffn_down": "ffn_up"}


def weights_of(header: GgufHeader, names: Names, heads: int, width: int, name: str) -> dict[str, Weight]:
    """The weights of the encoder of the model called `name`; `heads` of queries, `width`: of its layers.

    Raises `ModelError` for weights that are none of this kind's, or of a shape that they cannot have.
    """
    placing = _Placing(names, heads, name, is_swapped=names.swaps and _are_swapped(header, width))
    for tensor in header.tensors.values():
        if tensor.name.startswith(OF_PICTURES) and not tensor.name.startswith(SOUND) and tensor.name != BREAK:
            placing.add(tensor)
    placing.add_fused()
    return placing.found


class _Placing:
    """Puts tensor after tensor where it belongs."""

    def __init__(self, names: Names, heads: int, name: str, *, is_swapped: bool) -> None:
        self.names, self.heads, self.name = names, heads, name
        self.found: dict[str, Weight] = {}
        self._parts: dict[str, dict[str, GgufTensor]] = {}
        self._is_swapped = is_swapped

    def add(self, tensor: GgufTensor) -> None:
        """Put a tensor where it belongs, or keep it until all parts of its weight are there."""
        if self.names.frames and tensor.name == PATCHES and len(tensor.shape) == 5:
            self._place(self.names.frames, tensor, "")
            return
        if self.names.frames and tensor.name in (PATCHES, FURTHER_PATCHES):
            self._parts.setdefault(self.names.frames, {})[tensor.name] = tensor
            return
        match = IN_LAYER.fullmatch(tensor.name)
        if match is None:
            own = _renamed(self.names.outside, tensor.name)
            self._place(own, tensor, self.names.changes.get(tensor.name, ""))
            return
        name, kind = _apart(match["name"])
        if self._is_swapped:
            name = SWAPPED.get(name, name)
        layer, whole = f"{self.names.layers}{match['index']}.", f"{name}.{kind}" if kind else name
        if self.names.fused and name in QUERIES_KEYS_VALUES and kind:
            self._parts.setdefault(f"{layer}{self.names.fused}.{kind}", {})[name] = tensor
            return
        own = _renamed(self.names.inside, whole)
        self._place(own and layer + own, tensor, self.names.changes.get(whole, ""))

    def add_fused(self) -> None:
        """Put together what is one weight in the network."""
        for own, tensors in self._parts.items():
            is_convolution = own == self.names.frames
            wanted = (PATCHES, FURTHER_PATCHES) if is_convolution else QUERIES_KEYS_VALUES
            if missing := next((part for part in wanted if part not in tensors), ""):
                raise _lacking(self.name, missing if is_convolution else own)
            parts = [tensors[part] for part in wanted]
            shape = parts[0].shape
            if any(part.shape != shape for part in parts) or (is_convolution and len(shape) != 4):
                raise self._misshaped(parts[0])
            kinds = tuple(part.kind for part in parts)
            if is_convolution:
                self._pack(own, (*shape[:2], len(parts), *shape[2:]), parts, Gguf(kinds, "frames"))
            else:
                self._pack(own, (len(parts) * shape[0], *shape[1:]), parts, Gguf(kinds, "joined"))

    def _place(self, own: str, tensor: GgufTensor, change: Change) -> None:
        if not own:
            raise unknown_weights(self.name, tensor.name)
        shape, form = tensor.shape, Gguf((tensor.kind,))
        if change == "heads":
            if not self.heads or shape[0] % (2 * self.heads):
                raise self._misshaped(tensor)
            form = replace(form, order="heads", heads=self.heads)
        elif change == "plus one":
            form = replace(form, plus=-1.0)
        elif change == "patches":
            if len(shape) != 4 or shape[1] != WITH_COLOURS:
                raise self._misshaped(tensor)
            form = replace(form, order="patches", heads=shape[2], groups=shape[3])
            shape = (shape[0], shape[2] * shape[3] * WITH_COLOURS)
        elif change == "three" and len(shape) <= 3:
            shape = (1,) * (3 - len(shape)) + shape
        elif change == "scalar" and shape == (1,):
            shape = ()
        if tensor.kind.plain and form == Gguf((tensor.kind,)):
            self._require_new(own)
            self.found[own] = info_of(replace(tensor, shape=shape))
        else:
            self._pack(own, shape, [tensor], form)

    def _pack(self, own: str, shape: tuple[int, ...], tensors: Sequence[GgufTensor], form: Gguf) -> None:
        self._require_new(own)
        parts = {str(number): info_of(tensor) for number, tensor in enumerate(tensors)}
        self.found[own] = PackedWeight(own, shape, parts, form)

    def _require_new(self, own: str) -> None:
        if own in self.found:
            raise ModelError(
                say("'{name}' has the weights {tensor} twice.", name=self.name, tensor=shown(own)), FETCH_AGAIN
            )

    def _misshaped(self, tensor: GgufTensor) -> ModelError:
        return ModelError(
            say("'{name}' has weights of an impossible shape: {tensor}.", name=self.name, tensor=shown(tensor.name)),
            FETCH_AGAIN,
        )


def _are_swapped(header: GgufHeader, width: int) -> bool:
    """Whether the two matrices behind attention are called the other way round, as old files have it."""
    down, up = (header.tensors.get(f"v.blk.0.{name}.weight") for name in ("ffn_down", "ffn_up"))
    return down is not None and up is not None and down.shape[-1] == width != up.shape[-1]


def _apart(name: str) -> tuple[str, str]:
    """A name and its kind, which is empty where it has none of the usual ones."""
    stem, _, kind = name.rpartition(".")
    return (stem, kind) if kind in KINDS else (name, "")


def _renamed(names: Mapping[str, str], name: str) -> str:
    """What transformers calls a weight; empty for an unknown one."""
    if whole := names.get(name):
        return whole
    stem, kind = _apart(name)
    own = names.get(stem, "") if kind else ""
    return f"{own}.{kind}" if own else ""


def _lacking(name: str, tensor: str) -> ModelError:
    return ModelError(
        say("'{name}' lacks the weights {tensor}.", name=name, tensor=tensor), say("Download the model again.")
    )

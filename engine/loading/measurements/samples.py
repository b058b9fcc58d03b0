"""Weights that stand for a model's when it is measured: in one of our codecs, or as a checkpoint packs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.model.formats.packed import PackedWeight, TurnedFormat
from engine.model.products.product import Product
from engine.model.safetensors_header import TensorInfo
from engine.number_types import torch_types
from engine.weights.codecs.codec import Decoder, codec_named
from engine.weights.codecs.rounding import Rounding
from engine.weights.streaming.host_memory import HostArena

MATRIX_ELEMENTS = 1 << 25
MANY_ROWS_PART = 4  # for many rows fewer weights tell as much, sooner
PACKED_SIZES = MATRIX_ELEMENTS, MATRIX_ELEMENTS // MANY_ROWS_PART
GROUP = 64  # weights that our codecs and loops do not divide
MOST_COPIES = 32
USUAL_BYTE = 0x3C  # of which numbers of all types, and scales of all formats, are neither tiny nor huge


@dataclass(frozen=True, slots=True)
class StoredSample:
    """A weight [out, in] as it is stored: and what decodes it."""

    name: str
    decoder: Decoder
    stored: Mapping[str, Tensor]
    shape: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Samples:
    """Weights to multiply a `few` rows with, more than most caches hold, and fewer of them for `many` rows.

    Each with the part of the model that is stored so.
    """

    few: tuple[tuple[float, tuple[StoredSample, ...]], ...]
    many: tuple[tuple[float, tuple[StoredSample, ...]], ...]


def coded_samples(codec_name: str, hidden: int, wide: int, stored: torch.dtype) -> Samples:
    """An MLP's weights in one of our codecs, as wide as there is room for; `cast` keeps numbers of type `stored`.

    A matrix that is narrow and long is not multiplied as fast as one that is short and wide: there is one of each.
    """

    def mlp(elements: int) -> tuple[tuple[float, tuple[StoredSample, ...]], ...]:
        inner = max(GROUP, min(wide, elements // (3 * hidden)) // GROUP * GROUP)
        shapes = ((inner, hidden), (inner, hidden), (hidden, inner))
        return ((1.0, tuple(coded_sample(codec_name, shape, stored) for shape in shapes)),)

    return Samples(mlp(MATRIX_ELEMENTS), mlp(MATRIX_ELEMENTS // MANY_ROWS_PART))


def coded_sample(codec_name: str, shape: tuple[int, int], stored: torch.dtype) -> StoredSample:
    """A weight in one of our codecs; its shapes count, nothing is encoded."""
    codec, name = codec_named(codec_name), "mlp.up_proj.weight"
    return StoredSample(
        name, codec, {each: _written(one) for each, one in codec.outline(name, shape, stored).items()}, shape
    )


def _written(outline: Tensor) -> Tensor:
    """Memory that was written: what never was is one page of zeros to the system, which any cache holds."""
    return as_layers_lie(outline.nbytes).view(outline.dtype).view(outline.shape).fill_(1)


def as_layers_lie(nbytes: int) -> Tensor:
    """Memory of so many bytes as a model's layers have it: in huge pages, which are read faster."""
    return HostArena(nbytes).take(nbytes)


def packed_samples(formats: Sequence[tuple[float, Mapping[int, PackedWeight]]]) -> Samples:
    """Weights as a checkpoint packs them: of each format its part, and weights of about so many elements."""
    few, many = (
        tuple((part, _copies(weights[elements], elements)) for part, weights in formats) for elements in PACKED_SIZES
    )
    return Samples(few, many)


def _copies(weight: PackedWeight, elements: int) -> tuple[StoredSample, ...]:
    """As many of a weight as have about so many elements together: one expert alone is small."""
    return tuple(packed_sample(weight) for _ in range(max(1, min(MOST_COPIES, elements // weight.elements))))


def rounded_samples(samples: Samples, keeps_few: bool = False) -> Samples:
    """The same weights, multiplied with rows in 8 bits where there are loops for that; `keeps_few`: see `Stored`."""

    def rounding(sample: StoredSample) -> StoredSample:
        return replace(sample, decoder=Rounding(sample.decoder, keeps_few))

    few, many = (
        tuple((part, tuple(map(rounding, some))) for part, some in formats) for formats in (samples.few, samples.many)
    )
    return Samples(few, many)


def packed_sample(weight: PackedWeight) -> StoredSample:
    """A weight as its checkpoint packs it, as it is multiplied: experts may lie turned. Nothing is read."""
    stored, shape = usual_parts(weight, torch.device("cpu")), (weight.shape[0], weight.shape[1])
    turned = shape[::-1]
    is_turned = weight.format.product(stored, shape) is None and _turned_product(weight, stored, turned) is not None
    return StoredSample(weight.name, _AsPacked(weight), stored, turned if is_turned else shape)


@dataclass(frozen=True, slots=True)
class _AsPacked:
    """The decoder of one weight, whose stored tensors are named by their roles; it may be multiplied turned."""

    weight: PackedWeight

    def decode(self, stored: Mapping[str, Tensor], _name: str, out: Tensor) -> None:
        """See `Decoder.decode`; what is turned is written as if it were not, which takes as long."""
        self.weight.format.decode(stored, out.view(self.weight.shape))

    def product(
        self, stored: Mapping[str, Tensor], _name: str, shape: tuple[int, int], turned: bool = False
    ) -> Product | None:
        """See `Decoder.product`."""
        found = self.weight.format.product(stored, shape) if shape == self.weight.shape else None
        return None if turned else found or _turned_product(self.weight, stored, shape)


def product_of(weight: PackedWeight, stored: Mapping[str, Tensor]) -> Product | None:
    """A matrix as it is multiplied, which may lie turned; None where it has to be decoded. Nothing is read."""
    shape = weight.shape[0], weight.shape[1]
    return weight.format.product(stored, shape) or _turned_product(weight, stored, shape[::-1])


def _turned_product(weight: PackedWeight, stored: Mapping[str, Tensor], shape: tuple[int, int]) -> Product | None:
    form = weight.format
    return (
        form.turned_product(stored, shape) if isinstance(form, TurnedFormat) and shape[::-1] == weight.shape else None
    )


def usual_parts(weight: PackedWeight, device: torch.device) -> dict[str, Tensor]:
    """Its stored tensors by role, with numbers of usual size; shapes count, nothing is read."""
    return {role: _usual(info, device) for role, info in weight.parts.items()}


def _usual(info: TensorInfo, device: torch.device) -> Tensor:
    """A tensor of this type and shape, with numbers of usual size: processors are slow with the smallest ones."""
    dtype = torch_types()[info.dtype]
    is_word = dtype in {torch.int32, torch.int64}  # of codes, or a number of something
    there = device.type == "cpu"
    memory = as_layers_lie(info.nbytes) if there else torch.empty(info.nbytes, dtype=torch.uint8, device=device)
    written = memory.fill_(1 if is_word else USUAL_BYTE)
    return written.view(dtype).view(info.shape)

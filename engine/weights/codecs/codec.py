"""The codecs by name: how a weight is stored, in fewer bits perhaps, and decoded into scratch just before use."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from engine.errors import InputError
from engine.model.products.product import Product
from engine.protocol.sentences import say
from engine.weights.codecs.int8 import Int8
from engine.weights.codecs.nf4 import Nf4
from engine.weights.codecs.plain import Cast, Plain


class Decoder(Protocol):
    """Turns stored tensors into a weight."""

    def decode(self, stored: Mapping[str, Tensor], name: str, out: Tensor) -> None:
        """Write the weight `name` into `out`, contiguous, of the weight's shape and any of the three number types.

        Compressed tensors must be on `out`'s device. Temporaries stay within a chunk and a tenth of one matrix (on
        CUDA of one tensor). The bits depend on `stored` and `out`'s number type alone: not on device, threads or
        chunks. Raises `ModelError` if a stored tensor is missing or does not fit.
        """

    def product(
        self, stored: Mapping[str, Tensor], name: str, shape: tuple[int, int], turned: bool = False
    ) -> Product | None:
        """The matrix `name` of this shape, to be multiplied as it is stored; None where it has to be decoded.

        `name` may be a stack, and `stored` what belongs to one of its members alone. `turned`: the weight's two
        dimensions are those of `shape`, turned.

        Cheap to make. It reads the stored tensors whenever it is called: they must not change or go before that.
        Raises `ModelError` as `decode` does.
        """


class Codec(Decoder, Protocol):
    """Turns a weight into stored tensors, whose names begin with the weight's own, and back.

    What a codec leaves alone (norms, biases, routers, odd shapes) is stored under the weight's own name.
    """

    name: str

    def outline(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> dict[str, Tensor]:
        """What `encode` will return for a weight of this name, shape and number type, on the meta device.

        Raises `ModelError` for number types that no codec stores.
        """

    def encode(self, name: str, tensor: Tensor) -> dict[str, Tensor]:
        """Compress a float32, bfloat16 or float16 weight; the result is contiguous, on the weight's own device.

        Temporaries stay within a chunk and a 32nd of one matrix. The bytes depend on the weight alone. Raises
        `ModelError` that names the weight if it holds a NaN or an infinity.
        """


CODECS: dict[str, type[Codec]] = {codec.name: codec for codec in (Plain, Cast, Int8, Nf4)}


def codec_named(name: str) -> Codec:
    """The codec called `plain`, `cast`, `int8` or `nf4`; raises `InputError` for any other name."""
    if name not in CODECS:
        raise InputError(
            say("There is no weight codec '{name}'.", name=name), say("Choose one of {names}.", names=", ".join(CODECS))
        )
    return CODECS[name]()


def stored_bytes(shape: tuple[int, ...], codec: str, name: str = "", dtype: torch.dtype = torch.bfloat16) -> int:
    """Exactly how many bytes a weight takes when stored, without alignment between tensors.

    The name decides about biases and routers; `dtype`, the checkpoint's number type, counts where it is kept.
    """
    return sum(tensor.nbytes for tensor in codec_named(codec).outline(name, shape, dtype).values())

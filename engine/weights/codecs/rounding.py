"""A decoder whose products round what they multiply weights with to 8 bits, as far as there are loops for that."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from engine.model.products.arranged import rounding
from engine.model.products.product import Product
from engine.weights.codecs.codec import Decoder


@dataclass(frozen=True, slots=True)
class Rounding:
    """The same `Decoder` as another one but for that: of networks in float32. `keeps_few`: see `Stored`."""

    decoder: Decoder
    keeps_few: bool = False

    def decode(self, stored: Mapping[str, Tensor], name: str, out: Tensor) -> None:
        """See `Decoder.decode`."""
        self.decoder.decode(stored, name, out)

    def product(
        self, stored: Mapping[str, Tensor], name: str, shape: tuple[int, int], turned: bool = False
    ) -> Product | None:
        """See `Decoder.product`."""
        return rounding(self.decoder.product(stored, name, shape, turned), self.keeps_few)

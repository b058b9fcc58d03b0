"""Numbers of a few bits in the bytes that they share, four bytes at a time."""

from torch import Tensor

BYTES = 0x01010101  # times a number: four bytes of it


def field(packed: Tensor, shift: int, mask: int) -> Tensor:
    """Of every byte in words int32, the bits that `mask` leaves once it is shifted to the right, or (< 0) the left.

    Whole words are shifted: the mask must leave no bit that has come from another byte.
    """
    if not shift:
        return packed & mask * BYTES
    return (packed >> shift if shift > 0 else packed << -shift).bitwise_and_(mask * BYTES)

"""Numbers of 8 bits, e4m3, as float32: on a CPU twenty times as fast as torch converts them."""

import torch
from torch import Tensor

EXPONENT_SHIFT = 1 << 7  # from e4m3's bits to those of float16, whose exponents have one bit more
NOT_SECOND_BIT = -16385  # the sign has gone there, too
BIAS = 256.0  # float16's exponents stand for so much less


def widened(numbers: Tensor) -> Tensor:
    """`numbers.float()` for numbers of 8 bits, in rows as they are."""
    return lessened(numbers).mul_(BIAS) if has_bits_of_float16(numbers) else numbers.float()


def has_bits_of_float16(numbers: Tensor) -> bool:
    """Whether `lessened` takes them."""
    return numbers.dtype == torch.float8_e4m3fn and numbers.device.type == "cpu" and bool(numbers.numel())


def lessened(numbers: Tensor) -> Tensor:
    """`numbers.float() / BIAS`, which is exact: for who multiplies anyhow.

    The bits of e4m3 are those of a float16 with a smaller exponent, which processors widen in one instruction. Only its
    two codes of no number must be told apart.
    """
    codes = numbers.view(torch.int8)
    halves = codes.to(torch.int16).mul_(EXPONENT_SHIFT).bitwise_and_(NOT_SECOND_BIT).view(torch.float16)
    wide = halves.float()
    if int(codes.amax()) == 127 or int(numbers.view(torch.uint8).amax()) == 255:
        wide.masked_fill_(numbers.float().isnan(), torch.nan)
    return wide

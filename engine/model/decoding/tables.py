"""What decoders look numbers up in; tables of them are made once for every device."""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, ParamSpec

if TYPE_CHECKING:
    from torch import Tensor

P = ParamSpec("P")

NUMBERS = {
    "nf4": (
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
        -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ),
    "fp4": (
        0.0, 0.0052083334885537624, 0.6666666865348816, 1.0, 0.3333333432674408, 0.5, 0.1666666716337204, 0.25,
        -0.0, -0.0052083334885537624, -0.6666666865348816, -1.0, -0.3333333432674408, -0.5, -0.1666666716337204, -0.25,
    ),
    "e2m1": (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0),
    "e2m1 doubled": (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0),
    "iq4": (
        -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0,
        1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0,
    ),
}  # fmt: skip
"""bitsandbytes' two kinds; the 4-bit floating-point numbers of OCP Microscaling Formats v1.0, and twice these, without
a negative zero, as ggml has them; and `kvalues_iq4nl` of ggml-common.h: by code."""

DELTA = 0.125  # what the numbers of IQ1 grids are moved by, up or down


def table(make: "Callable[P, Tensor]") -> "Callable[P, Tensor]":
    """Remember what `make` gives for its arguments, which are plain values and a device.

    Compiled code takes the tensor for a constant. `torch.compiler.assume_constant_result` sets the same mark, but
    imports the compiler, for a second or two, wherever a table is defined.
    """
    made = lru_cache(make)

    def get(*arguments: P.args, **named: P.kwargs) -> "Tensor":
        return made(*arguments, **named)  # type: ignore[arg-type]  # plain values can be hashed

    get.__name__, get.__doc__ = make.__name__, make.__doc__  # compiled code finds it by its name
    get._dynamo_marked_constant = True  # type: ignore[attr-defined]  # functions have room for marks
    return get

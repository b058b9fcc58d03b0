"""Tables that decoders look numbers up in: each is made once for every device."""

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec

from torch import Tensor

P = ParamSpec("P")


def table(make: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Remember what `make` gives for its arguments, which are plain values and a device.

    Compiled code takes the tensor for a constant. `torch.compiler.assume_constant_result` sets the same mark, but
    imports the compiler, for a second or two, wherever a table is defined.
    """
    made = lru_cache(make)

    def get(*arguments: P.args, **named: P.kwargs) -> Tensor:
        return made(*arguments, **named)  # type: ignore[arg-type]  # plain values can be hashed

    get.__name__, get.__doc__ = make.__name__, make.__doc__  # compiled code finds it by its name
    get._dynamo_marked_constant = True  # type: ignore[attr-defined]  # functions have room for marks
    return get

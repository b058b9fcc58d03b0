"""Weights of a layer that are multiplied with the same numbers, one behind the other: the first call computes them all.

Queries, keys and values are, and so are gate and up. Their products in one batch wake the threads once, and small
matrices are shared out that take longer to hand over than to multiply alone.
"""

import weakref
from collections.abc import Callable

import torch
from torch import Tensor

from engine.model.products.product import Product, times_all

Ready = Callable[[int], Product | None]
"""The product of a weight for so many rows; None where it has to be decoded, or is."""


class Siblings:
    """Which weights of one layer these are shows in its first pass: they were handed the same tensor.

    Later a product that was computed ahead is given only for numbers that have the same bits. A weight that is not
    asked for it has no siblings any more, so that no network computes what it does not use for more than one pass.
    """

    def __init__(self) -> None:
        self._families: dict[Ready, list[Ready]] = {}  # of every weight that was multiplied: its siblings and itself
        self._handed: Callable[[], Tensor | None] = lambda: None  # what the last weight of `_newest` was handed
        self._newest: list[Ready] = []
        self._x: Tensor | None = None
        self._ahead: dict[Ready, Tensor] = {}  # products of `_x` that nobody has asked for yet

    def times(self, ready: Ready, product: Product, x: Tensor, states: Tensor) -> Tensor:
        """`product` of x [rows, columns], which was made of `states`; `ready` stands for the weight."""
        if ready not in self._families:
            self._learn(ready, states)
            return product(x)
        if self._x is not None and ready in self._ahead and _same_bits(self._x, x):
            asked = self._ahead.pop(ready)
            self._x = self._x if self._ahead else None
            return asked
        self._part()
        # Bound methods, as these are, are made anew whenever they are asked for: equal, but not the same.
        others = [(each, each(len(x))) for each in self._families[ready] if each != ready]
        able = {each: other for each, other in others if other is not None}
        if not able:
            return product(x)
        found, *ahead = times_all([product, *able.values()], x)
        self._x, self._ahead = x.clone(), dict(zip(able, ahead, strict=True))
        return found

    def _learn(self, ready: Ready, states: Tensor) -> None:
        """A weight's first product: it joins the one before if that was handed the same tensor."""
        if self._handed() is not states:
            self._newest = []
        self._newest.append(ready)
        self._families[ready] = self._newest
        self._handed = weakref.ref(states)

    def _part(self) -> None:
        """Who was not asked for since the last batch is on its own from now on."""
        for each in self._ahead:
            self._families[each].remove(each)
            self._families[each] = [each]
        self._x, self._ahead = None, {}


def _same_bits(one: Tensor, other: Tensor) -> bool:
    bits = torch.int32 if one.dtype == torch.float32 else torch.int16
    return one.dtype == other.dtype and torch.equal(one.view(bits), other.view(bits))

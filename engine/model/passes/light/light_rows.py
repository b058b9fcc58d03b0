"""Which rows are few enough to be computed by the loops here, and the products of several linear modules with them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from engine.model.products.bfloat_loops import PAIRS, bfloat_loop
from engine.model.products.compiling import has_compiler
from engine.model.products.product import Product, times_all

MOST_ROWS = 128  # of a pass: as measured, torch's threads gain nothing for norms of fewer rows


def are_light(states: Tensor) -> bool:
    """Whether states [1, rows, width] are few rows of float32 on a processor, one number behind the other."""
    return states.dtype == torch.float32 and _are_few(states, MOST_ROWS)


def are_narrow(states: Tensor) -> bool:
    """Whether states [1, rows, width] are bfloat16 on a processor, and few rows for it.

    That is one, whose products loops compute in float32, or few where the processor multiplies pairs of bfloat16.
    """
    if states.dtype != torch.bfloat16:
        return False
    return _are_few(states, 1) or (_are_few(states, MOST_ROWS) and bfloat_loop() is PAIRS)


def _are_few(states: Tensor, most: int) -> bool:
    return (
        states.device.type == "cpu"
        and states.ndim == 3
        and states.shape[0] == 1
        and states.shape[1] <= most
        and states.is_contiguous()
        and has_compiler()
    )


def are_turns(embeddings: Any, rows: int, width: int) -> bool:
    """Whether these are cosines and sines [1, rows, width] by which whole heads of so many rows are turned."""
    return all((are_light(each) or are_narrow(each)) and each.shape == (1, rows, width) for each in embeddings)


def multiplied(modules: Sequence[Any], states: Tensor) -> list[Tensor]:
    """What each of these linear modules makes of states [1, rows, width]; in one batch where they are stored.

    What comes of that may be written to; products of many rows lie turned.
    """
    rows = states.shape[1]
    found = [product_of(module, rows) for module in modules]
    if not rows or None in found:
        return [module(states) for module in modules]
    products = times_all([each for each in found if each is not None], states[0].contiguous())
    for module, product in zip(modules, products, strict=True):
        if module.bias is not None:
            product.add_(module.bias)
    return [product[None] for product in products]


def product_of(module: Any, rows: int) -> Product | None:
    """The product of so many rows with the weight of a linear module as it is stored; None if there is none."""
    if type(module) is not nn.Linear or "forward" in module.__dict__:
        return None
    weight = module._parameters["weight"]
    few_product = getattr(weight, "few_product", None)
    return None if few_product is None else few_product(rows)


@lru_cache(maxsize=1)
def loops() -> Any:
    """The compiled loops; numba is imported with them."""
    from engine.model.products.loops import between  # noqa: PLC0415

    return between

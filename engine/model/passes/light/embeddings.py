"""The rows of a table that is kept as it is stored, without what torch wraps around them."""

from typing import Any

from torch import Tensor, nn


def embedded(module: Any, tokens: Tensor) -> Tensor:
    """What an embedding makes of tokens, int64 [1, rows]: [1, rows, width]."""
    rows = getattr(module._parameters.get("weight"), "rows", None)
    is_plain = type(module) is nn.Embedding and module.max_norm is None and "forward" not in module.__dict__
    if rows is None or not is_plain or module._forward_hooks or module._forward_pre_hooks:
        return module(tokens)  # type: ignore[no-any-return]
    return rows(tokens)  # type: ignore[no-any-return]

"""Short causal convolutions over a token tree: each node's last inputs are those of its ancestors and of the text."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine import accelerator


def short_convolution_tree(
    inputs: Tensor, tail: Tensor, windows: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """The convolution at the m nodes that `windows` is of, without its activation: [batch, m, channels].

    inputs: [batch, n, channels], of all pending nodes; tail: [batch, at least width - 1, channels], the last inputs of
    the committed text, zeros where it is shorter; windows: int64 [m, width], see `TreePaths.windows`; weight:
    [channels, width]. The sum is in float32 and rounded once, to the type of `weight`, as the library's kernels do.
    """
    width = weight.shape[-1]
    seen = torch.cat([tail[:, tail.shape[1] - (width - 1) :], inputs], 1).to(weight.dtype)
    taps = weight.float().unbind(-1)
    total = sum(seen.index_select(1, windows[:, step]).float() * tap for step, tap in enumerate(taps))
    assert isinstance(total, Tensor)
    return total.to(weight.dtype) if bias is None else (total + bias.float()).to(weight.dtype)


def short_convolution_advance(tail: Tensor, inputs: Tensor, path: Sequence[int]) -> Tensor:
    """The tail behind `path`, as long as before; inputs: [batch, n, channels], of all pending nodes."""
    index = accelerator.sent(path, inputs.device)
    return torch.cat([tail, inputs.index_select(1, index)], 1)[:, -tail.shape[1] :]

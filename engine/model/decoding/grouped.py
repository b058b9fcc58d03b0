"""Scales and zero points that groups of a row's columns share, and columns in the order of their activations."""

import torch
from torch import Tensor


def column_groups(order: Tensor | None, columns: int, group: int, groups: int, device: torch.device) -> Tensor | None:
    """Which group each column belongs to, int64 [columns]; None if each `group` columns in turn are one.

    `order` is the stored `g_idx`, [columns], or None if there is none. A negative entry says that it is not in use;
    what lies beyond the last group counts as that one.
    """
    in_turn = torch.arange(columns, device=device).div_(group, rounding_mode="floor")
    if order is not None:
        given = order.to(torch.int64)
        given = torch.where((given < 0).any(), in_turn, given).clamp_(0, groups - 1)
        # On other devices the comparison would wait for what is computed there.
        if device.type != "cpu" or not torch.equal(given, in_turn):
            return given
    return in_turn if columns % group else None


def in_rows(turned: Tensor) -> Tensor:
    """A copy of [rows, columns] that lies row by row, and can be seen as bytes.

    What is turned is taken out first, and then turned: so torch reads memory in order. A clone, as `contiguous` leaves
    a single column's strides as they are.
    """
    whole = turned.t().contiguous().t() if turned.stride(0) == 1 else turned
    return whole.clone(memory_format=torch.contiguous_format)


def as_matrix(scales: Tensor, rows: int) -> Tensor:
    """One scale for all, one for each row, or some for each, as [rows, groups]."""
    return scales.reshape(1, 1).expand(rows, 1) if scales.numel() == 1 else scales.reshape(rows, -1)


def scale_groups(numbers: Tensor, scales: Tensor, zeros: Tensor | None, group_of: Tensor | None) -> Tensor:
    """Take zero points off `numbers` and multiply by scales, in place: float32 [rows, columns] and [rows, groups]."""
    if group_of is None:
        groups = numbers.view(*scales.shape, -1)
        scales, zeros = scales[:, :, None], None if zeros is None else zeros[:, :, None]
    else:
        groups = numbers
        index = group_of.expand(len(numbers), -1)
        scales, zeros = scales.gather(1, index), None if zeros is None else zeros.gather(1, index)
    if zeros is not None:
        groups.sub_(zeros)
    groups.mul_(scales)
    return numbers

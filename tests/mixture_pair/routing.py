"""How skewed a mixture's routers are, from what they chose."""

import torch
from torch import Tensor

GROUP = 16  # tokens: about as many as a small tree


def share_of_most_used(choice: Tensor, experts: int) -> float:
    """The part of all choices that fell on the most used quarter of experts; .25 if all are used alike.

    choice: int64 [tokens, chosen].
    """
    counts = torch.bincount(choice.flatten(), minlength=experts).sort(descending=True).values.float()
    return float(counts[: experts // 4].sum() / counts.sum())


def distinct_of_groups(choice: Tensor) -> float:
    """How many different experts `GROUP` tokens in a row use, on average."""
    groups = choice[: len(choice) // GROUP * GROUP].view(-1, GROUP * choice.shape[1])
    return sum(len(group.unique()) for group in groups) / len(groups)

"""How skewed a mixture's routers are, from what they chose, and what training pays for it."""

from typing import Any

import torch
from torch import Tensor

GROUPS = (1, 4, 16, 64)  # tokens in a row: as many as in a pass, or in a tree


class Gates:
    """What the routers of a mixture computed in its last forward pass: hooks on every gate."""

    def __init__(self, model: Any) -> None:
        """`model`: a `Glm4MoeForCausalLM`."""
        gates = [layer.mlp.gate for layer in model.model.layers if hasattr(layer.mlp, "gate")]
        self.outputs: list[tuple[Tensor, Tensor]] = [(torch.empty(0), torch.empty(0))] * len(gates)
        for place, gate in enumerate(gates):
            gate.register_forward_hook(lambda _module, _inputs, output, place=place: self._note(place, output))

    def _note(self, place: int, output: tuple[Tensor, Tensor, Tensor]) -> None:
        self.outputs[place] = output[0], output[2]

    @property
    def choices(self) -> list[Tensor]:
        """int64 [tokens, chosen] of every layer."""
        return [choice for _, choice in self.outputs]

    def imbalance(self) -> Tensor:
        """A mean over layers, which gradients lower by using experts alike; 1 if all are used alike.

        The loss of Switch Transformers (Fedus et al., arXiv 2101.03961, equation 4) for sigmoid scores: experts times
        the sum of each one's part in the choices times its part in the scores.
        """
        found = []
        for logits, choice in self.outputs:
            scores = logits.sigmoid()
            parts = (scores / scores.sum(-1, keepdim=True)).mean(0)
            found.append(scores.shape[1] * (parts * shares(choice, scores.shape[1])).sum())
        return torch.stack(found).mean()


def shares(choice: Tensor, experts: int) -> Tensor:
    """Each expert's part in the choices: float32 [experts], summing to 1; choice: int64 [tokens, chosen]."""
    return torch.bincount(choice.flatten(), minlength=experts) / choice.numel()


def share_of_most_used(choice: Tensor, experts: int) -> float:
    """The part of all choices that fell on the most used quarter of experts; .25 if all are used alike.

    choice: int64 [tokens, chosen].
    """
    return float(shares(choice, experts).sort(descending=True).values[: experts // 4].sum())


def distinct_of_groups(choice: Tensor, size: int) -> float:
    """How many different experts `size` tokens in a row use, on average."""
    groups = choice[: len(choice) // size * size].view(-1, size * choice.shape[1])
    return sum(len(group.unique()) for group in groups) / len(groups)

"""Which experts the routers of a mixture chose in the last pass."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from engine.model.passes.layer_hooks import KnownHook
from engine.weights.streaming.experts.binding import Experts, find_experts

MOST_ROWS = (
    4096  # of a prompt's end that are kept at least: a mixture of 48 layers would fill a gigabyte with all of it
)


class RoutingRecord:
    """Hooks on the layers of a mixture. `layers`: the numbers of those with experts; `count`: experts of each.

    A layer's record begins anew when the layer does. It may call its experts several times in a pass, with a chunk of a
    long prompt each; of such a prompt the last rows are kept.
    """

    def __init__(self, layers: Sequence[nn.Module], experts: Sequence[tuple[int, Experts]]) -> None:
        """See `of`."""
        self.layers = tuple(index for index, _ in experts)
        self.count = experts[0][1].count
        self._choices: dict[int, list[Tensor]] = {index: [] for index in self.layers}
        self._hooks: list[RemovableHandle] = []
        for index, each in experts:
            begin, note = KnownHook(self._begin(index), "each"), KnownHook(self._note(index), "each")
            self._hooks.append(layers[index].register_forward_pre_hook(begin))
            self._hooks.append(each.module.register_forward_pre_hook(note, prepend=True))

    @classmethod
    def of(cls, layers: Iterable[nn.Module]) -> "RoutingRecord | None":
        """Of a model's decoder layers, by their order; None if none has experts whose choice can be seen.

        Whatever else hooks on the experts and renumbers them must do so before: the hooks of this see first what comes.
        """
        every = list(layers)
        found = [(index, experts) for index, layer in enumerate(every) if (experts := find_experts(layer))]
        return cls(every, found) if found else None

    def chosen(self, layer: int) -> Tensor:
        """The experts of each row of the last pass, int64 [rows, chosen], in host memory; no rows before any pass.

        Choices of an accelerator, all of them, are copied at the first call behind a pass. Once the pass's logits are
        there, nothing is left to wait for but these few kilobytes.
        """
        self._bring()
        choices = self._choices[layer]
        return torch.cat(choices) if choices else torch.empty(0, 0, dtype=torch.int64)

    def close(self) -> None:
        """Detach from the layers."""
        for hook in self._hooks:
            hook.remove()

    def _bring(self) -> None:
        """Copy what is on a device to the host, in one piece."""
        away = [(layer, each) for layer, some in self._choices.items() for each in some if each.device.type != "cpu"]
        if not away:
            return
        flat = torch.cat([each.flatten() for _, each in away]).cpu()
        pieces = torch.split(flat, [each.numel() for _, each in away])
        for layer in {layer for layer, _ in away}:
            self._choices[layer] = []
        for (layer, each), piece in zip(away, pieces, strict=True):
            self._choices[layer].append(piece.view(each.shape))

    def _begin(self, index: int) -> Callable[[Any], None]:
        def begin(_inputs: Any) -> None:
            self._choices[index] = []

        return begin

    def _note(self, index: int) -> Callable[[Any], None]:
        def note(inputs: Any) -> None:
            choices = self._choices[index]
            choices.append(inputs[1] if inputs[1].dtype == torch.int64 else inputs[1].long())
            if sum(map(len, choices[1:])) >= MOST_ROWS:
                del choices[0]

        return note

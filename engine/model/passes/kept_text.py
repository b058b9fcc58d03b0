"""What a context computed of a text, outside of the context: so that it can read another one, and come back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor

from engine.model.rope import TurnedText
from engine.model.state.state_cache import KeptStates

Slots = Mapping[str, Tensor]
"""What one layer of a cache holds of its first slots, by name; empty where it holds nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptText:
    """Copies in host memory; `Context.restore` takes them back into a context of the same network, bit for bit.

    `slots`: of every layer that attends, those of the n `tokens`; from a file they come as they are asked for, once.
    `hidden`: [n, width], recorded for a head, None where nothing is; `states`: of the layers that keep one, None
    without any; `turned`: None where no frequency depends on the text's length.
    """

    tokens: tuple[int, ...]
    slots: Iterable[Slots]
    hidden: Tensor | None = None
    states: KeptStates | None = None
    turned: TurnedText | None = None

    @property
    def nbytes(self) -> int:
        """What the tensors take."""
        parts = [part for layer in self.slots for part in layer.values()]
        if self.hidden is not None:
            parts.append(self.hidden)
        return sum(part.nbytes for part in parts) + (self.states.nbytes if self.states else 0)

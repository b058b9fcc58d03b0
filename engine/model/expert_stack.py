"""A mixture's experts, fused into one weight by the network but readable expert by expert from the checkpoint."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from engine.model.layer_loading import Destination
from engine.model.safetensors_header import TensorInfo

EXPERT = re.compile(r"\.experts\.(?:(\d+)\.)?")


@dataclass(frozen=True, slots=True)
class ExpertStack:
    """A converted weight [count, ...] of the network called `name`, and all stored tensors that go into it."""

    name: str
    count: int
    sources: Mapping[str, TensorInfo]

    def part(self, begin: int, end: int) -> dict[str, TensorInfo]:
        """What goes into experts [begin, end): their own tensors, or their rows of tensors that hold all experts."""
        numbers = {name: _number(name) for name in self.sources}
        return {
            name: _rows(info, begin, end) if numbers[name] is None else info
            for name, info in self.sources.items()
            if (number := numbers[name]) is None or begin <= number < end
        }


def find_stacks(
    sources: Mapping[str, TensorInfo], destinations: Mapping[str, Destination], weights: Mapping[str, Tensor]
) -> list[ExpertStack]:
    """The weights that seem to be made expert by expert, largest first; `weights` are the network's, by its names."""
    found: dict[str, dict[str, TensorInfo]] = defaultdict(dict)
    for source, info in sources.items():
        if destinations[source].converted and EXPERT.search(source):
            found[destinations[source].name][source] = info
    stacks = [
        ExpertStack(name, weights[name].shape[0], parts) for name, parts in found.items() if weights[name].ndim > 1
    ]
    return sorted(filter(_is_regular, stacks), key=lambda stack: -weights[stack.name].nbytes)


def _is_regular(stack: ExpertStack) -> bool:
    """Whether every expert has tensors of its own, or else every tensor a row for each expert."""
    numbers = {_number(name) for name in stack.sources}
    if numbers == {None}:
        return all(len(info.shape) > 1 and info.shape[0] == stack.count for info in stack.sources.values())
    return numbers == set(range(stack.count))


def _number(name: str) -> int | None:
    found = EXPERT.search(name)
    return int(found[1]) if found and found[1] else None


def _rows(info: TensorInfo, begin: int, end: int) -> TensorInfo:
    row_bytes = (info.end - info.begin) // info.shape[0]
    return replace(
        info,
        shape=(end - begin, *info.shape[1:]),
        begin=info.begin + begin * row_bytes,
        end=info.begin + end * row_bytes,
    )

"""Converts a checkpoint's tensors to the weights of one decoder layer at a time, as the network holds them."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from engine.model.architecture import Architecture, open_architecture, require_complete
from engine.model.checkpoint import Checkpoint
from engine.model.network import find_layers
from engine.model.safetensors_header import TensorInfo
from engine.model.weight_loader import Destination, LazyTensor, LoadReport, WeightLoader, stored_dtype

EXPERT = re.compile(r"\.experts\.(?:(\d+)\.)?")

META = torch.device("meta")
CPU = torch.device("cpu")
STACK_BYTES = 64 << 20  # of a stack of experts made at once; making it takes a few times as much beside the layer


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


class LayerConverter:
    """Which of a checkpoint's tensors make up which layer, and how. Made by `open_layer_converter`.

    Layers' weights are called as the network's modules call them, relative to the layer.
    """

    def __init__(self, architecture: Architecture, checkpoint: Checkpoint, dtype: torch.dtype) -> None:
        """Compare the checkpoint's table with the network; raises `ModelError` as loading would. Reads no weights."""
        self.architecture = architecture
        self.dtype = dtype
        self._tensors = checkpoint.tensors
        model = architecture.build_on_meta(dtype)
        self._loader = WeightLoader(model, dtype, architecture.mxfp4)
        self._check()
        self._state: dict[str, Tensor] = model.state_dict()  # on meta for good, with the types the weights will have
        self._layers = find_layers(model)
        self._prefix = next(f"{name}." for name, module in model.named_modules() if module is self._layers)
        self._destinations = self._loader.destinations(self._tensors)
        self._members: dict[int | None, list[str]] = defaultdict(list)
        for source, destination in self._destinations.items():
            self._members[self._layer_of(destination.name)].append(source)

    def __len__(self) -> int:
        """Decoder layers."""
        return len(self._layers)

    def shapes(self, index: int) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """Shape and number type of every weight of a layer, without reading any."""
        return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in self._layers[index].state_dict().items()}

    def nbytes(self, index: int) -> int:
        """Bytes of a layer's weights."""
        return sum(tensor.nbytes for tensor in self._layers[index].state_dict().values())

    def one_to_one(self, index: int) -> dict[str, TensorInfo] | None:
        """Where each weight of a layer lies in the shards, if all are stored in the shape they are used in; else None.

        Number types are not compared: that of `TensorInfo` may differ from the one in `shapes`.
        """
        found = {}
        for source in self._members[index]:
            if self._destinations[source].converted:
                return None
            found[self._relative(self._destinations[source].name, index)] = self._tensors[source]
        shapes = self.shapes(index)
        same = found.keys() == shapes.keys() and all(shapes[name][0] == info.shape for name, info in found.items())
        return found if same else None

    def weights(self, index: int) -> Iterator[tuple[str, Tensor]]:
        """Read and convert a layer's weights on the CPU, one by one: name and weight, in no particular order.

        A stack of experts is made when its turn comes, and not kept. Raises `ModelError` when a shard cannot be read.
        """
        rest = {source: self._tensors[source] for source in self._members[index]}
        for stack in find_stacks(rest, self._destinations, self._state):
            made = self._make(stack, index)
            if made is not None:
                rest = {source: info for source, info in rest.items() if source not in stack.sources}
                yield self._relative(stack.name, index), made
            del made  # else it would stay in memory beside the next one
        layer = self._layers[index]
        try:
            self._load(rest)
            loaded = {name: tensor for name, tensor in layer.state_dict().items() if not tensor.is_meta}
        finally:
            self._unload(index)
        while loaded:
            yield loaded.popitem()

    def outside(self) -> dict[str, LazyTensor]:
        """The checkpoint's tensors that belong to none of the decoder layers, by its own names; nothing is read."""
        return {source: self._lazy(source, self._tensors[source]) for source in self._members[None]}

    def _check(self) -> None:
        on_meta = {
            name: torch.empty(info.shape, dtype=stored_dtype(info), device=META) for name, info in self._tensors.items()
        }
        report = self._loader.load(on_meta, META)
        self._loader.finish(report)
        require_complete(self.architecture, report.missing_keys, report.mismatched, report.unexpected_keys)

    def _layer_of(self, name: str) -> int | None:
        inside = name.startswith(self._prefix)
        return int(name.removeprefix(self._prefix).partition(".")[0]) if inside else None

    def _relative(self, name: str, index: int) -> str:
        return name.removeprefix(f"{self._prefix}{index}.")

    def _lazy(self, source: str, info: TensorInfo) -> LazyTensor:
        # Packed bits are no numbers yet: the loader unpacks them.
        stored, wanted = stored_dtype(info), self._state[self._destinations[source].name].dtype
        return LazyTensor(info, wanted if stored.is_floating_point and wanted.is_floating_point else stored)

    def _load(self, sources: Mapping[str, TensorInfo]) -> LoadReport:
        return self._loader.load({source: self._lazy(source, info) for source, info in sources.items()}, CPU)

    def _make(self, stack: ExpertStack, index: int) -> Tensor | None:
        """Convert some experts at a time into their place, so that the stack is never there twice.

        None if the library turns out not to convert each expert by itself.
        """
        layer, name, whole = self._layers[index], self._relative(stack.name, index), self._state[stack.name]
        made = torch.empty(whole.shape, dtype=whole.dtype)
        step = max(1, STACK_BYTES * stack.count // whole.nbytes)
        try:
            for begin in range(0, stack.count, step):
                part = made[begin : begin + step]
                _put(layer, name, part.to(META))
                if self._load(stack.part(begin, begin + len(part))).mismatched:
                    return None
                part.copy_(layer.state_dict()[name])
        finally:
            self._unload(index)
        return made

    def _unload(self, index: int) -> None:
        layer = self._layers[index]
        for name in layer.state_dict():
            _put(layer, name, self._state[f"{self._prefix}{index}.{name}"])


def open_layer_converter(checkpoint: Checkpoint, dtype: torch.dtype) -> LayerConverter:
    """Settle what a checkpoint's layers are made of; raises `ModelError` for what cannot be used. Reads no weights."""
    return LayerConverter(open_architecture(checkpoint), checkpoint, dtype)


def _put(layer: nn.Module, name: str, tensor: Tensor) -> None:
    path, _, leaf = name.rpartition(".")
    module = layer.get_submodule(path)
    if leaf in module._buffers:
        module._buffers[leaf] = tensor
    else:
        module._parameters[leaf] = nn.Parameter(tensor, requires_grad=False)

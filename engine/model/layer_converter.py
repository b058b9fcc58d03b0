"""Converts a checkpoint's tensors to the weights of one decoder layer at a time, as the network holds them."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine.errors import ModelError
from engine.model.architecture import Architecture, open_architecture, require_complete
from engine.model.assembly import Assembly, Source
from engine.model.checkpoint import Checkpoint
from engine.model.formats.faults import unknown_weights
from engine.model.formats.packed import PackedWeight
from engine.model.formats.packed_tables import may_stay
from engine.model.network import find_layers
from engine.model.safetensors_header import TensorInfo
from engine.model.weight_loader import Destination, LazyPacked, LazyTensor, LoadReport, WeightLoader, stored_dtype
from engine.protocol.sentences import say, shown

EXPERT = re.compile(r"\.experts\.(?:(\d+)\.)?")

META = torch.device("meta")
CPU = torch.device("cpu")
STACK_BYTES = 64 << 20  # of a stack of experts made at once; making it takes a few times as much beside the layer


@dataclass(frozen=True, slots=True)
class ExpertStack:
    """A weight [count, ...] of the network called `name`, and all of the checkpoint's that go into it."""

    name: str
    count: int
    sources: Mapping[str, Source]

    def part(self, begin: int, end: int) -> dict[str, Source]:
        """What goes into experts [begin, end): their own weights, or their rows of weights that hold all experts."""
        numbers = {name: _number(name) for name in self.sources}
        return {
            name: source.rows(begin, end) if numbers[name] is None else source
            for name, source in self.sources.items()
            if (number := numbers[name]) is None or begin <= number < end
        }


def find_stacks(
    sources: Mapping[str, Source], destinations: Mapping[str, Destination], weights: Mapping[str, Tensor]
) -> list[ExpertStack]:
    """The weights that seem to be made expert by expert, largest first; `weights` are the network's, by its names."""
    found: dict[str, dict[str, Source]] = defaultdict(dict)
    for name, source in sources.items():
        made = destinations[name].converted or isinstance(source, PackedWeight)
        if made and EXPERT.search(name):
            found[destinations[name].name][name] = source
    stacks = [
        ExpertStack(name, weights[name].shape[0], parts) for name, parts in found.items() if weights[name].ndim > 1
    ]
    return sorted(filter(_is_regular, stacks), key=lambda stack: -weights[stack.name].nbytes)


def _is_regular(stack: ExpertStack) -> bool:
    """Whether every expert has weights of its own, or else every weight a row for each expert."""
    numbers = {_number(name) for name in stack.sources}
    if numbers == {None}:
        return all(_has_rows(source, stack.count) for source in stack.sources.values())
    return numbers == set(range(stack.count))


def _has_rows(source: Source, count: int) -> bool:
    alone = source.is_stack if isinstance(source, PackedWeight) else len(source.shape) > 1
    return alone and source.shape[0] == count


def _number(name: str) -> int | None:
    found = EXPERT.search(name)
    return int(found[1]) if found and found[1] else None


class LayerConverter:
    """Which of a checkpoint's tensors make up which layer, and how. Made by `open_layer_converter`.

    Layers' weights are called as the network's modules call them, relative to the layer.
    """

    def __init__(self, architecture: Architecture, checkpoint: Checkpoint, dtype: torch.dtype) -> None:
        """Compare the checkpoint's table with the network; raises `ModelError` as loading would. Reads no weights."""
        self.architecture = architecture
        self.dtype = dtype
        self._weights = checkpoint.weights
        self._is_written_for_it = bool(checkpoint.metadata)  # a GGUF file holds what its network computes with
        model = architecture.build_on_meta(dtype)
        self._loader = WeightLoader(model, dtype, architecture.kind)
        self._check()
        self._state: dict[str, Tensor] = model.state_dict()  # on meta for good, with the types the weights will have
        self._layers = find_layers(model)
        self._prefix = next(f"{name}." for name, module in model.named_modules() if module is self._layers)
        self._destinations = self._loader.destinations(self._weights)
        self._require_numbers()
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
        whole = {name: assembly.whole for name, assembly in (self.assemblies(index) or {}).items()}
        plain = {name: source for name, source in whole.items() if isinstance(source, TensorInfo)}
        return plain if plain and len(plain) == len(whole) else None

    def is_packed(self, index: int) -> bool:
        """Whether any weight of a layer is packed."""
        return any(isinstance(self._weights[source], PackedWeight) for source in self._members[index])

    def assemblies(self, index: int) -> dict[str, Assembly] | None:
        """How each weight of a layer is put together from the checkpoint's own; None if that takes computation.

        Number types are not compared.
        """
        made = self._loader.assemblies(self._sources(index), self._destinations)
        found = {self._relative(name, index): assembly for name, assembly in made.items() if assembly}
        shapes = self.shapes(index)
        same = found.keys() == shapes.keys() and all(shapes[name][0] == each.shape for name, each in found.items())
        return found if same else None

    def weights(self, index: int) -> Iterator[tuple[str, Tensor]]:
        """Read and convert a layer's weights on the CPU, one by one: name and weight, in no particular order.

        A stack of experts is made when its turn comes, and not kept. Raises `ModelError` when a shard cannot be read.
        """
        rest = self._sources(index)
        for stack in find_stacks(rest, self._destinations, self._state):
            made = self._make(stack, index)
            if made is not None:
                rest = {name: source for name, source in rest.items() if name not in stack.sources}
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

    def numbers(self, index: int, name: str) -> list[float]:
        """The numbers of a short weight of a layer; none where it is not stored as such. Raises `ModelError`."""
        whole = f"{self._prefix}{index}.{name}"
        sources = [self._weights[each] for each in self._members[index] if self._destinations[each].name == whole]
        plain = (source for source in sources if isinstance(source, TensorInfo))
        return [
            number for source in plain for number in LazyTensor(source, stored_dtype(source))[...].flatten().tolist()
        ]

    def outside(self) -> dict[str, LazyTensor | LazyPacked]:
        """The checkpoint's weights that belong to none of the decoder layers, by its own names; nothing is read."""
        return {name: self._lazy(name, source) for name, source in self._sources(None).items()}

    def packed_tables(self) -> dict[str, LazyPacked]:
        """Embedding and head, where they may stay as they are packed, by the network's names."""
        found = {}
        for name, lazy in self.outside().items():
            destination = self._destinations[name]
            is_whole = not destination.converted and self._weights[name].shape == self._state[destination.name].shape
            if isinstance(lazy, LazyPacked) and is_whole and may_stay(name, lazy.weight):
                found[destination.name] = lazy
        return found

    def without_tables(self) -> dict[str, LazyTensor | LazyPacked]:
        """`outside` without those."""
        tables = self.packed_tables()
        return {name: lazy for name, lazy in self.outside().items() if self._destinations[name].name not in tables}

    def _sources(self, index: int | None) -> dict[str, Source]:
        return {name: self._weights[name] for name in self._members[index]}

    def _check(self) -> None:
        on_meta = {
            name: torch.empty(source.shape, dtype=self._read_type(source), device=META)
            for name, source in self._weights.items()
        }
        report = self._loader.load(on_meta, META)
        self._loader.finish(report)
        require_complete(self.architecture, report.missing_keys, report.mismatched, report.unexpected_keys)
        if self._is_written_for_it and (left := sorted(report.unexpected_keys)):
            raise unknown_weights(self.architecture.name, left[0])

    def _require_numbers(self) -> None:
        """Refuse what only looks like weights: codes of a packing that config.json does not tell."""
        for name, destination in self._destinations.items():
            wanted = self._state[destination.name].dtype
            if wanted.is_floating_point and not self._read_type(self._weights[name]).is_floating_point:
                raise ModelError(
                    say(
                        "'{name}' stores {tensor} as whole numbers, and its config.json does not say what they mean.",
                        name=self.architecture.name,
                        tensor=shown(name),
                    ),
                    say("Choose its original version in 16 bits; Coppice can quantise that itself."),
                )

    def _layer_of(self, name: str) -> int | None:
        inside = name.startswith(self._prefix)
        return int(name.removeprefix(self._prefix).partition(".")[0]) if inside else None

    def _relative(self, name: str, index: int) -> str:
        return name.removeprefix(f"{self._prefix}{index}.")

    def _read_type(self, source: Source) -> torch.dtype:
        if isinstance(source, PackedWeight):
            return torch.int64 if source.is_whole else self.dtype
        return stored_dtype(source)

    def _lazy(self, name: str, source: Source) -> LazyTensor | LazyPacked:
        stored, wanted = self._read_type(source), self._state[self._destinations[name].name].dtype
        dtype = wanted if stored.is_floating_point and wanted.is_floating_point else stored
        return LazyPacked(source, dtype) if isinstance(source, PackedWeight) else LazyTensor(source, dtype)

    def _load(self, sources: Mapping[str, Source]) -> LoadReport:
        return self._loader.load({name: self._lazy(name, source) for name, source in sources.items()}, CPU)

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

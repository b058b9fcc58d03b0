"""A network without weights, which makes the weights of one decoder layer at a time from a checkpoint."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from engine.model.architecture import Architecture, open_architecture, require_complete
from engine.model.checkpoint import Checkpoint
from engine.model.layer_loading import Destination, destinations, load_into, tie
from engine.model.lazy_tensor import LazyTensor, stored_dtype
from engine.model.network import find_layers
from engine.model.safetensors_header import TensorInfo

META = torch.device("meta")
CPU = torch.device("cpu")
EXPERT = re.compile(r"\.experts\.(\d+)\.")
EXPERT_BYTES = 64 << 20  # experts fused at once: fusing takes three times their size beside the layer


class Blueprint:
    """Which of a checkpoint's tensors make up which layer, and how. Made by `draw_blueprint`.

    Weights are named as the network's modules name them, relative to their layer.
    """

    def __init__(self, architecture: Architecture, checkpoint: Checkpoint, dtype: torch.dtype) -> None:
        """Compare the checkpoint's table with the network, reading no weights; raises `ModelError` as loading would."""
        self.architecture = architecture
        self.dtype = dtype
        self._checkpoint = checkpoint
        self._model = architecture.build_on_meta(dtype)
        self._layers = find_layers(self._model)
        self._check()
        self._prefix = next(name for name, module in self._model.named_modules() if module is self._layers)
        self._places: dict[int | None, dict[str, Destination]] = defaultdict(dict)
        for name, place in destinations(self._model, checkpoint.tensors).items():
            self._places[self._layer_of(place.name)][name] = place

    def __len__(self) -> int:
        return len(self._layers)

    def shapes(self, index: int) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """Shape and number type of every weight of a layer, without reading any."""
        return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in self._layers[index].state_dict().items()}

    def nbytes(self, index: int) -> int:
        """Bytes of a layer's weights."""
        return sum(tensor.nbytes for tensor in self._layers[index].state_dict().values())

    def one_to_one(self, index: int) -> dict[str, TensorInfo] | None:
        """Where each weight of a layer lies in the shards, if all of them are stored as they are used; else None.

        Number types are not compared: `TensorInfo.dtype` may differ from the one in `shapes`.
        """
        places = self._places[index]
        if any(place.converted for place in places.values()):
            return None
        found = {self._relative(place.name, index): self._checkpoint.tensors[name] for name, place in places.items()}
        shapes = self.shapes(index)
        same = found.keys() == shapes.keys() and all(shapes[name][0] == info.shape for name, info in found.items())
        return found if same else None

    def layer_tensors(self, index: int) -> dict[str, Tensor]:
        """Read and convert a layer's weights, on the CPU; reads nothing else, and holds little else.

        Raises `ModelError` when a shard cannot be read any more.
        """
        layer = self._layers[index]
        own = dict(layer.state_dict(keep_vars=True))
        rest, fused = self._fusions(index)
        try:
            tensors = {
                name: self._fuse(index, name, experts)
                for name, experts in sorted(fused.items(), key=lambda item: -own[item[0]].nbytes)
            }
            self._load(rest, own, index)
            return {name: tensor if name not in tensors else tensors[name] for name, tensor in layer.state_dict().items()}
        finally:
            for name, tensor in own.items():
                _put(layer, name, tensor)

    def outside(self) -> dict[str, TensorInfo]:
        """The checkpoint's tensors that belong to the network, but to none of its decoder layers."""
        return {name: self._checkpoint.tensors[name] for name in self._places[None]}

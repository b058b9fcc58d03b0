"""A network that is ready but for its decoder layers, whose weights somebody else keeps and brings."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.model.blueprint import Blueprint, draw_blueprint
from engine.model.checkpoint import Checkpoint
from engine.model.layer_loading import WeightLoader
from engine.model.network import Network, find_layers, wrap
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A network with everything but its layers' weights, which are on meta; `blueprint` makes them one at a time."""

    network: Network
    blueprint: Blueprint

    def shapes(self, index: int) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """See `Blueprint.shapes`."""
        return self.blueprint.shapes(index)

    def layer_tensors(self, index: int) -> dict[str, Tensor]:
        """See `Blueprint.layer_tensors`."""
        return self.blueprint.layer_tensors(index)

    def one_to_one(self, index: int) -> dict[str, TensorInfo] | None:
        """See `Blueprint.one_to_one`."""
        return self.blueprint.one_to_one(index)


def build_skeleton(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> Skeleton:
    """Load embeddings, final norm and head onto `device`, and leave the decoder layers on meta.

    Raises `ModelError` for what cannot be used.
    """
    blueprint = draw_blueprint(checkpoint, dtype)
    architecture = blueprint.architecture
    model = architecture.build_on_meta(dtype)
    loader = WeightLoader(model, dtype)
    loader.rebuild_buffers(device)
    loader.finish(loader.load(blueprint.outside(), device))
    model.eval().requires_grad_(False)
    layers = find_layers(model)
    inside = {id(tensor) for tensor in layers.state_dict(keep_vars=True).values()}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_meta and id(tensor) not in inside:
            raise ModelError(
                say("'{name}' lacks the weights {tensor}.", name=checkpoint.name, tensor=name),
                say("Download the model again."),
            )
    return Skeleton(wrap(model, architecture.attention, checkpoint.name), blueprint)

"""A second network over the same checkpoint that shares all it can with the first: only some layers are its own."""

from collections.abc import Collection
from dataclasses import replace

from torch import nn

from engine.model.architecture import open_architecture
from engine.model.checkpoint import Checkpoint
from engine.model.network import Network, find_layers
from engine.model.rope import find_rope


def build_twin(network: Network, checkpoint: Checkpoint, own: Collection[int]) -> Network:
    """A twin of `network`, made from `checkpoint`, whose layers `own` are on meta, for somebody to bring their weights.

    Embeddings, norms, head and all other layers are the network's own, and no second copy of them; hooks on shared
    layers run for both. Raises `ModelError` as `open_architecture` does.
    """
    model = open_architecture(checkpoint).build_on_meta(network.dtype)
    layers = find_layers(model)
    for index in range(len(layers)):
        if index not in own:
            layers[index] = network.layers[index]
    stored = {id(module) for index in own for module in layers[index].modules()}
    for name, module in model.named_modules():
        original = network.model.get_submodule(name)
        if module is not original:
            _share(original, module, weights=id(module) not in stored)
    return replace(network, model=model, layers=layers, rope=find_rope(model, checkpoint.name))


def _share(original: nn.Module, module: nn.Module, weights: bool) -> None:
    """Buffers that no checkpoint holds are always shared, parameters and other buffers with the `weights`."""
    for leaf, buffer in original._buffers.items():
        if weights or leaf in original._non_persistent_buffers_set:
            module._buffers[leaf] = buffer
    if weights:
        module._parameters.update(original._parameters)

"""Networks made from a checkpoint: without their layers' weights, with all of them, or sharing those of another one."""

from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass, replace

import torch
from torch import nn

from engine.accelerator import is_accelerator
from engine.errors import ModelError
from engine.model.architecture import open_architecture
from engine.model.checkpoint import Checkpoint
from engine.model.families.hashed_tables import require_rows_of_tables
from engine.model.families.slot_positions import take_masks
from engine.model.layer_converter import LayerConverter, open_layer_converter
from engine.model.network import Network, adapt_layers, find_layers, wrap
from engine.model.passes.light import adoption
from engine.model.rope import find_rope
from engine.model.weight_loader import WeightLoader
from engine.protocol.sentences import say


@dataclass(frozen=True, slots=True)
class StreamableNetwork:
    """A network with everything but its layers' weights, which are on meta; `converter` makes them one at a time."""

    network: Network
    converter: LayerConverter


def build_streamable(
    checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, leaves_tables: bool = False
) -> StreamableNetwork:
    """Load embeddings, final norm and head onto `device`, and leave the decoder layers on meta.

    `leaves_tables`: as well as `packed_tables` of the converter. Raises `ModelError` for what cannot be used.
    """
    converter = open_layer_converter(checkpoint, dtype)
    require_rows_of_tables(converter)
    architecture = converter.architecture
    model = architecture.build_on_meta(dtype)
    loader = WeightLoader(model, dtype, architecture.kind)
    loader.rebuild_buffers(device)
    tables = converter.packed_tables() if leaves_tables else {}
    report = loader.load(converter.without_tables() if leaves_tables else converter.outside(), device)
    report.missing_keys.difference_update(tables)
    loader.finish(report)
    model.eval().requires_grad_(False)
    layers = find_layers(model)
    left = {id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False) if name in tables}
    inside = left | {id(tensor) for tensor in layers.state_dict(keep_vars=True).values()}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_meta and id(tensor) not in inside:
            raise ModelError(
                say("'{name}' lacks the weights {tensor}.", name=checkpoint.name, tensor=name),
                say("Download the model again."),
            )
    network = wrap(model, architecture.attention, checkpoint.name)
    return StreamableNetwork(replace(network, device=device) if tables else network, converter)


def load_layerwise(
    checkpoint: Checkpoint,
    dtype: torch.dtype,
    device: torch.device,
    on_layer: Callable[[nn.Module], None] = lambda _layer: None,
) -> Generator[tuple[int, int], None, Network]:
    """Load every weight of the checkpoint onto `device` as numbers of `dtype`, however the checkpoint stores them.

    Equals the network that transformers makes. Calls `on_layer` with each layer once it is loaded, and yields (layers
    loaded, layers); raises `ModelError` for what cannot be used.
    """
    streamable = build_streamable(checkpoint, dtype, device)
    layers = streamable.network.layers
    for index, layer in enumerate(layers):
        layer.load_state_dict(
            {name: weight.to(device) for name, weight in streamable.converter.weights(index)}, assign=True
        )
        on_layer(layer)
        yield index + 1, len(layers)
    return streamable.network


def build_self_draft_network(network: Network, checkpoint: Checkpoint, own: Collection[int]) -> Network:
    """A second network over `checkpoint` whose layers `own` are on meta, to be loaded with copies.

    It shares embeddings, norms, head and all other layers with `network`; hooks on shared layers
    run for both. Raises `ModelError` as `open_architecture` does.
    """
    model = open_architecture(checkpoint).build_on_meta(network.dtype)
    layers = find_layers(model)
    for index in range(len(layers)):
        if index not in own:
            layers[index] = network.layers[index]
    take_masks(model)
    adapt_layers([layers[index] for index in own], checkpoint.name)
    stored = {id(module) for index in own for module in layers[index].modules()}
    for name, module in model.named_modules():
        original = network.model.get_submodule(name)
        if module is not original:
            _share(original, module, weights=id(module) not in stored)
    if not is_accelerator(network.device):
        adoption.adopt(model)
    return replace(network, model=model, layers=layers, rope=find_rope(model, checkpoint.name))


def _share(original: nn.Module, module: nn.Module, weights: bool) -> None:
    """Buffers that no checkpoint holds are always shared, parameters and other buffers with the `weights`."""
    for leaf, buffer in original._buffers.items():
        if weights or leaf in original._non_persistent_buffers_set:
            module._buffers[leaf] = buffer
    if weights:
        module._parameters.update(original._parameters)

"""Ready weights, brought to the device one layer at a time: host memory holds one layer beside them, not the model."""

from collections.abc import Generator

import torch

from engine.model.checkpoint import Checkpoint
from engine.model.network import Network
from engine.model.skeleton import build_skeleton


def load_layerwise(
    checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device
) -> Generator[tuple[int, int], None, Network]:
    """Load every weight of the checkpoint onto `device` as numbers of `dtype`, however the checkpoint stores them.

    The same network as transformers makes. Yields how many layers are there, of how many; raises `ModelError` for
    what cannot be used.
    """
    skeleton = build_skeleton(checkpoint, dtype, device)
    layers = skeleton.network.layers
    for index, layer in enumerate(layers):
        layer.load_state_dict(
            {name: weight.to(device) for name, weight in skeleton.blueprint.weights(index)}, assign=True
        )
        yield index + 1, len(layers)
    return skeleton.network

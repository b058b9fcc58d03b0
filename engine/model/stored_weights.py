"""The weights of a checkpoint by the decoder layer they belong to, told from their names."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from engine.model.safetensors_header import TensorInfo

IN_LAYER = re.compile(r"(?P<stack>(?:.*\.)?layers)\.(?P<index>\d+)\.(?P<name>.+)", re.ASCII)
NOT_WEIGHTS = "rotary_emb.inv_freq"  # old Llama checkpoints store what every model computes for itself
MXFP4, MXFP4_BLOCKS, MXFP4_SCALES = "MXFP4", "_blocks", "_scales"


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """One weight: its name (inside a layer: relative to the layer), its numbers' shape, their type as safetensors says.

    `nbytes` are those of the checkpoint. Of the packed types only MXFP4 is known.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int

    @property
    def elements(self) -> int:
        """Numbers in the weight."""
        return math.prod(self.shape)


def layers_and_rest(
    tensors: Mapping[str, TensorInfo], count: int
) -> tuple[list[list[StoredWeight]], list[StoredWeight]]:
    """The weights of each of the `count` decoder layers (0: however many there are), and those outside the layers.

    No layers at all means that no list of layers in the checkpoint holds so many.
    """
    stacks: dict[str, dict[int, list[StoredWeight]]] = {}
    rest: list[StoredWeight] = []
    for weight in _weights(tensors):
        match = IN_LAYER.fullmatch(weight.name)
        if match is None:
            rest.append(weight)
        else:
            own = replace(weight, name=match["name"])
            stacks.setdefault(match["stack"], {}).setdefault(int(match["index"]), []).append(own)
    # An image encoder has a list of layers too, but a smaller one.
    whole = [stack for stack, layers in stacks.items() if _is_whole(layers, count or len(layers))]
    if not whole:
        return [], rest
    layers = stacks.pop(max(whole, key=lambda stack: _nbytes(stacks[stack])))
    rest += [weight for other in stacks.values() for layer in other.values() for weight in layer]
    # Layers behind the last one serve the prediction of further tokens; no loader reads them.
    return [layers[index] for index in range(count or len(layers))], rest


def _weights(tensors: Mapping[str, TensorInfo]) -> Iterator[StoredWeight]:
    """What is stored, in the shapes of the numbers that it means: MXFP4 packs two numbers into a byte."""
    for name, tensor in tensors.items():
        if name.endswith(NOT_WEIGHTS):
            continue
        nbytes, shape = tensor.end - tensor.begin, tensor.shape
        if name.endswith(MXFP4_BLOCKS) and len(shape) > 2:
            yield StoredWeight(
                name.removesuffix(MXFP4_BLOCKS), (*shape[:-2], 2 * shape[-2] * shape[-1]), "BF16", nbytes
            )
        elif name.endswith(MXFP4_SCALES) and name.removesuffix(MXFP4_SCALES) + MXFP4_BLOCKS in tensors:
            yield StoredWeight(name, (0,), tensor.dtype, nbytes)
        else:
            yield StoredWeight(name, shape, tensor.dtype, nbytes)


def _is_whole(layers: Mapping[int, list[StoredWeight]], count: int) -> bool:
    return len(layers) >= count and all(index in layers for index in range(count))


def _nbytes(layers: Mapping[int, list[StoredWeight]]) -> int:
    return sum(weight.nbytes for layer in layers.values() for weight in layer)

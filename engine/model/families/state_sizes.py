"""What a layer that keeps a state takes of the cache, from the shapes of its weights."""

from collections.abc import Mapping
from dataclasses import dataclass

HEAD_DIM = 128  # of keys, where config.json leaves it to the configuration class


@dataclass(frozen=True, slots=True)
class StateSizes:
    """Numbers that one layer keeps: of the text, and of every pending node.

    `state` and `node` are float32, `tail` and `node_inputs` of the type that the model computes in. `heads`: of what is
    written, each with a decay of its own; `width`: keys and values of all of them.
    """

    state: int
    tail: int
    node: int
    node_inputs: int
    heads: int
    width: int

    def text_bytes(self, value_bytes: int) -> int:
        """What the layer knows of the text, however long it is."""
        return 4 * self.state + value_bytes * self.tail

    def node_bytes(self, value_bytes: int) -> int:
        """What a pending node leaves."""
        return 4 * self.node + value_bytes * self.node_inputs


def state_sizes(shapes: Mapping[str, tuple[int, ...]], text: Mapping[str, object]) -> StateSizes | None:
    """Of a layer with weights of these shapes, by their names inside the layer; None if it keeps no state.

    `text`: the entries of config.json that describe the language model.
    """
    prefix = next((name.removesuffix("A_log") for name in shapes if name.endswith("A_log")), None)
    norms = (shapes.get(f"{prefix}{norm}.weight", ()) for norm in ("norm", "o_norm"))
    value_dim = next((shape[0] for shape in norms if len(shape) == 1), 0)
    convolutions = [shape for name, shape in shapes.items() if name.endswith("conv1d.weight") and len(shape) == 3]
    if prefix is None or not convolutions or not value_dim:
        return None
    heads, channels, width = shapes[f"{prefix}A_log"][0], sum(shape[0] for shape in convolutions), convolutions[0][2]
    stated = text.get("linear_key_head_dim")
    key_dim = stated if type(stated) is int and stated > 0 else HEAD_DIM
    written = heads * value_dim
    return StateSizes(
        state=written * key_dim,
        tail=channels * (width - 1),
        node=(channels - written) // 2 + written + heads,
        node_inputs=channels,
        heads=heads,
        width=heads * key_dim + written,
    )

"""What a layer that keeps a state takes of the cache, from the shapes of its weights."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

Shapes = Mapping[str, tuple[int, ...]]
PROJECTS_KEYS = re.compile(r"\b(k_proj|kv_a_proj\w*|qkv_proj)\.")
LIGHTNING = ("self_attn.qkv_proj.weight", "self_attn.output_gate.weight")  # of attention without a softmax (MiniMax)
LOOKUP = "ple."  # of n-grams of tokens, beside a state
NGRAM = 3  # tokens, where config.json leaves it to the configuration class
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


def state_sizes(shapes: Shapes, text: Mapping[str, object]) -> StateSizes | None:
    """Of a layer with weights of these shapes, by their names inside the layer; None if it keeps no state.

    `text`: the entries of config.json that describe the language model.
    """
    if not any(name.startswith(LOOKUP) for name in shapes):
        return _of_state(shapes, text)
    own = _of_state({name: shape for name, shape in shapes.items() if not name.startswith(LOOKUP)}, text)
    return own and _with_lookup(own, shapes, text)


def _with_lookup(own: StateSizes, shapes: Shapes, text: Mapping[str, object]) -> StateSizes:
    """With what Qwen4-Exp's per-layer embeddings keep: inputs of a convolution with gaps, and token ids of 64 bits."""
    channels, _, width = shapes.get(f"{LOOKUP}conv1d.weight", (0, 1, 1))
    reach = _number(text, "ngram_size") or NGRAM
    return replace(
        own,
        tail=own.tail + channels * (width - 1) * reach,
        node_inputs=own.node_inputs + channels,
        state=own.state + 2 * (reach - 1),
        node=own.node + 2,
    )


def _of_state(shapes: Shapes, text: Mapping[str, object]) -> StateSizes | None:
    if _is_lightning(shapes):
        return _of_lightning(shapes, text)
    part = _part(shapes)
    convolutions = [shape for name, shape in shapes.items() if _is_convolution(name) and len(shape) == 3]
    if part is None or not convolutions:
        return None
    channels, reach = sum(shape[0] for shape in convolutions), convolutions[0][2] - 1
    own = {name.rpartition(".")[2]: shape for name, shape in shapes.items() if name.startswith(part)}
    decays = own.get("A_log")
    if decays is None:  # a convolution and nothing else
        return StateSizes(0, channels * reach, 0, channels, 0, 0)
    if len(decays) == 2:  # Mamba: every channel has decays, of every number of its state; no pairs are compared
        state = math.prod(decays)
        return StateSizes(state, channels * reach, decays[1] + 2 * decays[0], channels, 0, state)
    heads = math.prod(decays)
    logs = math.prod(own.get("dt_bias", (heads,)))
    if "D" in own:
        written = shapes.get(f"{part}in_proj.weight", (0,))[0] - channels - heads
        keys = (channels - written) // 2  # of all groups
        key_dim = _number(text, "mamba_d_state", "ssm_state_size", "state_size") or keys
    else:
        norms = (shapes.get(f"{part}{norm}.weight", ()) for norm in ("norm", "o_norm"))
        written = heads * next((shape[0] for shape in norms if len(shape) == 1), 0)
        keys = (channels - written) // 2
        key_dim = _number(text, "linear_key_head_dim") or (HEAD_DIM if logs == heads else logs // heads)
    if not 0 < written < channels:
        return None
    return StateSizes(
        state=written * key_dim,
        tail=channels * reach,
        node=keys + written + logs,
        node_inputs=channels,
        heads=heads,
        width=heads * key_dim + written,
    )


def _is_lightning(shapes: Shapes) -> bool:
    return all(name in shapes for name in LIGHTNING)


def _of_lightning(shapes: Shapes, text: Mapping[str, object]) -> StateSizes | None:
    heads, width = _number(text, "num_attention_heads"), shapes[LIGHTNING[1]][0]
    if not heads or width % heads:
        return None
    return StateSizes(
        state=width * (width // heads), tail=0, node=2 * width + heads, node_inputs=0, heads=heads, width=2 * width
    )


def has_attention(shapes: Shapes) -> bool:
    """Whether such a layer, of a family with layers that keep a state, has keys and values."""
    if _is_lightning(shapes):
        return False
    part = _part(shapes)
    return any(PROJECTS_KEYS.search(name) and not (part and name.startswith(part)) for name in shapes)


def _part(shapes: Shapes) -> str | None:
    """What the names of all weights begin with that belong to the state; None if there is none."""
    found = next((name for name in shapes if name.endswith("A_log") or _is_convolution(name)), None)
    return None if found is None else found.partition(".")[0] + "."


def _is_convolution(name: str) -> bool:
    return name.endswith(("conv1d.weight", "conv.conv.weight"))


def _number(text: Mapping[str, object], *names: str) -> int:
    values = (text.get(name) for name in names)
    return next((value for value in values if type(value) is int and value > 0), 0)

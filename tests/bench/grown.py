"""A model of any size that writes the embedded target's text: wider, deeper, and on disk hardly larger than that."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import safe_open
from torch import Tensor

from tests.bench.inflate import EMBEDDED

BLOCK_ROWS = 1 << 12
NORMS = ("input_layernorm", "post_attention_layernorm")
OWN_LAYERS, OWN_HIDDEN, OWN_HEADS, HEAD_DIM = 8, 256, 4, 64


@dataclass(frozen=True, slots=True)
class Shape:
    """A Llama's proportions; heads are `HEAD_DIM` wide, as the embedded target's are. `hidden`: n times its width."""

    layers: int
    hidden: int
    inner: int
    kv_heads: int

    @property
    def heads(self) -> int:
        """As many as make up the width, in groups of equal size."""
        return self.kv_heads * max(1, self.hidden // HEAD_DIM // self.kv_heads)

    def scaled(self, scale: float) -> "Shape":
        """Smaller in every direction, but no smaller than the embedded target."""
        return Shape(
            layers=max(OWN_LAYERS, int(self.layers * scale)),
            hidden=max(1, int(self.hidden * scale / OWN_HIDDEN)) * OWN_HIDDEN,
            inner=max(6, int(self.inner * scale / 128)) * 128,
            kv_heads=max(OWN_HEADS, int(self.kv_heads * scale)),
        )


# Llama 3 70B and Llama 30B, with heads half as wide and twice as many; the vocabulary stays the embedded pair's.
SHAPES = {"70b": Shape(80, 8192, 28672, 16), "30b": Shape(60, 6656, 17920, 104)}


@dataclass(frozen=True, slots=True)
class Sparse:
    """A matrix of zeros but for patches: (row, column, values). `noise`: random numbers everywhere instead.

    `stacked`: so many matrices of equal size lie one on the other.
    """

    rows: int
    columns: int
    patches: tuple[tuple[int, int, Tensor], ...] = ()
    noise: bool = False
    stacked: int = 0


def grow(folder: Path, shape: Shape, noise: bool = False) -> Path:
    """Write to `folder` a copy of the embedded target in this shape; returns `folder`.

    Every number of the hidden state stands there as often as it fits, so that norms find what they found; only the
    first of each is read again. Heads and inner units that are new are multiplied by zero, and so is all that the
    layers behind the embedded target's own compute. The logits are the same, up to the order of additions.

    What is zero takes no room on a disk with sparse files. `noise` fills the new layers' inner weights with random
    numbers: as large as they look, for whoever suspects that zeros compute faster.
    """
    shutil.copytree(EMBEDDED, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "config.json").write_text(json.dumps(config_of(shape)))
    weight_map: dict[str, str] = {}
    own = embedded_weights()
    for index in range(-1, shape.layers):
        shard = f"model-{index + 2:05d}-of-{shape.layers + 1:05d}.safetensors"
        matrices = outside(own, shape.hidden) if index < 0 else layer(own, index, shape, noise)
        write_matrices(folder / shard, matrices)
        weight_map |= dict.fromkeys(matrices, shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def config_of(shape: Shape) -> dict[str, Any]:
    """The embedded target's, in this shape."""
    config: dict[str, Any] = json.loads((EMBEDDED / "config.json").read_text())
    return config | {
        "num_hidden_layers": shape.layers, "hidden_size": shape.hidden, "intermediate_size": shape.inner,
        "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads, "tie_word_embeddings": False,
    }  # fmt: skip


def embedded_weights() -> dict[str, Tensor]:
    """All of the embedded target's, by name."""
    with safe_open(EMBEDDED / "model.safetensors", "pt") as tensors:
        return {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118  # not a mapping


def outside(own: Mapping[str, Tensor], hidden: int) -> dict[str, Sparse]:
    """What no layer holds, for so many hidden numbers."""
    embeddings, norm = own["model.embed_tokens.weight"], own["model.norm.weight"]
    copies, vocabulary = hidden // OWN_HIDDEN, len(embeddings)
    return {
        "model.embed_tokens.weight": Sparse(vocabulary, hidden, ((0, 0, embeddings.repeat(1, copies)),)),
        "model.norm.weight": Sparse(0, hidden, ((0, 0, norm.repeat(1, copies)),)),
        "lm_head.weight": Sparse(vocabulary, hidden, ((0, 0, embeddings),)),
    }


def layer(own: Mapping[str, Tensor], index: int, shape: Shape, noise: bool) -> dict[str, Sparse]:
    """What the layer of this number holds; `own`: the embedded target's weights."""
    return attention(own, index, shape, noise) | network(own, index, shape, noise)


def attention(own: Mapping[str, Tensor], index: int, shape: Shape, noise: bool) -> dict[str, Sparse]:
    """The layer's attention and its norms."""
    hidden, heads = shape.hidden, shape.heads * HEAD_DIM
    sizes = {
        "self_attn.q_proj": (heads, hidden),
        "self_attn.k_proj": (shape.kv_heads * HEAD_DIM, hidden),
        "self_attn.v_proj": (shape.kv_heads * HEAD_DIM, hidden),
        "self_attn.o_proj": (hidden, heads),
        **dict.fromkeys(NORMS, (0, hidden)),
    }
    return dict(_grown(own, index, part, size, shape, noise) for part, size in sizes.items())


def network(own: Mapping[str, Tensor], index: int, shape: Shape, noise: bool) -> dict[str, Sparse]:
    """The layer's feed-forward network."""
    sizes = dict.fromkeys(("mlp.gate_proj", "mlp.up_proj"), (shape.inner, shape.hidden))
    sizes["mlp.down_proj"] = (shape.hidden, shape.inner)
    return dict(_grown(own, index, part, size, shape, noise) for part, size in sizes.items())


def _grown(
    own: Mapping[str, Tensor], index: int, part: str, size: tuple[int, int], shape: Shape, noise: bool
) -> tuple[str, Sparse]:
    """A weight's name and what it holds."""
    name = f"model.layers.{index}.{part}.weight"
    if index < OWN_LAYERS:
        return name, Sparse(*size, tuple(_patches(part, own[name], shape)))
    if part in NORMS:
        return name, Sparse(*size, ((0, 0, torch.ones(1, shape.hidden, dtype=torch.bfloat16)),))
    return name, Sparse(*size, noise=noise and part not in ("self_attn.o_proj", "mlp.down_proj"))


def _patches(part: str, weight: Tensor, shape: Shape) -> Sequence[tuple[int, int, Tensor]]:
    """Where the embedded target's own numbers go."""
    copies = shape.hidden // OWN_HIDDEN
    apart = shape.heads // shape.kv_heads * HEAD_DIM  # from a key's first query head to the next key's
    by_head = [slice(head * HEAD_DIM, (head + 1) * HEAD_DIM) for head in range(OWN_HEADS)]
    if part in NORMS:
        return [(0, 0, weight.repeat(1, copies))]
    if part == "self_attn.q_proj":
        return [(number * apart, 0, weight[head]) for number, head in enumerate(by_head)]
    if part == "self_attn.o_proj":
        return [(0, number * apart, weight[:, head].repeat(copies, 1)) for number, head in enumerate(by_head)]
    return [(0, 0, weight.repeat(copies, 1) if part == "mlp.down_proj" else weight)]


def write_matrices(path: Path, matrices: Mapping[str, Sparse]) -> None:
    """A safetensors file whose zeros are holes, where the file system has such."""
    header: dict[str, dict[str, Any]] = {}
    end = 0
    for name, matrix in matrices.items():
        begin, end = end, end + 2 * max(1, matrix.rows) * matrix.columns
        size = [matrix.rows, matrix.columns] if matrix.rows else [matrix.columns]
        header[name] = {"dtype": "BF16", "shape": size, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text = text.ljust(-(-(len(text) + 8) // 4096) * 4096 - 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(len(text) + 8 + end)
        for name, matrix in matrices.items():
            _fill(file, len(text) + 8 + header[name]["data_offsets"][0], matrix)


def _fill(file: BinaryIO, begin: int, matrix: Sparse) -> None:
    if matrix.noise:
        file.seek(begin)
        block = _bytes(torch.randn(BLOCK_ROWS, matrix.columns, generator=torch.Generator().manual_seed(0)) * 0.02)
        left = 2 * matrix.rows * matrix.columns
        while left:
            left -= file.write(block[:left])
    for row, column, values in matrix.patches:
        for number, line in enumerate(values):
            file.seek(begin + 2 * ((row + number) * matrix.columns + column))
            file.write(_bytes(line))


def _bytes(values: Tensor) -> memoryview:
    return memoryview(values.bfloat16().contiguous().view(torch.uint8).numpy().reshape(-1))  # type: ignore[arg-type]

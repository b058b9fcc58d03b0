"""A GGUF file of full size, written layer by layer: what a machine with little memory could not hold at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from torch import Tensor
from transformers import Glm4MoeConfig, LlamaConfig, PretrainedConfig

from engine.cli.progress import say
from tests.bench import full_size_mixture, grown
from tests.bench.full_size_mixture import MixtureShape
from tests.bench.grown import OWN_LAYERS, Shape, Sparse
from tests.bench.inflate import EMBEDDED
from tests.engine.gguf_files import Array, encode, fitting, stored_tensors, write_config, write_tokenizer

NOISE_ROWS = 256  # that repeat: random numbers, so that none of them is computed faster than a model's own
OUTSIDE = -1  # the number of what no layer holds


@dataclass(frozen=True, slots=True)
class FullSize:
    """A model to be written: what its layers hold by their numbers, and under `OUTSIDE` what none does."""

    architecture: str
    config: PretrainedConfig
    parts: dict[int, dict[str, Sparse]]


def grown_llama(shape: Shape) -> FullSize:
    """The embedded target in this shape; layers behind its own compute with random numbers, and add nothing."""
    config = LlamaConfig(**{name: value for name, value in grown.config_of(shape).items() if name != "architectures"})
    own = grown.embedded_weights()
    parts = {OUTSIDE: grown.outside(own, shape.hidden)}
    return FullSize(
        "llama", config, parts | {index: grown.layer(own, index, shape, noise=True) for index in range(shape.layers)}
    )


def grown_mixture(shape: MixtureShape) -> FullSize:
    """The trained mixture in this shape."""
    config = full_size_mixture.config_of(shape)
    return FullSize("glm4moe", Glm4MoeConfig(**config), full_size_mixture.parts_of(shape))


def write_full_size(path: Path, model: FullSize, kind: str) -> Path:
    """Write the model in blocks of a kind; returns `path`."""
    half = path.with_suffix(".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(half, model.architecture)
    write_config(writer, model.config, model.architecture)
    write_tokenizer(writer, EMBEDDED, model.config.vocab_size)
    for sparse in model.parts.values():
        for own_name, matrix in sparse.items():
            for name, tensor in _named(own_name, torch.empty(_size(matrix), device="meta"), model):
                _announce(writer, name, tuple(tensor.shape), fitting(kind, name, tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for number, stored in enumerate(_stored(model, kind)):
        for blocks in stored:
            writer.write_tensor_data(blocks)
        if number % 10 == 0:
            say(f"{path.name}: {number} of {len(model.parts)} written")
    writer.close()
    return half.replace(path)


def _named(own_name: str, tensor: Tensor, model: FullSize) -> Iterator[tuple[str, Tensor]]:
    return stored_tensors({own_name: tensor}, model.config, model.architecture)


def _size(matrix: Sparse) -> tuple[int, ...]:
    if matrix.stacked:
        return matrix.stacked, matrix.rows // matrix.stacked, matrix.columns
    return (matrix.rows, matrix.columns) if matrix.rows else (matrix.columns,)


def _announce(writer: Any, name: str, size: tuple[int, ...], kind: str) -> None:
    elements, nbytes = gguf.GGML_QUANT_SIZES[Kind[kind]]
    in_all = int(np.prod(size)) // elements * nbytes
    if kind == "F32":
        writer.add_tensor_info(name, size, np.dtype(np.float32), in_all)
    else:
        row_bytes = size[-1] // elements * nbytes
        writer.add_tensor_info(name, (*size[:-1], row_bytes), np.dtype(np.uint8), in_all, raw_dtype=Kind[kind])


def _stored(model: FullSize, kind: str) -> Iterator[list[Array]]:
    """Every part's tensors; layers that are noise are all alike, and encoded once."""
    noise: list[Array] = []
    for index, sparse in model.parts.items():
        if index > OWN_LAYERS:
            yield noise
            continue
        noise = [
            _encoded(tensor, fitting(kind, name, tensor))
            for own_name, matrix in sparse.items()
            for name, tensor in _named(own_name, _dense(matrix), model)
        ]
        yield noise


def _dense(matrix: Sparse) -> Tensor:
    made = torch.zeros(max(1, matrix.rows), matrix.columns, dtype=torch.bfloat16)
    if matrix.noise:
        chance = torch.Generator().manual_seed(0)
        block = (torch.randn(NOISE_ROWS, matrix.columns, generator=chance) * 0.02).bfloat16()
        made = block.repeat(-(-matrix.rows // NOISE_ROWS), 1)[: matrix.rows]
    for row, column, values in matrix.patches:
        part = values if values.dim() > 1 else values[None]
        made[row : row + len(part), column : column + part.shape[1]] = part
    return made.view(_size(matrix))


def _encoded(tensor: Tensor, kind: str) -> Array:
    """Some rows at a time, and each block of rows that is like an earlier one as that."""
    if tensor.dim() < 2:
        return encode(tensor.float().numpy(), kind)
    known: dict[bytes, Array] = {}
    found = []
    for rows in torch.split(tensor.flatten(0, -2), NOISE_ROWS):
        content = rows.contiguous().view(torch.uint8).numpy().tobytes()
        if content not in known:
            known[content] = encode(rows.float().numpy(), kind)
        found.append(known[content])
    return np.concatenate(found).reshape(*tensor.shape[:-1], -1)

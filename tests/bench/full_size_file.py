"""A GGUF file of full size, written layer by layer: what a machine with little memory could not hold at once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from torch import Tensor
from transformers import LlamaConfig

from engine.cli.progress import say
from tests.bench.grown import OWN_LAYERS, Shape, Sparse, config_of, embedded_weights, layer, outside
from tests.bench.inflate import EMBEDDED
from tests.engine.gguf_families import changed
from tests.engine.gguf_files import Array, encode, fitting, write_config, write_tokenizer

NOISE_ROWS = 256  # that repeat: random numbers, so that none of them is computed faster than a model's own
OUTSIDE = -1  # the number of what no layer holds


def write_full_size(path: Path, shape: Shape, kind: str) -> Path:
    """Write the embedded target, grown to this shape, in blocks of a kind; returns `path`.

    Layers behind its own compute with random numbers, and add nothing, see `tests.bench.grown`.
    """
    config = LlamaConfig(**{name: value for name, value in config_of(shape).items() if name != "architectures"})
    half = path.with_suffix(".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(half, "llama")
    write_config(writer, config, "llama")
    write_tokenizer(writer, EMBEDDED, config.vocab_size)
    own = embedded_weights()
    parts = {index: outside(own, shape.hidden) for index in (OUTSIDE,)}
    parts |= {index: layer(own, index, shape, noise=True) for index in range(shape.layers)}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, shape.layers)
    for sparse in parts.values():
        for name, matrix in sparse.items():
            _announce(writer, f"{names.get_name(name.removesuffix('.weight'))}.weight", matrix, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for number, stored in enumerate(_stored(parts, config, kind)):
        for tensor in stored:
            writer.write_tensor_data(tensor)
        if number % 10 == 0:
            say(f"{path.name}: {number} of {len(parts)} written")
    writer.close()
    return half.replace(path)


def _announce(writer: Any, name: str, matrix: Sparse, kind: str) -> None:
    size = (matrix.rows, matrix.columns) if matrix.rows else (matrix.columns,)
    stored = fitting(kind, name, torch.empty(size, device="meta"))
    elements, nbytes = gguf.GGML_QUANT_SIZES[Kind[stored]]
    in_all = int(np.prod(size)) // elements * nbytes
    if stored == "F32":
        writer.add_tensor_info(name, size, np.dtype(np.float32), in_all)
    else:
        row_bytes = size[-1] // elements * nbytes
        writer.add_tensor_info(name, (*size[:-1], row_bytes), np.dtype(np.uint8), in_all, raw_dtype=Kind[stored])


def _stored(parts: dict[int, dict[str, Sparse]], config: LlamaConfig, kind: str) -> Iterator[list[Array]]:
    """Every part's tensors; layers that are noise are all alike, and encoded once."""
    noise: list[Array] = []
    for index, sparse in parts.items():
        if index > OWN_LAYERS:
            yield noise
            continue
        noise = [
            _encoded(tensor, fitting(kind, name, tensor))
            for own_name, matrix in sparse.items()
            for name, tensor in changed(own_name, _dense(matrix), config, "llama")
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
    return made if matrix.rows else made[0]


def _encoded(tensor: Tensor, kind: str) -> Array:
    """Some rows at a time, and each block of rows that is like an earlier one as that."""
    if tensor.dim() < 2:
        return encode(tensor.float().numpy(), kind)
    known: dict[bytes, Array] = {}
    found = []
    for rows in torch.split(tensor, NOISE_ROWS):
        content = rows.contiguous().view(torch.uint8).numpy().tobytes()
        if content not in known:
            known[content] = encode(rows.float().numpy(), kind)
        found.append(known[content])
    return np.concatenate(found)

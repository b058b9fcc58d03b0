"""Mixtures of random weights in the proportions of published ones, as GGUF files of any size in 4 bits."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Kind
from torch import Tensor

from tests.bench.inflate import EMBEDDED
from tests.engine.gguf_families import ARCHITECTURES, extras
from tests.engine.gguf_files import Array, encode, fitting, stored_tensors, write_config, write_tokenizer

STEP = 256  # hidden numbers are a multiple of what a block of Q4_K holds
LAYERS = 4  # at least so many have experts
VOCABULARY = 4096  # the embedded tokenizer's
POOL_BLOCKS = 8191  # random blocks that all matrices are made of: a prime, so that rows do not repeat
DEVIATION = 0.02
EMBEDDING_DEVIATION = 1.0  # so large that a token, not its context, decides on its experts


@dataclass(frozen=True, slots=True)
class Shape:
    """Proportions of a mixture. `kind`: of the experts' blocks, `others`: of all other matrices.

    `width`: hidden numbers of the published model; `settings` makes what its config says besides, for a width.
    """

    config: str
    width: int
    kind: str
    others: str
    settings: Callable[[int], Mapping[str, Any]]


def _whole(part: float, step: int = STEP) -> int:
    """The nearest multiple of a step, but not 0."""
    return max(1, round(part / step)) * step


def _gpt_oss(experts: int) -> Shape:
    return Shape(
        "GptOssConfig", 2880, "MXFP4", "Q8_0",
        lambda width: {
            "intermediate_size": width, "num_local_experts": experts, "num_experts_per_tok": 4, "head_dim": 64,
            "num_attention_heads": _whole(width / 45, 8), "num_key_value_heads": 8,
        },
    )  # fmt: skip


# From the config.json of openai/gpt-oss-120b and -20b, Qwen/Qwen3-30B-A3B, zai-org/GLM-4.5-Air and
# mistralai/Mixtral-8x7B-v0.1.
SHAPES: dict[str, Shape] = {
    "gpt_oss": _gpt_oss(128),
    "gpt_oss_20b": _gpt_oss(32),
    "qwen3_moe": Shape(
        "Qwen3MoeConfig", 2048, "Q4_K", "Q4_K",
        lambda width: {
            "intermediate_size": 3 * width, "moe_intermediate_size": _whole(width * 3 / 8), "num_experts": 128,
            "num_experts_per_tok": 8, "head_dim": 128, "num_attention_heads": width // 64, "num_key_value_heads": 4,
            "norm_topk_prob": True,
        },
    ),
    "glm4_moe": Shape(
        "Glm4MoeConfig", 4096, "Q4_0", "Q4_0",
        lambda width: {
            "intermediate_size": _whole(width * 10_944 / 4096), "moe_intermediate_size": _whole(width * 11 / 32, 32),
            "n_routed_experts": 128, "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 1,
            "head_dim": 128, "num_attention_heads": width * 6 // STEP, "num_key_value_heads": width // STEP,
            "num_mtp_layers": 0, "partial_rotary_factor": 0.5,
        },
    ),
    "mixtral": Shape(
        "MixtralConfig", 4096, "Q4_K", "Q4_K",
        lambda width: {
            "intermediate_size": width * 7 // 2, "num_local_experts": 8, "num_experts_per_tok": 2, "head_dim": 128,
            "num_attention_heads": 4 * max(1, width // 512), "num_key_value_heads": max(1, width // 512),
        },
    ),
}  # fmt: skip


def config_of(shape: Shape, nbytes: int, least: int = LAYERS) -> Any:
    """A config of so many bytes, about, in its mixture's layers: as wide as published, or narrower with `least`."""
    widths = (*range(STEP, shape.width, STEP), shape.width)
    width = max((each for each in widths if least * _layer_bytes(shape, each) <= nbytes), default=STEP)
    layers = max(least, nbytes // _layer_bytes(shape, width))
    return _config(shape, width, layers)


def _config(shape: Shape, width: int, layers: int) -> Any:
    settings = shape.settings(width)
    made = {
        "hidden_size": width,
        "num_hidden_layers": layers + settings.get("first_k_dense_replace", 0),
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return getattr(transformers, shape.config)(**made, **settings)


def _layer_bytes(shape: Shape, width: int) -> int:
    """Of one layer's routed experts."""
    config = _config(shape, width, LAYERS)
    elements, nbytes = gguf.GGML_QUANT_SIZES[Kind[shape.kind]]
    inner = getattr(config, "moe_intermediate_size", config.intermediate_size)
    return int(config.num_local_experts * 3 * width * inner * nbytes // elements)


def write_random(path: Path, shape: Shape, nbytes: int, least: int = LAYERS) -> Path:
    """Write the file, with the embedded tokenizer; returns its path. No more than a matrix of it is in memory.

    `least`: as of `config_of`.
    """
    config = config_of(shape, nbytes, least)
    architecture = ARCHITECTURES[config.model_type]
    writer = gguf.GGUFWriter(path, architecture)
    write_config(writer, config, architecture)
    write_tokenizer(writer, EMBEDDED, VOCABULARY)
    tensors = [*_weights(config, architecture), *extras(config, architecture)]
    kinds = [fitting(shape.kind if "_exps." in name else shape.others, name, tensor) for name, tensor in tensors]
    for (name, tensor), kind in zip(tensors, kinds, strict=True):
        shape_in_bytes = gguf.quant_shape_to_byte_shape(tuple(tensor.shape), Kind[kind])
        writer.add_tensor_info(name, shape_in_bytes, np.dtype(np.uint8), int(np.prod(shape_in_bytes)), Kind[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    chance = np.random.default_rng(0)
    pools: dict[str, Array] = {}
    for (name, tensor), kind in zip(tensors, kinds, strict=True):
        writer.write_tensor_data(_numbers(name, tensor, kind, chance, pools))
    writer.close()
    return path


def _weights(config: Any, architecture: str) -> Iterator[tuple[str, Tensor]]:
    """Names and shapes of a model that holds no weights."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    return stored_tensors(model.state_dict(), config, architecture)


def _numbers(name: str, tensor: Tensor, kind: str, chance: np.random.Generator, pools: dict[str, Array]) -> Array:
    """A tensor as it is stored: norms of 1, no biases, and matrices of blocks from the pool of their kind."""
    if not tensor.is_meta:
        return encode(tensor.float().numpy(), kind)
    if tensor.ndim < 2 or kind == "F32":
        small = tensor.ndim > 1 and not name.endswith("bias")
        same = np.full(tensor.shape, float(name.endswith("norm.weight")))
        return (chance.normal(0, DEVIATION, tensor.shape) if small else same).astype(np.float32)
    elements, nbytes = gguf.GGML_QUANT_SIZES[Kind[kind]]
    if name == "token_embd.weight":
        return encode(chance.normal(0, EMBEDDING_DEVIATION, tensor.shape), kind)
    if kind not in pools:
        pools[kind] = encode(chance.normal(0, DEVIATION, (POOL_BLOCKS, elements)), kind)
    count = tensor.numel() // elements
    rolled = np.roll(pools[kind], int(chance.integers(POOL_BLOCKS)), axis=0)
    return np.resize(rolled, (count, nbytes))

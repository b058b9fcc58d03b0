"""Contents of small model repositories, made without any library that could read them."""

import json
from typing import Any

CONFIG: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 131,
    "max_position_embeddings": 512, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
}  # fmt: skip


def shapes(layers: range) -> dict[str, list[int]]:
    """The weights of a tiny Llama's layers."""
    found: dict[str, list[int]] = {}
    for index in layers:
        for name, shape in {
            "self_attn.q_proj": [64, 64], "self_attn.k_proj": [32, 64], "self_attn.v_proj": [32, 64],
            "self_attn.o_proj": [64, 64], "mlp.gate_proj": [96, 64], "mlp.up_proj": [96, 64], "mlp.down_proj": [64, 96],
            "input_layernorm": [64], "post_attention_layernorm": [64],
        }.items():  # fmt: skip
            found[f"model.layers.{index}.{name}.weight"] = shape
    return found


REST = {"model.embed_tokens.weight": [131, 64], "model.norm.weight": [64], "lm_head.weight": [131, 64]}


def safetensors(tensors: dict[str, list[int]], padding: int = 0) -> bytes:
    """A file of bfloat16 zeros, with a table that is `padding` bytes longer than it need be."""
    table, begin = {}, 0
    for name, shape in tensors.items():
        end = begin + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        table[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
        begin = end
    head = json.dumps(table).encode() + b" " * padding
    return len(head).to_bytes(8, "little") + head + bytes(begin)


def tiny(padding: int = 0, **config: Any) -> dict[str, bytes]:
    """A model in one weight file."""
    return {
        "config.json": json.dumps(CONFIG | config).encode(),
        "model.safetensors": safetensors(shapes(range(2)) | REST, padding),
        "tokenizer.json": b'{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}, "added_tokens": []}',
        "tokenizer_config.json": b"{}",
        "README.md": b"# Tiny",
    }


def sharded(**config: Any) -> dict[str, bytes]:
    """The same model in three weight files and an index."""
    parts = [shapes(range(1)), shapes(range(1, 2)), REST]
    files = tiny(**config)
    del files["model.safetensors"]
    weight_map: dict[str, str] = {}
    for number, part in enumerate(parts, start=1):
        shard = f"model-{number:05}-of-00003.safetensors"
        files[shard] = safetensors(part)
        weight_map |= dict.fromkeys(part, shard)
    return files | {"model.safetensors.index.json": json.dumps({"metadata": {}, "weight_map": weight_map}).encode()}

"""Models on a loopback hub that have the tables and sizes of real ones, and no weights behind them: for pictures."""

import json
from typing import Any

from tests.hub import Hub

_VOCABULARY = 151_936
_SHAPES = {  # hidden, intermediate, layers, heads, tied embeddings: as published for Qwen3
    "Qwen/Qwen3-32B": (5120, 25_600, 64, 64, False),
    "Qwen/Qwen3-14B": (5120, 17_408, 40, 40, False),
    "Qwen/Qwen3-8B": (4096, 12_288, 36, 32, False),
    "Qwen/Qwen3-4B": (2560, 9728, 36, 32, True),
    "Qwen/Qwen3-1.7B": (2048, 6144, 28, 16, True),
    "Qwen/Qwen3-0.6B": (1024, 3072, 28, 16, True),
}
_KV_HEADS, _HEAD = 8, 128
_SERVED_BYTES = 1 << 18  # more than is ever asked for


class Hollow(bytes):
    """The beginning of a file that says it is longer."""

    claimed = 0

    def __len__(self) -> int:
        return self.claimed


def put_up_qwen3(hub: Hub) -> None:
    """The dense models of one family, and one that asks for a login."""
    for place, name in enumerate(_SHAPES):
        _put_up(hub, name, name, 1000 - place)
    _put_up(hub, "acme/Qwen3-32B-for-members", "Qwen/Qwen3-32B", 5, gated="manual")


def _put_up(hub: Hub, name: str, like: str, downloads: int, **about: Any) -> None:
    shapes = _tensors(like)
    parameters = sum(_count(shape) for shape in shapes.values())
    files = {
        "config.json": json.dumps(_config(like)).encode(),
        "model.safetensors": _hollow(shapes),
        "tokenizer.json": b'{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}, "added_tokens": []}',
        "tokenizer_config.json": b"{}",
    }
    details = {"safetensors": {"parameters": {"BF16": parameters}}, "config": {"model_type": "qwen3"}}
    hub.add(name, files, downloads=downloads, details=details, **about)


def _config(name: str) -> dict[str, Any]:
    hidden, intermediate, layers, heads, tied = _SHAPES[name]
    return {
        "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": hidden, "hidden_act": "silu",
        "intermediate_size": intermediate, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": _KV_HEADS, "head_dim": _HEAD, "vocab_size": _VOCABULARY, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 40_960, "tie_word_embeddings": tied, "torch_dtype": "bfloat16",
        "attention_bias": False, "rope_theta": 1_000_000, "use_sliding_window": False,
    }  # fmt: skip


def _tensors(name: str) -> dict[str, list[int]]:
    hidden, intermediate, layers, heads, tied = _SHAPES[name]
    found = {"model.embed_tokens.weight": [_VOCABULARY, hidden], "model.norm.weight": [hidden]}
    if not tied:
        found["lm_head.weight"] = [_VOCABULARY, hidden]
    layer = {
        "self_attn.q_proj": [heads * _HEAD, hidden], "self_attn.k_proj": [_KV_HEADS * _HEAD, hidden],
        "self_attn.v_proj": [_KV_HEADS * _HEAD, hidden], "self_attn.o_proj": [hidden, heads * _HEAD],
        "self_attn.q_norm": [_HEAD], "self_attn.k_norm": [_HEAD],
        "mlp.gate_proj": [intermediate, hidden], "mlp.up_proj": [intermediate, hidden],
        "mlp.down_proj": [hidden, intermediate],
        "input_layernorm": [hidden], "post_attention_layernorm": [hidden],
    }  # fmt: skip
    for index in range(layers):
        found |= {f"model.layers.{index}.{part}.weight": shape for part, shape in layer.items()}
    return found


def _hollow(shapes: dict[str, list[int]]) -> Hollow:
    """A table of bfloat16 tensors, and as much of them as is asked for."""
    table, begin = {}, 0
    for name, shape in shapes.items():
        end = begin + 2 * _count(shape)
        table[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
        begin = end
    head = json.dumps(table).encode()
    file = Hollow(len(head).to_bytes(8, "little") + head + bytes(_SERVED_BYTES))
    file.claimed = 8 + len(head) + begin
    return file


def _count(shape: list[int]) -> int:
    return shape[0] * (shape[1] if len(shape) > 1 else 1)

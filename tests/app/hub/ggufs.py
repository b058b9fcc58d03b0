"""Small GGUF files, written by hand: a table, metadata and as many zeros as the table says."""

import struct
from collections.abc import Sequence
from typing import Any

_TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144)}
TOKENS = ("a", "b", "<|end|>", "[PAD3]")
TOKEN_TYPES = (1, 1, 3, 5)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(name: str, value: Any) -> bytes:
    """One entry of the metadata: a text, a number, or a list of either."""
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    if isinstance(value, int):
        return text(name) + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return text(name) + struct.pack("<If", 6, value)
    kind = 8 if isinstance(value[0], str) else 5
    content = b"".join(map(text, value)) if kind == 8 else struct.pack(f"<{len(value)}i", *value)
    return text(name) + struct.pack("<IIQ", 9, kind, len(value)) + content


def gguf(
    kind: str = "Q8_0", tokens: Sequence[str] = TOKENS, layers: int = 2, padding: int = 0, **metadata: Any
) -> bytes:
    """A Llama whose matrices are stored in `kind`; `padding` bytes longer metadata than it need have."""
    known = {
        "general.architecture": "llama", "general.file_type": 7, "llama.block_count": layers,
        "llama.context_length": 512, "llama.embedding_length": 256, "llama.feed_forward_length": 256,
        "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
        "llama.attention.layer_norm_rms_epsilon": 1e-6,
        "llama.rope.dimension_count": 64, "llama.vocab_size": 256, "general.description": "x" * padding,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": list(tokens),
        "tokenizer.ggml.token_type": list(TOKEN_TYPES[: len(tokens)]), "tokenizer.ggml.merges": ["a b"],
    } | {name.replace("__", "."): value for name, value in metadata.items()}  # fmt: skip
    entries = b"".join(entry(name, value) for name, value in known.items())
    table, at = b"", 0
    for name, shape in _shapes(layers).items():
        code, per_block, block_bytes = _TYPES[kind if len(shape) == 2 else "F32"]
        table += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, code, at)
        size = shape[0] * (shape[1] if len(shape) == 2 else 1) // per_block * block_bytes
        at += -(-size // 32) * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(_shapes(layers)), len(known)) + entries + table
    return head + bytes(-len(head) % 32) + bytes(at)


def _shapes(layers: int) -> dict[str, tuple[int, ...]]:
    """As GGUF writes them, the row's length first."""
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (256, 256), "output_norm.weight": (256,)}
    for index in range(layers):
        for name, shape in {
            "attn_q": (256, 256), "attn_k": (256, 128), "attn_v": (256, 128), "attn_output": (256, 256),
            "ffn_gate": (256, 256), "ffn_up": (256, 256), "ffn_down": (256, 256), "attn_norm": (256,),
            "ffn_norm": (256,),
        }.items():  # fmt: skip
            shapes[f"blk.{index}.{name}.weight"] = shape
    return shapes


def repository(**kinds: str) -> dict[str, bytes]:
    """A repository with a file for each variant, given as `label="number format"`, and what lies beside them."""
    files = {f"Tiny-{label}.gguf": gguf(kind) for label, kind in kinds.items()}
    return files | {"mmproj-F16.gguf": b"GGUF", "imatrix.gguf": b"GGUF", "README.md": b"# Tiny"}


TAGS: dict[str, Any] = {
    "tags": ["gguf", "license:mit"],
    "gguf": {"total": 1_000_000, "architecture": "llama", "context_length": 512},
}

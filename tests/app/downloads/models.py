"""A tiny model on the loopback hub, and what must hold of its copy."""

import random
from pathlib import Path

from tests.hub import Hub, Repo

REPO = "org/tiny"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
WEIGHTS = random.Random(7).randbytes(300_000)
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "generation_config.json": b"{}",
    "model.safetensors.index.json": b'{"weight_map": {}}',
    SHARDS[0]: WEIGHTS,
    SHARDS[1]: WEIGHTS[::-1],
    "tokenizer.json": b'{"version": "1.0"}' * 500,
    "chat_template.jinja": b"{{ messages }}",
}
UNWANTED = {
    "README.md": b"# Tiny",
    "modeling_tiny.py": b"raise SystemExit",
    "pytorch_model.bin": b"\x80\x04.",
    "consolidated.safetensors": WEIGHTS,
    "onnx/model.onnx": b"onnx",
    "original/model.safetensors": WEIGHTS,
}


def put_up(hub: Hub, **about: object) -> Repo:
    """The tiny model, with everything that repositories hold besides."""
    return hub.add(REPO, FILES | UNWANTED, **about)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its name."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def body_bytes(hub: Hub, name: str) -> int:
    """How many bytes of a file the hub has sent, all answers together."""
    return sum(request.sent_bytes for request in hub.asked(name))

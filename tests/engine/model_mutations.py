"""Model folders changed at random: JSON files, the weights' table, the index. Each opens or is refused in a sentence.

rng = random.Random(1)
with tempfile.TemporaryDirectory() as work:
    for mutated in mutations(rng, Path(work)):          # endless; the folder is gone at the next step
        sentence = open_model(mutated.folder)           # "" if it opened; raises what must never be raised
"""

import json
import os
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from engine.errors import CoppiceError
from engine.loading.estimate import Estimator
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.families.probe import probe_tree
from engine.model.layer_converter import open_layer_converter
from engine.model.streamable_network import load_layerwise
from engine.protocol.messages import Appraise, ChatMessage
from engine.protocol.options import LoadOptions
from engine.text.tokenizer import Tokenizer
from tests.engine.text.tiny_tokenizers import library_tokenizer
from tests.engine.tiny_models import FAMILIES, tiny_model

SINGLE = "model.safetensors"
JSON_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja")
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 1000, 10**6, 2**31, 2**63, -(2**63), 10**30, 0.0, 0.5, -1.5, 1e6, 1e300,
    float("nan"), float("inf"), "", "x", "eager", "flash_attention_2", "../../etc/passwd", "\ud800", "é" * 100,
    [], [1], [[]], ["full_attention"], ["a"] * 5000, {}, {"a": 1}, {"model_type": "llama"}, {"rope_type": "dynamic"},
)  # fmt: skip
ROPES: tuple[dict[str, Any], ...] = (
    {"rope_type": "linear", "factor": 1.0, "rope_theta": 1e4, "partial_rotary_factor": 3e6},
    {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4},
    {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 16},
    {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 8, "long_factor": [2.0] * 8},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0, "rope_theta": 1e4},
    {"rope_type": "nothing", "rope_theta": 1e4},
)
KEYS = (
    "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
    "intermediate_size", "max_position_embeddings", "sliding_window", "layer_types", "num_local_experts", "num_experts",
    "num_experts_per_tok", "rope_parameters", "rope_scaling", "partial_rotary_factor", "rope_theta", "text_config",
    "quantization_config", "tie_word_embeddings", "attn_logit_softcapping", "auto_map", "is_encoder_decoder",
    "per_layer_config", "get_text_config", "return_dict", "num_labels", "attribute_map", "sub_configs", "hidden_act",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutated:
    """A folder and what was done to it, in words."""

    folder: Path
    what: str


def make_seeds(folder: Path, families: tuple[str, ...] = tuple(FAMILIES)) -> list[Path]:
    """A whole tiny model of every family, with a tokenizer; made once, and left as it is."""
    tokenizer = library_tokenizer("byte level", "{% for m in messages %}{{ m.content }}{% endfor %}")
    seeds = []
    for family in families:
        seeds.append(folder / family)
        smaller = (
            {}
            if family in ("gemma3", "gpt_oss", "qwen3_5", "qwen3_mixed")
            else {"hidden_size": 32, "num_hidden_layers": 2}
        )
        model = tiny_model(family, dtype=torch.bfloat16, vocab_size=512, **smaller)
        model.save_pretrained(seeds[-1])
        tokenizer.save_pretrained(seeds[-1])
    return seeds


def mutations(rng: random.Random, folder: Path, seeds: list[Path] | None = None) -> Iterator[Mutated]:
    """Endless mutated folders in `folder`, one at a time: one to three changes in a whole model of any family."""
    seeds = seeds or make_seeds(folder / "seeds")
    target = folder / "mutated"
    while True:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for path in rng.choice(seeds).iterdir():
            if path.name == SINGLE:
                os.link(path, target / path.name)
            else:
                shutil.copyfile(path, target / path.name)
        changes = [rng.choice(CHANGES)(rng, target) for _ in range(rng.choice((1, 1, 2, 3)))]
        yield Mutated(target, "; ".join(changes).encode("ascii", "backslashreplace").decode())


def open_model(folder: Path, *, load: bool = True) -> str:
    """Walk every way in which the engine opens a folder; returns the refusal, or nothing when all of it worked.

    Whatever is raised but a `CoppiceError` is passed on: it is a fault. `load`: also read the weights and run passes.
    """
    try:
        Estimator(loaded=True).estimate(Appraise(1, LoadOptions(str(folder), "none", device="cpu")))
        checkpoint = open_checkpoint(str(folder))
        tokenizer = Tokenizer.open(folder)
        tokenizer.encode_chat([ChatMessage("user", "hello there")])
        tokenizer.decode([5, 6, 7, 100_000])
        if not load:
            open_layer_converter(checkpoint, torch.float32)
            return ""
        steps = load_layerwise(checkpoint, torch.float32, torch.device("cpu"))
        while True:
            try:
                next(steps)
            except StopIteration as end:
                context = Context(end.value, 64)
                break
        for _ in probe_tree(context, "mutated"):
            pass
        context.prefill([1, 2, 3])
        context.score([4, 5, 6], [-1, 0, 0])
    except CoppiceError as error:
        return error.message
    return ""


def _change_config(rng: random.Random, folder: Path) -> str:
    """An entry of config.json, one of its own or one that models have, gets another value."""
    path = folder / "config.json"
    config = _object(path)
    key = rng.choice([*config, *KEYS] or ["a"])
    value = rng.choice(ROPES) if key.startswith("rope_") and rng.random() < 0.5 else _value(rng, config.get(key))
    place = config if rng.random() < 0.9 else config.setdefault("text_config", {})
    if isinstance(place, dict):
        place[key] = value
    _replace(path, json.dumps(config).encode())
    return f"config.json: {key} = {str(value)[:60]}"


def _change_json(rng: random.Random, folder: Path) -> str:
    """A value anywhere in one of the JSON files is replaced, removed or said twice."""
    path = folder / rng.choice(JSON_FILES[:4])
    value = _object(path)
    where: Any = value
    trail = []
    while isinstance(where, dict | list) and where:
        key = rng.choice(list(where) if isinstance(where, dict) else range(len(where)))
        trail.append(str(key))
        if not isinstance(where[key], dict | list) or not where[key] or rng.random() < 0.3:
            if rng.random() < 0.2:
                del where[key]
            else:
                where[key] = _value(rng, where[key])
            break
        where = where[key]
    _replace(path, json.dumps(value).encode())
    return f"{path.name}: {'.'.join(trail)[:80]}"


def _change_bytes(rng: random.Random, folder: Path) -> str:
    """Some bytes of a text file are others, or it ends early."""
    path = folder / rng.choice(JSON_FILES)
    content = bytearray(_content(path))
    if content and rng.random() < 0.3:
        del content[rng.randrange(len(content)) :]
    for _ in range(rng.randrange(1, 4) if content else 0):
        content[rng.randrange(len(content))] = rng.randrange(256)
    _replace(path, bytes(content))
    return f"{path.name}: bytes"


def _change_table(rng: random.Random, folder: Path) -> str:
    """The table of the weight file lies about a tensor."""
    path = folder / SINGLE
    content = _content(path)
    end = 8 + int.from_bytes(content[:8], "little")
    try:
        table = json.loads(content[8:end])
    except ValueError:
        return "table: none left"
    if not isinstance(table, dict) or not table:
        return "table: none left"
    name = rng.choice(list(table))
    entry = table[name]
    what = rng.choice(("remove", "rename", "shape", "dtype", "data_offsets", "swap"))
    if what == "remove":
        del table[name]
    elif what == "rename":
        table[f"{name}.x" if rng.random() < 0.5 else name.replace("0", "900")] = table.pop(name)
    elif what == "swap":
        other = rng.choice(list(table))
        table[name], table[other] = table[other], table[name]
    elif isinstance(entry, dict):
        entry[what] = _value(rng, entry.get(what))
    encoded = json.dumps(table).encode()
    _replace(path, struct.pack("<Q", len(encoded)) + encoded + content[end:])
    return f"table: {what} of {name}"


def _change_weights(rng: random.Random, folder: Path) -> str:
    """The weight file ends early, or has another beginning."""
    path = folder / SINGLE
    content = _content(path)
    if rng.random() < 0.5:
        _replace(path, content[: rng.randrange(len(content) + 1)])
        return "weights: cut off"
    _replace(path, rng.randbytes(8) + content[8:])
    return "weights: another beginning"


def _change_files(rng: random.Random, folder: Path) -> str:
    """A file is missing, is a folder, leads elsewhere, or is one that invites somebody to open it."""
    kind = rng.choice(("remove", "folder", "link", "index", "add"))
    path = folder / rng.choice((*JSON_FILES, SINGLE))
    if kind == "index":
        index = {"weight_map": {"a": rng.choice((SINGLE, "../x.safetensors", "x.bin", 5))}}
        _replace(folder / f"{SINGLE}.index.json", json.dumps(index).encode())
        return "an index"
    if kind == "add":
        name = rng.choice(
            ("pytorch_model.bin", "adapter_config.json", "evil.py", "processor_config.json", "facts.json")
        )
        _replace(folder / name, rng.choice((b"", b"{}", b"garbage")))
        return f"add {name}"
    _replace(path, b"")
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(rng.choice((__file__, path.name, "nothing")))
    return f"{kind} {path.name}"


Change = Callable[[random.Random, Path], str]
CHANGES: tuple[Change, ...] = (
    *(_change_config,) * 5, *(_change_json,) * 4, _change_bytes, _change_table, _change_table, _change_weights,
    _change_files,
)  # fmt: skip


def _object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_content(path))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _value(rng: random.Random, old: Any) -> Any:
    """A value of no good, or one near the old one."""
    if type(old) is int and rng.random() < 0.5:
        return rng.choice((old + 1, old - 1, old * 2, -old, old * 10**6, old // 2))
    if isinstance(old, float) and rng.random() < 0.5:
        return rng.choice((-old, old * 1e6, old / 1e6, 0.0))
    if isinstance(old, list) and old and rng.random() < 0.5:
        return rng.choice((old[:-1], old + old, old[::-1], old * 1000 if len(old) < 100 else old))
    return rng.choice(VALUES)


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _replace(path: Path, content: bytes) -> None:
    """A file in place of whatever is there; never into it, as it may be a link to a file that must stay as it is."""
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.write_bytes(content)

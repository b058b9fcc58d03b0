"""The embedded draft with other vocabularies: its ids permuted, and some of its tokens taken away."""

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.engine.tensor_files import read_tensors

DEMO = Path(__file__).parents[2] / "resources" / "models" / "demo-draft"
TOKENIZER, EMBEDDING = "tokenizer.json", "model.embed_tokens.weight"


def permuted(folder: Path) -> Path:
    """The same tokens and merges under other ids."""
    return _derived(folder, merges_kept=1.0)


def reduced(folder: Path) -> Path:
    """Without the last third of the merges and the tokens that they make, which are the longer ones; also permuted."""
    return _derived(folder, merges_kept=2 / 3)


def _derived(folder: Path, merges_kept: float) -> Path:
    shutil.copytree(DEMO, folder)
    tokenizer = json.loads((folder / TOKENIZER).read_text("utf-8"))
    model = tokenizer["model"]
    merges = model["merges"]
    kept = merges[: int(merges_kept * len(merges))]
    old = model["vocab"]
    gone = {"".join(pair) for pair in merges[len(kept) :]} - {"".join(pair) for pair in kept}
    rows = [token for name, token in old.items() if name not in gone]
    random.Random(7).shuffle(rows)
    number = {token: place for place, token in enumerate(rows)}
    model["merges"] = kept
    model["vocab"] = {name: number[token] for name, token in old.items() if token in number}
    for added in tokenizer["added_tokens"]:
        added["id"] = number[added["id"]]
    (folder / TOKENIZER).write_text(json.dumps(tokenizer), "utf-8")
    for name in ("config.json", "generation_config.json"):
        _renumber(folder / name, number)
    _cut_embedding(folder / "model.safetensors", rows)
    return folder


def _renumber(path: Path, number: dict[int, int]) -> None:
    settings: dict[str, Any] = json.loads(path.read_text("utf-8"))
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        settings[name] = number[settings[name]]
    if "vocab_size" in settings:
        settings["vocab_size"] = len(number)
    path.write_text(json.dumps(settings), "utf-8")


def _cut_embedding(path: Path, rows: Sequence[int]) -> None:
    weights = read_tensors(path)
    weights[EMBEDDING] = weights[EMBEDDING][torch.tensor(rows)].contiguous()
    save_file(weights, path, metadata={"format": "pt"})

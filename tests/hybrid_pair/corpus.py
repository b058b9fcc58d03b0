"""Training rows: the text that the embedded pair was trained on, in the embedded tokenizer's tokens."""

import importlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "packaging" / "demo_models"  # run by path, not installed
EMBEDDED = {name: ROOT / "resources" / "models" / f"demo-{name}" for name in ("target", "draft")}
REPEATS = {"synthetic": 1, "chit-chat": 2, "fairy tales": 2}
LENGTH, ROWS = 256, 4  # tokens in a row, rows in a batch


def build_corpus(folder: Path, dialogues: int, seed: int) -> None:
    """Write ids.npy (uint16) and weights.npy (float16, what each token counts in the loss) to the folder."""
    documents = list(_documents(dialogues, seed))
    random.Random(seed).shuffle(documents)
    np.save(folder / "ids.npy", np.concatenate([np.array(d.ids, dtype=np.uint16) for d in documents]))
    np.save(folder / "weights.npy", np.concatenate([np.array(d.weights, dtype=np.float16) for d in documents]))


def _documents(dialogues: int, seed: int) -> Iterator[Any]:
    sys.path.insert(0, str(SCRIPTS))
    recipe, natural = importlib.import_module("corpus"), importlib.import_module("natural")
    texts = {
        "synthetic": recipe.synthetic(dialogues, seed),
        "chit-chat": natural.chit_chat(random.Random(seed)),
        "fairy tales": natural.fairy_tales(),
    }
    tokenizer = Tokenizer.from_file(str(EMBEDDED["target"] / "tokenizer.json"))
    for kind, documents in texts.items():
        encoded = recipe.encode(tokenizer, documents)
        print(f"{kind}: {sum(len(d.ids) for d in encoded)} tokens, x{REPEATS[kind]}", flush=True)
        yield from encoded * REPEATS[kind]


class Rows:
    """Rows of packed tokens, each once in random order before any comes again."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._ids: NDArray[Any] = np.load(folder / "ids.npy", mmap_mode="r")
        self._weights: NDArray[Any] = np.load(folder / "weights.npy", mmap_mode="r")
        self._rng = np.random.default_rng(seed)
        self._order: list[int] = []

    def batch(self) -> tuple[Tensor, Tensor]:
        """Ids, int64 [ROWS, LENGTH], and what the token behind each counts in the loss, float32 [ROWS, LENGTH]."""
        if len(self._order) < ROWS:
            self._order = self._rng.permutation((len(self._ids) - 1) // LENGTH).tolist()
        starts = [self._order.pop() * LENGTH for _ in range(ROWS)]
        ids = np.stack([self._ids[start : start + LENGTH] for start in starts]).astype(np.int64)
        weights = np.stack([self._weights[start + 1 : start + LENGTH + 1] for start in starts]).astype(np.float32)
        return torch.from_numpy(ids), torch.from_numpy(weights)

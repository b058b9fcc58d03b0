"""Loss on held-out text, by kind of text."""

import json
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

TOKENS = 2048  # of each kind
WINDOW = 512


@torch.no_grad()
def validation_losses(model: Any, folder: Path) -> dict[str, float]:
    """Mean nats per token that the assistant (or the book) says, over the first tokens of each kind."""
    losses = {}
    for kind, documents in json.loads((folder / "validation.json").read_text(encoding="utf-8")).items():
        ids = torch.tensor([token for document in documents for token in document["ids"]][: TOKENS + 1])
        weights = torch.tensor([weight for document in documents for weight in document["weights"]][: TOKENS + 1])
        said, total = (weights == 1).float(), 0.0
        for start in range(0, len(ids) - 1, WINDOW):
            part = ids[start : start + WINDOW + 1]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(part[None, :-1], use_cache=False).logits[0].float()
            mask = said[start + 1 : start + len(part)]
            total += float((functional.cross_entropy(logits, part[1:], reduction="none") * mask).sum())
        losses[kind] = round(total / float(said[1:].sum()), 3)
    return losses

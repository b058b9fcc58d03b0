"""Trains a head for multi-token prediction on a finished target, chained as a tree will use it.

Slot i of the head reads the token t_i and what the target knew before it, its last hidden state behind t_(i-1), and
guesses t_(i+1), as in Qwen3-Next's and Qwen3.5's checkpoints (`mtp.*`). Nothing stands before the first token, so no
slot sees slot 0. Deeper guesses have no hidden state of the target: the head's own output takes its place, and the
slots of the guessed tokens see the true slots up to where the chain parted and those of their own chain.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import DynamicCache
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5DecoderLayer, Qwen3_5RMSNorm

from tests.hybrid_pair.training import descend, divergence

DEPTH = 6  # slots of a chain that count in the loss
STRIDE = 3  # every so-and-so-many-th slot begins a chain: deeper slots cost as much as true ones
DEEPER = 0.8  # what a depth counts in the loss against the one before: it is reached less often
WEIGHTS, PREFIX = "model.safetensors", "mtp."


class MultiTokenHead(nn.Module):
    """The head's own weights, named as they are stored behind `mtp.`; embeddings and output are the target's."""

    def __init__(self, target: Any) -> None:
        """Begin as the target's last layer and norm, fed with the sum of both inputs."""
        super().__init__()
        config, width = target.config, target.config.hidden_size
        last = config.num_hidden_layers - 1
        assert config.layer_types[last] == "full_attention", "the head is an attention layer"
        self.fc = nn.Linear(2 * width, width, bias=False)
        self.pre_fc_norm_embedding = Qwen3_5RMSNorm(width, eps=config.rms_norm_eps)
        self.pre_fc_norm_hidden = Qwen3_5RMSNorm(width, eps=config.rms_norm_eps)
        self.layers = nn.ModuleList([Qwen3_5DecoderLayer(config, last)])
        self.norm = Qwen3_5RMSNorm(width, eps=config.rms_norm_eps)
        with torch.no_grad():
            self.fc.weight.copy_(torch.eye(width).repeat(1, 2))
            self.layers[0].load_state_dict(target.model.layers[last].state_dict())
            self.norm.weight.copy_(target.model.norm.weight)

    def forward(self, embedding: Tensor, hidden: Tensor, rope: Any, mask: Tensor, cache: Any) -> Tensor:
        """What the slots know, [batch, slots, width]: the target's output layer makes logits of it."""
        parts = [self.pre_fc_norm_embedding(embedding), self.pre_fc_norm_hidden(hidden)]
        read = self.fc(torch.cat(parts, -1))
        read = self.layers[0](read, position_embeddings=rope, attention_mask=mask, past_key_values=cache)
        known: Tensor = self.norm(read)
        return known


def train_heads(target: Any, rows: Any, folder: Path, minutes: float, rate: float) -> None:
    """Train a head on the frozen target's distribution, and store it among the target's weights in the folder.

    One that is stored there is trained further.
    """
    head = MultiTokenHead(target)
    if stored := {name: weight for name, weight in load_file(folder / WEIGHTS).items() if name.startswith(PREFIX)}:
        head.load_state_dict({name.removeprefix(PREFIX): weight for name, weight in stored.items()})
    shares = torch.tensor([DEEPER**depth for depth in range(DEPTH)])

    def loss() -> Tensor:
        ids, weights = rows.batch()
        return (torch.stack(list(chained_losses(head, target, ids, weights))) * shares).sum() / shares.sum()

    descend(head.parameters(), loss, lambda: store(head, folder), minutes=minutes, rate=rate)


def chained_losses(head: MultiTokenHead, target: Any, ids: Tensor, weights: Tensor) -> Iterator[Tensor]:
    """The divergence in nats at every depth, from the true slots to the last of the chain.

    ids: [rows, length]; weights: [rows, length], what the token behind each counts.
    """
    with torch.no_grad():
        true = target.model(ids, use_cache=False).last_hidden_state
        wanted = torch.softmax(target.lm_head(true), -1)
        embedding = target.model.embed_tokens(ids)
    cache, length = DynamicCache(), ids.shape[1]
    hidden = torch.cat([torch.zeros_like(true[:, :1]), true[:, :-1]], 1)
    slots = torch.arange(length)
    seen = (slots[None] <= slots[:, None]) & ((slots[None] > 0) | (slots[:, None] == 0))
    for depth in range(DEPTH):
        if depth == 1:  # only some slots begin a chain: not slot 0, and none that would end behind the row
            kept = slots[1 : length - DEPTH + 1 : STRIDE]
            slots, hidden, seen = kept, hidden[:, kept], seen[kept]
        if depth:
            slots = slots + 1
            seen = torch.cat([seen, torch.eye(len(slots), dtype=torch.bool)], 1)
        rope = target.model.rotary_emb(embedding, slots[None])
        hidden = head(embedding[:, slots], hidden, rope, seen[None, None], cache)
        found = torch.log_softmax(target.lm_head(hidden), -1)
        yield divergence(found, wanted[:, slots], weights[:, slots])


def store(head: MultiTokenHead, folder: Path) -> None:
    """Put the head, in bfloat16, among the target's weights, and its count into the config."""
    weights = {name: weight for name, weight in load_file(folder / WEIGHTS).items() if not name.startswith(PREFIX)}
    own = {PREFIX + name: weight.to(torch.bfloat16).contiguous() for name, weight in head.state_dict().items()}
    save_file(weights | own, folder / WEIGHTS, {"format": "pt"})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["mtp_num_hidden_layers"] = 1
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

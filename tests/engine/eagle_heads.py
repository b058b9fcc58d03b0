"""Random EAGLE-3 heads in folders, and what they compute, written down plainly."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.engine.tiny_models import VOCABULARY

WIDTH = 64  # of the target and the head, as in `tiny_models`
INNER, HEADS, KV_HEADS, HEAD_WIDTH = 96, 4, 2, 16
THETA, EPSILON = 10_000.0, 1e-6
OWN = 50  # tokens of the head's vocabulary
LAYERS = (0, 1, 2)  # of a target of four: the head reads what these put out

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1, "hidden_size": WIDTH,
    "intermediate_size": INNER, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_WIDTH,
    "vocab_size": VOCABULARY, "draft_vocab_size": OWN, "max_position_embeddings": 512, "hidden_act": "silu",
    "rms_norm_eps": EPSILON, "rope_theta": THETA, "tie_word_embeddings": False, "torch_dtype": "float32",
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "eagle_aux_hidden_state_layer_ids": [1, 2, 3],
}  # fmt: skip


def head_tensors(width: int = WIDTH, vocabulary: int = VOCABULARY) -> dict[str, Tensor]:
    """A random head under SGLang's names, without embeddings of its own; for a target of these sizes."""
    torch.manual_seed(0)
    shapes = {
        "fc.weight": (width, 3 * width),
        "midlayer.self_attn.q_proj.weight": (HEADS * HEAD_WIDTH, 2 * width),
        "midlayer.self_attn.k_proj.weight": (KV_HEADS * HEAD_WIDTH, 2 * width),
        "midlayer.self_attn.v_proj.weight": (KV_HEADS * HEAD_WIDTH, 2 * width),
        "midlayer.self_attn.o_proj.weight": (width, HEADS * HEAD_WIDTH),
        "midlayer.mlp.gate_proj.weight": (INNER, width),
        "midlayer.mlp.up_proj.weight": (INNER, width),
        "midlayer.mlp.down_proj.weight": (width, INNER),
        "lm_head.weight": (OWN, width),
    }
    tensors = {name: torch.randn(shape) / 4 for name, shape in shapes.items()}
    norms = ("midlayer.input_layernorm", "midlayer.hidden_norm", "midlayer.post_attention_layernorm", "norm")
    tensors |= {f"{norm}.weight": 1 + torch.randn(width) / 4 for norm in norms}
    ids = torch.randperm(vocabulary)[:OWN].sort().values
    known = torch.zeros(vocabulary, dtype=torch.bool)
    known[ids] = True
    return tensors | {"d2t": ids - torch.arange(OWN), "t2d": known}


def as_speculator() -> dict[str, Any]:
    """What makes `CONFIG` that of the library `speculators`."""
    outside = ("architectures", "draft_vocab_size", "eagle_aux_hidden_state_layer_ids", "tie_word_embeddings")
    layer = {key: value for key, value in CONFIG.items() if key not in outside}
    return {
        **dict.fromkeys(layer), "architectures": ["Eagle3Speculator"], "transformer_layer_config": layer,
        "speculators_model_type": "eagle3", "target_hidden_size": None,
    }  # fmt: skip


def write_head(folder: Path, tensors: dict[str, Tensor] | None = None, **config: Any) -> Path:
    """A folder with a head; of `config`, None leaves an entry out."""
    folder.mkdir(parents=True)
    settings = {key: value for key, value in (CONFIG | config).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(settings))
    save_file(head_tensors() if tensors is None else tensors, folder / "model.safetensors")
    return folder


@dataclass(frozen=True)
class PlainHead:
    """The head as the paper draws it, for one path: no cache, no mask but the causal one."""

    weights: dict[str, Tensor]
    embedding: Tensor  # [vocabulary, width], the target's

    def path(self, tokens: list[int], recorded: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [n, vocabulary] and outputs [n, width] behind `tokens`, n of them, from the second token on.

        `recorded`: [m, 3 width], of the first m tokens; behind them the head's own outputs stand for hidden states.
        The first token has none before it, and nothing sees it.
        """
        entered = recorded @ self.weights["fc.weight"].T
        hidden = [torch.zeros(entered.shape[1]), *entered[: len(tokens) - 1]]
        for at in range(len(recorded) + 1, len(tokens)):
            hidden.append(self._layer(tokens[1:at], torch.stack(hidden[1:at]))[-1])
        outputs = self._layer(tokens[1:], torch.stack(hidden[1 : len(tokens)]))
        own = _normed(outputs, self.weights["norm.weight"]) @ self.weights["lm_head.weight"].T
        logits = torch.full((len(own), len(self.embedding)), -torch.inf)
        logits[:, torch.arange(OWN) + self.weights["d2t"]] = own
        return logits, outputs

    def _layer(self, tokens: list[int], hidden: Tensor) -> Tensor:
        weights = {name.removeprefix("midlayer."): weight for name, weight in self.weights.items()}
        embedded = _normed(self.embedding[tokens], weights["input_layernorm.weight"])
        both = torch.cat([embedded, _normed(hidden, weights["hidden_norm.weight"])], -1)
        query, key, value = (
            (both @ weights[f"self_attn.{name}_proj.weight"].T).view(len(tokens), -1, HEAD_WIDTH).transpose(0, 1)
            for name in "qkv"
        )
        key, value = (part.repeat_interleave(HEADS // KV_HEADS, 0) for part in (_turned(key), value))
        scores = _turned(query) @ key.transpose(1, 2) / HEAD_WIDTH**0.5
        future = torch.ones(len(tokens), len(tokens), dtype=torch.bool).triu(1)
        seen = scores.masked_fill(future, -torch.inf).softmax(-1) @ value
        hidden = hidden + seen.transpose(0, 1).reshape(len(tokens), -1) @ weights["self_attn.o_proj.weight"].T
        inner = _normed(hidden, weights["post_attention_layernorm.weight"])
        gate = torch.nn.functional.silu(inner @ weights["mlp.gate_proj.weight"].T)
        return hidden + (gate * (inner @ weights["mlp.up_proj.weight"].T)) @ weights["mlp.down_proj.weight"].T


def _normed(hidden: Tensor, weight: Tensor) -> Tensor:
    return hidden * (hidden.square().mean(-1, keepdim=True) + EPSILON).rsqrt() * weight


def _turned(heads: Tensor) -> Tensor:
    """Rotary embedding of [heads, n, width of a head]; only differences of positions matter."""
    half = HEAD_WIDTH // 2
    angles = torch.arange(heads.shape[1])[:, None] * THETA ** (-torch.arange(half) / half)
    first, second = heads[..., :half], heads[..., half:]
    return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)

"""Files as Ollama's own converter writes them: the language model in them is transformers' own, number for number."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.model.architecture import open_architecture
from engine.model.checkpoint import open_checkpoint
from tests.engine import gguf_ollama as own
from tests.engine.gguf_cases import MADE, YARN, make
from tests.engine.model.gguf.test_contents import logits
from tests.engine.tiny_models import tiny_model, unlike_new
from tests.engine.weights.test_packed_stream import resident, same

TIED = {"tie_word_embeddings": True}
GEMMA3_LAYERS = ["sliding_attention"] * 5 + ["full_attention"]
GEMMA3 = {**TIED, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 34, "rms_norm_eps": 1e-6,
          "layer_types": (GEMMA3_LAYERS * 6)[:34], "max_position_embeddings": 131_072}  # fmt: skip
BASES = {"rope_type": "default", "rope_theta": 10_000.0}
LONG = {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}


@dataclass(frozen=True)
class Case:
    """A network, what differs in it, and how it is written: `extra` tensors stand beside those of its text."""

    network: str
    architecture: str
    names: dict[str, str]
    entries: Callable[[Any], own.Entries]
    change: Callable[[str, Tensor, Any], own.Named] = own.unchanged
    overrides: dict[str, Any] = field(default_factory=dict)
    extra: Callable[[Any], dict[str, Tensor]] = lambda _config: {}
    arranged: Callable[[dict[str, Tensor]], dict[str, Tensor]] = dict

    def model(self) -> Any:
        if self.network in MADE:
            return make(self.network, **self.overrides)
        return unlike_new(tiny_model(self.network, **{"num_hidden_layers": 2, **self.overrides}))

    def write(self, path: Path, model: Any, **entries: Any) -> Path:
        """The file, with some entries in place of its own; None for none."""
        tensors = self.arranged(own.converted(model, self.names, self.change)) | self.extra(model.config)
        said = {key: value for key, value in {**self.entries(model.config), **entries}.items() if value is not None}
        return own.write_ollama(path, self.architecture, model, said, tensors)


def seen(_config: Any) -> dict[str, Tensor]:
    return own.pictures()


def of_gemma4(config: Any) -> dict[str, Tensor]:
    return own.pictures(*own.SOUND) | own.frequencies(config)


def predicting(_config: Any) -> dict[str, Tensor]:
    return own.pictures("mtp.fc.weight", "mtp.layers.0.attn_q.weight")


WOVEN = {"layer_types": ["sliding_attention", "full_attention"]}
CASES = {
    "gpt-oss": Case("gpt_oss", "gptoss", own.GPT_OSS, own.gpt_oss, own.woven, WOVEN),
    "the first gpt-oss": Case(
        "gpt_oss", "gptoss", own.GPT_OSS, own.gpt_oss, own.still_woven, WOVEN, arranged=own.fused
    ),
    "gemma 3": Case(
        "gemma3", "gemma3", own.GEMMA, own.gemma3, own.plus_one,
        {**GEMMA3, "rope_parameters": {"full_attention": LONG, "sliding_attention": BASES}}, seen,
    ),
    "gemma 3 of text": Case(
        "gemma3", "gemma3", own.GEMMA, own.gemma3_text, own.plus_one, {
            **TIED, "num_hidden_layers": 6, "layer_types": GEMMA3_LAYERS,
            "rope_parameters": {"full_attention": {**BASES, "rope_theta": 1e6}, "sliding_attention": BASES},
        },
    ),
    "gemma 3n": Case("gemma3n", "gemma3n", own.GEMMA3N, own.gemma3n, arranged=own.stacked),
    "gemma 4": Case("gemma4 that shares keys", "gemma4", own.GEMMA4, own.gemma4, extra=of_gemma4,
                    overrides={"use_double_wide_mlp": False}),
    "gemma 4 of experts": Case("gemma4 of experts", "gemma4", own.GEMMA4, own.gemma4, own.halves, extra=of_gemma4),
    "qwen 2.5 vl": Case("qwen2", "qwen25vl", own.USUAL, own.qwen_vl, extra=seen),
    "qwen 3 vl": Case("qwen3", "qwen3vl", own.USUAL, own.qwen_vl, extra=seen),
    "qwen 3 vl of experts": Case(
        "qwen3_moe", "qwen3vlmoe", {**own.EXPERTS, **own.USUAL}, own.qwen_vl, own.halves,
        {"norm_topk_prob": True}, seen,
    ),
    "qwen 3.5": Case("qwen35", "qwen35", own.QWEN35, own.qwen35, own.tiled, extra=predicting),
    "qwen 3.5 of experts": Case("qwen35moe", "qwen35moe", own.QWEN35, own.qwen35, own.tiled, extra=predicting),
    "mistral 3": Case("llama", "mistral3", own.USUAL, own.mistral3, own.woven_heads, extra=seen),
    "ministral 3": Case(
        "ministral3", "mistral3", own.USUAL, own.mistral3, own.woven_heads, {
            "rope_parameters": {
                **YARN, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                "llama_4_scaling_beta": 0.1,
            },
        }, seen,
    ),
    "llama 4": Case(
        "llama4", "llama4", own.LLAMA4, own.llama4, own.turned_halves,
        {"attention_chunk_size": 7, "use_qk_norm": False}, seen,
    ),
}  # fmt: skip
TOLD = ("rms_norm_eps", "layer_types", "rope_parameters", "attention_chunk_size", "use_qk_norm", "norm_topk_prob")


@pytest.mark.parametrize("case", CASES)
def test_its_language_model_is_the_one_that_it_was_made_of(case: str, tmp_path: Path) -> None:
    model = CASES[case].model()
    checkpoint = open_checkpoint(str(CASES[case].write(tmp_path / "sha256-0", model)))
    config = open_architecture(checkpoint).config
    for key in TOLD:
        if hasattr(model.config, key):
            assert getattr(config, key) == getattr(model.config, key), key
    assert same(resident(checkpoint, torch.float32), logits(model))

"""GGUF files of networks that choose or compress what they attend to: what `test_families` does not read or refuse."""

from pathlib import Path

import pytest
import torch
import transformers

from engine.errors import ModelError
from engine.gguf_header import WHOLE_NUMBERS
from engine.model.checkpoint import open_checkpoint
from engine.model.gguf.config import config_of
from engine.model.gguf.header import read_gguf
from engine.model.gguf.packed_blocks import WholeNumbers
from tests.engine.gguf_cases import make
from tests.engine.gguf_files import write_gguf
from tests.engine.gguf_ollama import write_ollama
from tests.engine.model.gguf.raw_files import RawFile, tensor
from tests.engine.model.gguf.test_contents import logits
from tests.engine.model.gguf.test_families import weight_of
from tests.engine.model.gguf.test_impossible import INDEXER_ENTRIES, LATENT_ENTRIES, raw
from tests.engine.weights.test_packed_stream import resident, same

DEEPSEEK4: dict[str, object] = {
    **INDEXER_ENTRIES, "attention__key_length": 16, "attention__compress_ratios": [0, 4], "hash_layer_count": 1,
    "attention__compress_rope_freq_base": 10_000.0, "attention__sliding_window": 8, "attention__q_lora_rank": 8,
    "attention__output_lora_rank": 8, "attention__output_group_count": 1, "hyper_connection__count": 4,
    "hyper_connection__epsilon": 1e-6, "hyper_connection__sinkhorn_iterations": 2, "swiglu_clamp_exp": 7.0,
    "expert_gating_func": 4,
}  # fmt: skip
GLM5: dict[str, object] = {
    **LATENT_ENTRIES, **INDEXER_ENTRIES, "attention__head_count_kv": [0, 1], "rope__dimension_count": 0,
    "hyper_connection__count": 4, "hyper_connection__epsilon": 1e-6, "hyper_connection__sinkhorn_iterations": 2,
    "attention__q_lora_rank": 8, "attention__value_length_mla": 16, "kda__head_dim": 8, "ssm__conv_kernel": 4,
}  # fmt: skip


CHOOSER = tensor("blk.1.indexer.q_proj.weight", (32, 16), 1024)


def without(key: str, of: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in of.items() if name != key}


REFUSED: dict[str, tuple[RawFile, str]] = {
    "groups of another size": (
        raw("deepseek4", **{**DEEPSEEK4, "attention__compress_ratios": [0, 8]}),
        "compress_ratios",
    ),
    "too few sizes of groups": (
        raw("deepseek4", **{**DEEPSEEK4, "attention__compress_ratios": [4]}),
        "compress_ratios",
    ),
    "more layers of tables than layers": (raw("deepseek4", **{**DEEPSEEK4, "hash_layer_count": 3}), "hash_layer_count"),
    "experts chosen as by another network": (raw("deepseek4", **{**DEEPSEEK4, "expert_gating_func": 2}), "gating_func"),
    "shares that are not made one": (raw("deepseek4", **DEEPSEEK4, expert_weights_norm=False), "expert_weights_norm"),
    "no limit": (raw("deepseek4", **without("swiglu_clamp_exp", DEEPSEEK4)), "swiglu_clamp_exp"),
    "a limit of nothing": (raw("deepseek4", **{**DEEPSEEK4, "swiglu_clamp_exp": 0.0}), "swiglu_clamp_exp"),
    "another limit for all tokens": (raw("deepseek4", **DEEPSEEK4, swiglu_clamp_shexp=8.0), "swiglu_clamp_shexp"),
    "a MiniMax without what chooses": (raw("minimax-m3"), r"lacks the weights indexer\.q_proj"),
    "a MiniMax of soft shares": (raw("minimax-m3", CHOOSER, expert_gating_func=1), "expert_gating_func"),
    "positions that turn a GLM": (raw("glm5-next", **{**GLM5, "rope__dimension_count": 8}), "rope.dimension_count"),
    "a GLM without pools": (raw("glm5-next", **GLM5, attention__key_length_mla=16), "attention.indexer.kpool"),
    "too few layers of MiniMax with a state": (
        raw("minimax-01", attention__recurrent_layers=[1], residual_scale=1.0, rope__dimension_count=8),
        "recurrent_layers",
    ),
    "no layer of MiniMax that attends": (
        raw("minimax-01", full_attention_interval=0, residual_scale=1.0, rope__dimension_count=8),
        "full_attention_interval",
    ),
    "a BLOOM of another width": (
        raw("bloom", attention__layer_norm_epsilon=1e-5, feed_forward_length=64),
        "feed_forward_length",
    ),
    "heads that share keys in a BLOOM": (
        raw("bloom", attention__layer_norm_epsilon=1e-5, feed_forward_length=128, attention__head_count_kv=1),
        "head_count_kv",
    ),
    "an MPT that learns its places": (
        raw("mpt", attention__layer_norm_epsilon=1e-5, feed_forward_length=128, attention__max_alibi_bias=0.0),
        "max_alibi_bias",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED)
def test_what_cannot_be_meant_is_refused_in_a_sentence(fault: str, tmp_path: Path) -> None:
    made, words = REFUSED[fault]
    with pytest.raises(ModelError, match=words):
        open_checkpoint(str(made.write(tmp_path / "m.gguf")))


def test_an_activation_that_is_not_known_is_refused(tmp_path: Path) -> None:
    model = make("bitnet of squares")
    model.config.hidden_act = "gelu"
    with pytest.raises(ModelError, match="hidden_activation"):
        open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model)))


@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_every_weight_of_layers_that_compress_is_the_model_s(kind: str, tmp_path: Path) -> None:
    """Also of those that compress more tokens than short texts have."""
    model = make("deepseek_v4")
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model, kind)))
    config = transformers.CONFIG_MAPPING["deepseek_v4"].from_dict(dict(checkpoint.config))
    for key in ("layer_types", "mlp_layer_types", "rope_parameters", "swiglu_limit", "hc_eps", "o_groups"):
        assert getattr(config, key) == getattr(model.config, key), key
    assert checkpoint.weights.keys() == model.state_dict().keys()
    for name, expected in model.state_dict().items():
        is_near = torch.allclose(weight_of(checkpoint, name), expected.float(), atol=0.02 if kind == "Q8_0" else 1e-6)
        assert is_near, name


def test_layers_that_predict_are_left_out_if_they_are_there(tmp_path: Path) -> None:
    """The file of `make` says that it has one more, and has not; this one has, as the last of those that it counts."""
    model = make("deepseek_v4", num_hidden_layers=2, layer_types=["sliding_attention"] * 2)
    extra = {"blk.2.nextn.eh_proj.weight": torch.ones(64, 128), "blk.2.attn_norm.weight": torch.ones(64)}
    model.config.num_hidden_layers, layers = 3, model.config.layer_types
    model.config.layer_types = [*layers, "sliding_attention"]
    path = write_gguf(tmp_path / "m.gguf", model, extra=extra)
    model.config.num_hidden_layers, model.config.layer_types = 2, layers
    checkpoint = open_checkpoint(str(path))
    assert (checkpoint.config["num_hidden_layers"], checkpoint.config["layer_types"]) == (2, layers)
    assert same(resident(checkpoint, torch.float32), logits(model))


def test_a_chameleon_knows_which_tokens_are_parts_of_pictures(tmp_path: Path) -> None:
    tensors = {"token_embd.weight": torch.ones(5, 8)}
    said = {"context_length": 64, "embedding_length": 8, "block_count": 1, "attention.head_count": 2}
    tokens = {"tokenizer.ggml.tokens": ["a", "IMGIMGAZ", "b", "IMGIMGBZ", "<image>"]}
    entries = {**said, **tokens, "feed_forward_length": 8, "attention.layer_norm_rms_epsilon": 1e-5}
    path = write_ollama(tmp_path / "m.gguf", "chameleon", entries, tensors)
    assert config_of(read_gguf((path,)), "m")["vocabulary_map"] == {"IMGIMGAZ": 1, "IMGIMGBZ": 3}


def test_numbers_of_experts_stay_among_them() -> None:
    out = torch.empty(4, dtype=torch.int64)
    WholeNumbers(3).decode({"0": torch.tensor([2, 3, -1, 1 << 30], dtype=torch.int32)}, out)
    assert out.tolist() == [2, 2, 0, 2]


def test_whole_numbers_are_no_weights(tmp_path: Path) -> None:
    made = raw("deepseek4", tensor("blk.0.attn_norm.weight", (32,), 1024, WHOLE_NUMBERS.number), **DEEPSEEK4)
    with pytest.raises(ModelError, match="impossible shape"):
        open_checkpoint(str(made.write(tmp_path / "m.gguf")))

"""GGUF files that cannot be meant, or are of networks that are not read: a sentence says why they are refused."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.model.checkpoint import open_checkpoint
from engine.model.gguf.networks.dense_configs import QUERY_SCALES
from engine.model.gguf.settings import Settings
from tests.engine.gguf_cases import make
from tests.engine.gguf_files import write_gguf
from tests.engine.model.gguf.raw_files import ARRAY, BOOL, F32, STRING, U32, RawFile, entry, tensor, text


def raw(kind: str, *tensors: bytes, **entries: object) -> RawFile:
    """The least that says it is a network of this kind; `__` in names of entries stands for a dot."""
    least: dict[str, object] = {
        "context_length": 64, "embedding_length": 32, "block_count": 2, "attention__head_count": 2,
        "feed_forward_length": 32, "attention__layer_norm_rms_epsilon": 1e-5, "expert_count": 4, "expert_used_count": 2,
        "expert_feed_forward_length": 32, "expert_shared_count": 1,
    }  # fmt: skip
    made = [entry("general.architecture", STRING, text(kind))]
    for name, value in {**least, **entries}.items():
        key = f"{kind}.{name.replace('__', '.')}"
        if isinstance(value, list):
            made.append(entry(key, ARRAY, struct.pack(f"<IQ{len(value)}I", U32, len(value), *value)))
        elif isinstance(value, bool):
            made.append(entry(key, BOOL, bytes([value])))
        else:
            is_real = isinstance(value, float)
            made.append(entry(key, F32 if is_real else U32, struct.pack("<f" if is_real else "<I", value)))
    table = [tensor("token_embd.weight", (32, 8), 0), *tensors]
    return RawFile(entries=made, tensors=table, data=bytes(1 << 14))


LATENT_ENTRIES: dict[str, object] = {
    "attention__kv_lora_rank": 16, "rope__dimension_count": 8, "attention__key_length": 24,
    "attention__value_length": 16, "expert_gating_func": 2,
}  # fmt: skip
STATE_ENTRIES: dict[str, object] = {
    "attention__head_count_kv": [0, 1], "ssm__time_step_rank": 4, "ssm__inner_size": 64, "ssm__group_count": 1,
    "ssm__state_size": 8, "ssm__conv_kernel": 4, "rope__scaling__finetuned": False,
}  # fmt: skip
INDEXER_ENTRIES: dict[str, object] = {
    "attention__indexer__top_k": 8, "attention__indexer__key_length": 16, "attention__indexer__head_count": 4,
}  # fmt: skip
STEP_ENTRIES: dict[str, object] = {
    "attention__head_count": [2, 2], "attention__sliding_window": 8, "expert_shared_feed_forward_length": 32,
}  # fmt: skip
GATE = tensor("blk.0.attn_gate.weight", (32, 2), 1024)
LING_ENTRIES: dict[str, object] = {
    "attention__head_count_kv": [0, 1], "rope__dimension_count": 8, "attention__key_length_mla": 24,
}  # fmt: skip
QWEN4_ENTRIES = {
    **STATE_ENTRIES, "attention__head_count_kv": 1, "full_attention_interval": 2, "rope__dimension_sections": [3, 3, 2],
}  # fmt: skip
GEMMA4_ENTRIES: dict[str, object] = {"attention__sliding_window": 8, "attention__key_length_swa": 16}
IMPOSSIBLE: dict[str, tuple[RawFile, str]] = {
    "more layers that predict than layers": (raw("glm4moe", nextn_predict_layers=2), "nextn_predict_layers"),
    "layers without end and windows": (raw("exaone4", block_count=3_000_000), r"exaone4\.block_count"),
    "layers without end of experts": (raw("dots1", block_count=3_000_000), r"dots1\.block_count"),
    "layers without end and states": (raw("qwen35", block_count=3_000_000), r"qwen35\.block_count"),
    "queries permuted for pictures": (raw("glm4", rope__dimension_sections=[8, 12, 12, 0]), "dimension_sections"),
    "experts chosen in no known way": (raw("deepseek2", **{**LATENT_ENTRIES, "expert_gating_func": 4}), "gating_func"),
    "experts chosen as by another network": (raw("glm4moe", expert_gating_func=1), "expert_gating_func"),
    "keys narrower than what turns": (
        raw("deepseek2", **{**LATENT_ENTRIES, "attention__key_length": 8}),
        r"attention\.key_length",
    ),
    "no shared experts": (raw("dots1", expert_shared_count=[1, 2]), "expert_shared_count"),
    "Llama 4 without chunks": (raw("llama4", attention__sliding_window=0), "sliding_window"),
    "positions that do not count": (raw("granite", rope__scaling__finetuned=False), "finetuned"),
    "a temperature without a length": (raw("mistral3", attention__temperature_scale=0.5), "temperature_scale"),
    "a truth that is a number": (raw("glm4moe", expert_weights_norm=1), "expert_weights_norm"),
    "heads that differ by layer": (raw("lfm2", attention__head_count_kv=[2, 1]), "head_count_kv"),
    "fewer heads than layers": (raw("nemotron_h", **{**STATE_ENTRIES, "attention__head_count_kv": [0]}), "count_kv"),
    "no heads of states": (raw("granitehybrid", **{**STATE_ENTRIES, "ssm__time_step_rank": 0}), "time_step_rank"),
    "states of no multiple of the width": (raw("granitehybrid", **{**STATE_ENTRIES, "ssm__inner_size": 40}), "inner"),
    "latents of a network without them": (raw("granite", attention__kv_lora_rank=16), r"attention\.kv_lora_rank"),
    "a Bamba that multiplies": (
        raw("granitehybrid", **{**STATE_ENTRIES, "rope__scaling__finetuned": True, "residual_scale": 0.5}),
        "residual_scale",
    ),
    "a step of several numbers of heads": (
        raw("step35", **{**STEP_ENTRIES, "attention__head_count": [2, 3]}),
        r"step35\.attention\.head_count",
    ),
    "a step whose experts are not made one": (raw("step35", **STEP_ENTRIES), "expert_weights_norm"),
    "a step that turns less": (raw("step35", **{**STEP_ENTRIES, "rope__dimension_count": 8}), "dimension_count"),
    "a Laguna without a gate": (raw("laguna", attention__head_count=[2, 2]), r"laguna\.attention\.head_count"),
    "a Laguna with too few heads": (raw("laguna", GATE, attention__head_count=[2]), r"laguna\.attention\.head_count"),
    "a Laguna whose experts are not made one": (
        raw("laguna", GATE, attention__head_count=[2, 2]),
        "expert_weights_norm",
    ),
    "queries that nothing is said of": (raw("muse-glimmer", attention__sliding_window=8), "attn_q_norm"),
    "queries multiplied with several numbers": (
        replace(
            raw("muse-glimmer", tensor(QUERY_SCALES, (2,), 1024), attention__sliding_window=8),
            data=bytes(range(1, 256)) * 64,
        ),
        "attn_q_norm",
    ),
    "too few layers that turn": (
        raw("granite_swa", attention__sliding_window=8, attention__rope_pattern=[1]),
        "rope_pattern",
    ),
    "too few kinds of keys": (raw("qwen4exp", **QWEN4_ENTRIES, attention__compress_ratios=[0]), "compress_ratios"),
    "n-grams in two layers": (
        raw("qwen4exp", **QWEN4_ENTRIES, attention__compress_ratios=[0, 4], ple__layers=[0, 1]),
        r"ple\.layers",
    ),
    "n-grams beyond their table": (
        raw(
            "qwen4exp",
            tensor("per_layer_token_embd.weight", (8, 12), 1024),
            **QWEN4_ENTRIES,
            attention__compress_ratios=[0, 4], ple__layers=[0], ple__head_vocab_sizes=[5, 7], ple__head_offsets=[0, 6],
        ),
        r"ple\.head_offsets",
    ),
    "a part of a head that turns by halves": (raw("qwen2", rope__dimension_count=3), r"rope\.dimension_count"),
    "no axes": (raw("qwen4exp", **{**QWEN4_ENTRIES, "rope__dimension_sections": [2]}), "dimension_sections"),
    "a first Ling with dense layers": (raw("bailingmoe", leading_dense_block_count=1), "leading_dense_block_count"),
    "a first Ling whose experts are not made one": (raw("bailingmoe"), "expert_weights_norm"),
    "a Ling that clamps": (raw("bailingmoe3", **LING_ENTRIES, swiglu_clamp_exp=[0, 7]), "swiglu_clamp_exp"),
    "a Ling of latent queries": (raw("bailingmoe3", **LING_ENTRIES, attention__q_lora_rank=8), "q_lora_rank"),
    "a Ling whose keys only turn": (
        raw("bailingmoe3", **{**LING_ENTRIES, "attention__key_length_mla": 8}),
        "key_length_mla",
    ),
    "a first DeepSeek whose experts are made one": (raw("deepseek", expert_weights_norm=True), "expert_weights_norm"),
    "a first DeepSeek with groups": (raw("deepseek", expert_group_count=2), "expert_group_count"),
    "a Baichuan whose distances are biases": (raw("baichuan", block_count=40), r"baichuan\.block_count"),
    "latent keys of MiniCPM that only turn": (
        raw("minicpm3", rope__dimension_count=8, attention__key_length=8),
        r"attention\.key_length",
    ),
    "norms that DBRX does not have": (raw("dbrx", attention__layer_norm_epsilon=1e-6), "layer_norm_epsilon"),
    "three experts of Phi": (raw("phimoe", expert_used_count=3), "expert_used_count"),
    "queries that do not fit their keys": (
        raw("falcon", tensor("blk.0.attn_qkv.weight", (32, 63), 1024), attention__layer_norm_epsilon=1e-5),
        "impossible shape",
    ),
    "attention that comes irregularly": (
        raw("jamba", **{**STATE_ENTRIES, "block_count": 6, "attention__head_count_kv": [0, 1, 0, 0, 1, 1]}),
        "head_count_kv",
    ),
    "attention that comes late": (
        raw("jamba", **{**STATE_ENTRIES, "block_count": 4, "attention__head_count_kv": [0, 0, 1, 1]}),
        "head_count_kv",
    ),
    "latent keys narrower than what turns": (
        raw("kimi-linear", **{**LATENT_ENTRIES, **STATE_ENTRIES, "attention__key_length_mla": 8}),
        "key_length_mla",
    ),
    "frequencies that are not there": (raw("gemma4", **GEMMA4_ENTRIES), r"rope\.dimension_count"),
    "keys without values": (
        raw(
            "deepseek2",
            tensor("blk.0.attn_k_b.weight", (16, 16, 2), 1024),
            **LATENT_ENTRIES,
        ),
        r"lacks the weights model\.layers\.0\.attn_k_b, attn_v_b",
    ),
    "keys of other heads than values": (
        raw(
            "deepseek2",
            tensor("blk.0.attn_k_b.weight", (16, 16, 2), 1024),
            tensor("blk.0.attn_v_b.weight", (16, 16, 1), 3072),
            **LATENT_ENTRIES,
        ),
        "impossible shape",
    ),
    "gates and ups of other widths": (
        raw("llama4", tensor("blk.0.ffn_gate_exps.weight", (8, 4, 2), 1024),
            tensor("blk.0.ffn_up_exps.weight", (8, 2, 2), 1280), interleave_moe_layer_step=1),
        "impossible shape",
    ),
    "a bias of latent keys": (
        raw(
            "deepseek2",
            tensor("blk.0.attn_k_b.bias", (16,), 1024),
            tensor("blk.0.attn_v_b.bias", (16,), 1088),
            **LATENT_ENTRIES,
        ),
        "impossible shape",
    ),
    "experts whose shares are not made one": (raw("afmoe", attention__sliding_window=8), "expert_weights_norm"),
    "shares of experts that are not made one": (
        raw("hy_v3", expert_weights_norm=False, expert_shared_feed_forward_length=32),
        "expert_weights_norm",
    ),
    "a softmax for a sigmoid": (raw("exaone-moe", expert_gating_func=1), "expert_gating_func"),
    "heads that are not twice as many": (
        raw("mimo2", attention__sliding_window=8, attention__head_count_kv=[1, 1], attention__key_length=16),
        r"attention\.head_count_kv",
    ),
    "too few kinds of indexers": (
        raw("glm-dsa", **{**LATENT_ENTRIES, **INDEXER_ENTRIES, "attention__indexer__types": [1]}),
        r"attention\.indexer\.types",
    ),
    "a Mistral that is not stretched": (
        raw("mistral4", **{**LATENT_ENTRIES, "expert_gating_func": 1}),
        r"rope\.scaling\.type",
    ),
    "no left side of a laurel": (raw("gemma3n", attention__sliding_window=8), "activation_sparsity_scale"),
    "no numbers of an activation": (raw("apertus"), r"lacks the weights xielu\.alpha_p"),
    "queries, keys and values that do not fit": (
        raw("chatglm", tensor("blk.0.attn_qkv.weight", (32, 47), 1024)),
        "impossible shape",
    ),
    "a scale of a matrix": (raw("glm4", tensor("blk.0.attn_q.scale", (1,), 1024)), "which are not known"),
}  # fmt: skip


@pytest.mark.parametrize("fault", IMPOSSIBLE)
def test_what_cannot_be_meant_is_refused_in_a_sentence(fault: str, tmp_path: Path) -> None:
    made, words = IMPOSSIBLE[fault]
    with pytest.raises(ModelError, match=words):
        open_checkpoint(str(made.write(tmp_path / "m.gguf")))


UNEVEN: dict[str, tuple[str, tuple[int, ...]]] = {
    "heads that differ by layer": ("attention.head_count_kv", (2, 1, 2, 2)),
    "widths that differ by layer": ("feed_forward_length", (96, 192, 96, 96)),
    "too few widths": ("feed_forward_length", (96, 96)),
}


@pytest.mark.parametrize("fault", UNEVEN)
def test_layers_of_gemma_4_differ_only_as_they_can(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, value = UNEVEN[fault]
    usual = Settings.several
    monkeypatch.setattr(Settings, "several", lambda self, asked: value if asked == key else usual(self, asked))
    path = write_gguf(tmp_path / "m.gguf", make("gemma4 that shares keys"))
    with pytest.raises(ModelError, match=key):
        open_checkpoint(str(path))


@pytest.mark.parametrize("kind", ["rwkv7", "plamo2", "kimi-k3"])
def test_others_are_refused_in_a_sentence(kind: str, tmp_path: Path) -> None:
    path = RawFile(entries=[entry("general.architecture", STRING, text(kind))]).write(tmp_path / "m.gguf")
    with pytest.raises(ModelError, match=f"architecture '{kind}', which is not read from GGUF files"):
        open_checkpoint(str(path))

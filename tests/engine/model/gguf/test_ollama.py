"""Files as Ollama's own converter writes them: the language model in them is transformers' own, number for number."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from engine.errors import ModelError
from engine.gguf_header import LazyArray
from engine.model.architecture import open_architecture
from engine.model.checkpoint import open_checkpoint
from engine.model.gguf.chat_templates import TEMPLATES
from engine.model.gguf.header import read_gguf, read_lists
from engine.model.gguf.ollama import as_llama_cpp
from engine.text.gguf_tokenizer import read_vocabulary
from tests.engine import gguf_ollama as own
from tests.engine.gguf_cases import MADE, YARN, make
from tests.engine.gguf_files import write_gguf
from tests.engine.model.gguf.test_contents import logits
from tests.engine.tiny_models import BASE, random_model, tiny_model, unlike_new
from tests.engine.weights.test_packed_stream import resident, same

TIED = {"tie_word_embeddings": True}
GEMMA3_LAYERS = ["sliding_attention"] * 5 + ["full_attention"]
GEMMA3 = {**TIED, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 34, "rms_norm_eps": 1e-6,
          "layer_types": (GEMMA3_LAYERS * 6)[:34], "max_position_embeddings": 131_072}  # fmt: skip
BASES = {"rope_type": "default", "rope_theta": 10_000.0}
LONG = {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}


@dataclass(frozen=True)
class Case:
    """A network, what differs in it, and how it is written: `extra` tensors stand beside those of its text.

    `is_exact`: its numbers are added in the same order.
    """

    network: str
    architecture: str
    names: dict[str, str]
    entries: Callable[[Any], own.Entries]
    change: Callable[[str, Tensor, Any], own.Named] = own.unchanged
    overrides: dict[str, Any] = field(default_factory=dict)
    extra: Callable[[Any], dict[str, Tensor]] = lambda _config: {}
    arranged: Callable[[dict[str, Tensor]], dict[str, Tensor]] = dict
    is_exact: bool = True

    def model(self) -> Any:
        if self.network in MADE:
            return make(self.network, **self.overrides)
        return unlike_new(tiny_model(self.network, **{"num_hidden_layers": 2, **self.overrides}))

    def write(self, path: Path, model: Any, **entries: Any) -> Path:
        """The file, with some entries in place of its own; None for none."""
        tensors = self.arranged(own.converted(model, self.names, self.change)) | self.extra(model.config)
        said = {key: value for key, value in {**self.entries(model.config), **entries}.items() if value is not None}
        return own.write_ollama(path, self.architecture, said, tensors)


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
    "qwen 2.5 vl": Case(
        "qwen2", "qwen25vl", own.USUAL, own.qwen_vl,
        overrides={"rope_parameters": {**BASES, "mrope_section": [3, 3, 2]}}, extra=seen,
    ),
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
    "olmo 3": Case("olmo3", "olmo3", own.OLMO3, own.olmo3),
    "qwen 3 next": Case("qwen3next", "qwen3next", own.QWEN3_NEXT, own.qwen3next, own.by_key_heads),
    "qwen 3 next called 3.5": Case("qwen3next", "qwen35moe", own.QWEN3_NEXT, own.qwen3next, own.by_key_heads),
    "glm 4.7 flash": Case("glm4_moe_lite", "glm4moelite", own.DEEPSEEK, own.deepseek, own.parted, {"n_group": 1}),
    "deepseek ocr": Case(
        "deepseek ocr", "deepseekocr", own.DEEPSEEK, own.deepseekocr, own.halves, {
            "routed_scaling_factor": 1.0, "rope_parameters": BASES, "rms_norm_eps": 1e-6,
        }, lambda _config: own.pictures("s.blk.0.attn.qkv.weight"),
    ),
    "nemotron 3": Case(
        "nemotron_h of latents", "nemotron_h_omni", own.NEMOTRON, own.nemotron, own.mamba,
        extra=lambda _config: own.pictures("a.blk.0.ffn1_up.weight", "mtp.layers.0.mixer.experts.0.up_proj.weight"),
        is_exact=False,  # what llama.cpp's converter does to queries and keys, and is undone, was not done
    ),
    "lfm2": Case("lfm2", "lfm2", own.LFM2, own.lfm2, own.mamba),
}  # fmt: skip
TOLD = ("rms_norm_eps", "layer_types", "rope_parameters", "attention_chunk_size", "use_qk_norm", "norm_topk_prob")


def test_text_passes_by_what_attends_to_a_picture(tmp_path: Path) -> None:
    """Llama 3.2 with pictures is a Llama without the layers between that read them, and their tokens' embeddings."""
    said = {**BASE, "num_hidden_layers": 4, "cross_attention_layers": [1, 2], "rope_parameters": {**BASES}}
    model = unlike_new(random_model(transformers.models.mllama.MllamaTextConfig(**said)))
    assert model.model.embed_tokens.weight.shape[0] > model.lm_head.weight.shape[0]
    case = Case("mllama", "mllama", own.USUAL, own.mllama, own.crossed, extra=seen)
    checkpoint = open_checkpoint(str(case.write(tmp_path / "m.gguf", model, **tokenizer("gpt2", "llama-bpe", 139))))
    assert (checkpoint.config["model_type"], checkpoint.config["num_hidden_layers"]) == ("llama", 2)
    assert len(read_vocabulary(read_lists(checkpoint.metadata), "m").tokens) == BASE["vocab_size"]
    assert same(resident(checkpoint, torch.float32), logits(model))
    for layers in ([1, 1], [1, 4], [0, 1, 2, 3]):
        path = case.write(tmp_path / "m.gguf", model, **{"attention.cross_attention_layers": layers})
        with pytest.raises(ModelError, match="cross_attention_layers"):
            open_checkpoint(str(path))


@pytest.mark.parametrize("case", CASES)
def test_its_language_model_is_the_one_that_it_was_made_of(case: str, tmp_path: Path) -> None:
    model = CASES[case].model()
    checkpoint = open_checkpoint(str(CASES[case].write(tmp_path / "sha256-0", model)))
    config = open_architecture(checkpoint).config
    for key in TOLD:
        if hasattr(model.config, key):
            assert getattr(config, key) == getattr(model.config, key), key
    found, expected = resident(checkpoint, torch.float32), logits(model)
    if CASES[case].is_exact:
        assert same(found, expected)
    else:
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


REFUSED: dict[str, tuple[str, own.Entries, dict[str, Tensor], str]] = {
    "gemma 3 of another size, for long texts": ("gemma 3", {"block_count": 33}, {}, r"rope\.scaling\.factor"),
    "heads where layers keep a state": ("qwen 3.5", {"attention.head_count_kv": [2, 0]}, {}, "head_count_kv"),
    "heads of too few layers": ("qwen 3.5", {"attention.head_count_kv": [0]}, {}, "head_count_kv"),
    "heads that are no numbers": ("qwen 3.5", {"attention.head_count_kv": ["0", "2"]}, {}, "head_count_kv"),
    "value heads beside their keys": ("qwen 3.5", {"ssm.v_head_reordered": False}, {}, "v_head_reordered"),
    "shares that are not made one": ("qwen 3.5 of experts", {"norm_top_k_prob": False}, {}, "norm_top_k_prob"),
    "chunks of nothing": ("llama 4", {"attention.chunk_size": 0}, {}, "chunk_size"),
    "weights of no known part": ("gemma 3 of text", {}, {"s.blk.0.attn_q.weight": torch.ones(1)}, "s.blk.0.attn_q"),
    "sound in what only sees": ("mistral 3", {}, {"a.conv1d.0.weight": torch.ones(1)}, "a.conv1d.0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_changes_a_network_is_refused(case: str, tmp_path: Path) -> None:
    of, entries, extra, words = REFUSED[case]
    own_extra = CASES[of].extra
    changed = replace(CASES[of], extra=lambda config: {**own_extra(config), **extra})
    with pytest.raises(ModelError, match=words):
        open_checkpoint(str(changed.write(tmp_path / "m.gguf", changed.model(), **entries)))


def test_pictures_are_no_part_of_other_networks(tmp_path: Path) -> None:
    model = tiny_model("llama", num_hidden_layers=2)
    with pytest.raises(ModelError, match=r"v\.blk\.0\.attn_q\.weight"):
        open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model, extra=own.pictures())))


def test_shares_of_experts_are_as_the_file_says(tmp_path: Path) -> None:
    case = replace(CASES["qwen 3 vl of experts"], overrides={"norm_topk_prob": False})
    model = case.model()
    checkpoint = open_checkpoint(str(case.write(tmp_path / "m.gguf", model, norm_top_k_prob=False)))
    assert same(resident(checkpoint, torch.float32), logits(model))


RULES = {
    "gpt-oss": ("default", "gpt-4o"), "mistral 3": ("default", "tekken"), "llama 4": ("default", "llama4"),
    "qwen 3 next called 3.5": ("qwen35", "qwen2"), "qwen 3.5 of experts": ("qwen35", "qwen35"),
    "qwen 3 vl": ("default", "default"), "ministral 3": ("qwen2", "qwen2"),
}  # fmt: skip


def tokenizer(kind: str, rule: str, count: int, types: int = 1) -> own.Entries:
    """Tokens that are their numbers."""
    return {
        "tokenizer.ggml.model": kind, "tokenizer.ggml.pre": rule, "tokenizer.ggml.merges": ["1 2"],
        "tokenizer.ggml.tokens": [str(token) for token in range(count)],
        "tokenizer.ggml.scores": [float(token) for token in range(count)],
        "tokenizer.ggml.token_type": [types] * count, "tokenizer.ggml.eos_token_ids": [1, 106, 132],
    }  # fmt: skip


@pytest.mark.parametrize("case", RULES)
def test_a_rule_that_the_converter_does_not_know_is_that_of_the_network(case: str, tmp_path: Path) -> None:
    written, expected = RULES[case]
    path = CASES[case].write(tmp_path / "m.gguf", CASES[case].model(), **tokenizer("gpt2", written, 131))
    assert open_checkpoint(str(path)).metadata["tokenizer.ggml.pre"] == expected


@pytest.mark.parametrize(("case", "kind"), [("gemma 3 of text", "llama"), ("gemma 3n", "gpt2")])
def test_tokens_without_an_embedding_are_left_out(case: str, kind: str, tmp_path: Path) -> None:
    path = CASES[case].write(tmp_path / "m.gguf", CASES[case].model(), **tokenizer(kind, "default", 133))
    metadata = read_lists(open_checkpoint(str(path)).metadata)
    vocabulary = read_vocabulary(metadata, "m")
    assert vocabulary.kind == "llama"
    assert vocabulary.tokens == tuple(str(token) for token in range(131))
    assert vocabulary.scores[-1] == 130.0
    assert vocabulary.ends == (1, 106)


@pytest.mark.parametrize(("case", "template"), [("gpt-oss", None), ("gemma 4", None), ("qwen 3 vl", "{{ messages }}")])
def test_a_template_that_is_left_out_is_that_of_the_network(case: str, template: str | None, tmp_path: Path) -> None:
    said = {**tokenizer("gpt2", "default", 131), "tokenizer.chat_template": template}
    checkpoint = open_checkpoint(str(CASES[case].write(tmp_path / "m.gguf", CASES[case].model(), **said)))
    network = checkpoint.metadata["general.architecture"]
    assert checkpoint.metadata["tokenizer.chat_template"] == (template or TEMPLATES[str(network)])


def test_a_file_of_another_converter_gets_none(tmp_path: Path) -> None:
    said = {**tokenizer("gpt2", "qwen2", 131), "tokenizer.ggml.eos_token_ids": None}
    for extra, has_template in ((seen, True), (lambda _config: {}, False)):
        case = replace(CASES["qwen 3 vl"], extra=extra)
        checkpoint = open_checkpoint(str(case.write(tmp_path / "m.gguf", case.model(), **said)))
        assert ("tokenizer.chat_template" in checkpoint.metadata) == has_template


def test_a_table_of_n_grams_is_no_embedding_of_tokens(tmp_path: Path) -> None:
    tensors = {"token_embd.weight": torch.ones(131, 4), "per_layer_token_embd.weight": torch.ones(5, 4)}
    for architecture, count in (("qwen4exp", 131), ("gemma4", 5)):
        path = own.write_ollama(tmp_path / "m.gguf", architecture, tokenizer("gpt2", "qwen35", 131), tensors)
        tokens = as_llama_cpp(read_gguf((path,)), "m").metadata["tokenizer.ggml.tokens"]
        assert isinstance(tokens, LazyArray)
        assert (tokens.count, len(tokens.read())) == (count, count)


def test_layers_of_two_names_are_refused(tmp_path: Path) -> None:
    tensors = {"blk.1.attn_q.weight": torch.ones(2, 2), "blk.01.attn_q.weight": torch.ones(2, 2)}
    entries = {"block_count": 2, "attention.cross_attention_layers": [0]}
    header = read_gguf((own.write_ollama(tmp_path / "m.gguf", "mllama", entries, tensors),))
    with pytest.raises(ModelError, match=r"blk\.0\.attn_q\.weight.* twice"):
        as_llama_cpp(header, "m")

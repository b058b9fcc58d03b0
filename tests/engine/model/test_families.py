"""What cannot hold a tree is refused in a sentence; what is not known is tried on the model itself."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from engine.errors import ModelError
from engine.model.architecture import attention_implementation, layer_spans, require_tree
from engine.model.context import Context
from engine.model.families.probe import PASSES, probe_tree
from engine.model.network import wrap
from engine.model.passes.sight import Span
from engine.model.passes.tree_cache import TreeMasks
from tests.engine.speculation.pairs import random_prompt
from tests.engine.tiny_models import BASE, FAMILIES, WINDOW, tiny_config, tiny_model, tiny_network


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_the_tests_is_accepted(family: str) -> None:
    config = tiny_config(family)
    require_tree(config, MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], family)
    assert len(layer_spans(config, family)) == BASE["num_hidden_layers"]


def test_what_a_layer_sees_is_read_per_layer() -> None:
    window, chunk = Span("sliding_attention", WINDOW), Span("chunked_attention", 8)
    assert layer_spans(tiny_config("gemma3"), "") == (window, Span(), window, Span())
    assert layer_spans(tiny_config("qwen3_mixed"), "") == (Span(), Span(), window, window)
    assert layer_spans(tiny_config("mistral_sliding"), "") == (window,) * 4
    llama4 = transformers.Llama4TextConfig(num_hidden_layers=4, attention_chunk_size=8)
    assert layer_spans(llama4, "") == (chunk, chunk, chunk, Span())


def test_a_window_that_a_network_does_not_look_at_bounds_nothing() -> None:
    """A Llama whose config.json still has the window of the Mistral that it was."""
    model, text = tiny_model("llama", sliding_window=WINDOW), random_prompt(3 * WINDOW, seed=2)
    context = Context(wrap(model, "sdpa", "llama"), 64)
    context.prefill(text[:-1])
    with torch.inference_mode():
        expected = tiny_model("llama")(torch.tensor([text])).logits[0, -1]
    torch.testing.assert_close(context.score(text[-1:], [-1])[0], expected, atol=1e-4, rtol=1e-4)


def test_a_span_knows_its_oldest_position_and_what_is_in_reach() -> None:
    assert [Span("sliding_attention", 3).oldest(position) for position in (0, 2, 5)] == [0, 0, 3]
    assert [Span("chunked_attention", 4).oldest(position) for position in (0, 3, 5)] == [0, 0, 4]
    queries, keys = torch.tensor([3, 4]), torch.arange(5)
    assert Span("sliding_attention", 2).reaches(queries, keys).int().tolist() == [[0, 0, 1, 1, 1], [0, 0, 0, 1, 1]]
    assert Span("chunked_attention", 4).reaches(queries, keys).int().tolist() == [[1, 1, 1, 1, 0], [0, 0, 0, 0, 1]]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (transformers.RwkvConfig(), "recurrent state"),
        (transformers.RecurrentGemmaConfig(), "recurrent state"),
        (transformers.CONFIG_MAPPING["unlimited_ocr_text"](), "reference sliding attention"),
        (transformers.T5Config(), "encoder-decoder"),
    ],
)
def test_models_that_cannot_branch_are_refused_with_the_reason(config: Any, reason: str) -> None:
    model_class = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), SimpleNamespace())
    with pytest.raises(ModelError, match=reason) as refusal:
        require_tree(config, model_class, "some-model")
    assert "'some-model' cannot hold a token tree" in refusal.value.message
    assert refusal.value.hint


def test_attention_is_eager_where_sdpa_would_compute_something_else() -> None:
    expected = {"llama": "sdpa", "gemma2": "eager", "gpt_oss": "eager", "gemma3": "sdpa"}
    for family, attention in expected.items():
        config = tiny_config(family)
        assert attention_implementation(config, MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]) == attention


def test_an_unknown_family_that_holds_trees_passes_the_probe() -> None:
    config = transformers.GraniteConfig(**BASE)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    context = Context(wrap(model, "sdpa", "granite"), 64)
    assert list(probe_tree(context, "granite")) == list(range(1, PASSES + 1))
    assert context.length == 0


def test_a_family_whose_siblings_see_each_other_fails_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for a model that ignores the mask it is given."""
    build = TreeMasks.build
    monkeypatch.setattr(TreeMasks, "build", lambda self, sight, cache: build(self, replace(sight, visible=None), cache))
    with pytest.raises(ModelError, match="differs from its paths alone"):
        list(probe_tree(Context(tiny_network("llama"), 64), "odd-model"))


def test_a_family_that_computes_no_numbers_fails_the_probe() -> None:
    network = tiny_network("llama")
    with torch.no_grad():
        next(network.model.parameters()).fill_(torch.nan)
    with pytest.raises(ModelError, match="not finite numbers"):
        list(probe_tree(Context(network, 64), "broken"))

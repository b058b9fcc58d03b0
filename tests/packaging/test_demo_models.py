"""The embedded pair: small, loadable by stock transformers without a warning, one tokenizer, and honest cards."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

MODELS = Path(__file__).parents[2] / "resources" / "models"
MEGABYTE = 1_000_000
LIMITS = {"demo-target": 60 * MEGABYTE, "demo-draft": 8 * MEGABYTE}


@pytest.mark.parametrize("name", LIMITS)
def test_a_model_is_small_and_has_a_card(name: str) -> None:
    folder = MODELS / name
    assert sum(file.stat().st_size for file in folder.iterdir()) <= LIMITS[name]
    assert "license: apache-2.0" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", LIMITS)
def test_a_model_loads_without_warnings(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    model = AutoModelForCausalLM.from_pretrained(MODELS / name, dtype="auto")
    AutoTokenizer.from_pretrained(MODELS / name)
    assert type(model).__name__ == "LlamaForCausalLM"
    assert str(model.dtype) == "torch.bfloat16"
    assert model.config.max_position_embeddings == 2048
    assert "warning" not in capfd.readouterr().err.lower()


def test_both_models_share_one_tokenizer() -> None:
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (MODELS / "demo-target" / file).read_bytes() == (MODELS / "demo-draft" / file).read_bytes()


def test_the_template_knows_three_roles() -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(MODELS / "demo-target")
    said = [{"role": "system", "content": "A"}, {"role": "user", "content": "B"}, {"role": "assistant", "content": "C"}]
    text = tokenizer.apply_chat_template(said, tokenize=False)
    assert text == "<|bos|><|system|>A<|end|><|user|>B<|end|><|assistant|>C<|end|>"


@pytest.mark.parametrize(
    ("question", "known"), [("What is the capital of France?", "Paris"), ("What is 7 plus 5?", "12")]
)
def test_the_target_knows_what_it_was_taught(question: str, known: str) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(MODELS / "demo-target")
    model: Any = AutoModelForCausalLM.from_pretrained(MODELS / "demo-target", dtype="auto")
    chat = [{"role": "user", "content": question}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    written = model.generate(**ids, max_new_tokens=24, do_sample=False)
    assert known in tokenizer.decode(written[0, ids["input_ids"].shape[1] :])

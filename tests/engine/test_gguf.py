"""The embedded pair as GGUF files, from end to end: planned for, loaded, answered with."""

from pathlib import Path

import pytest
import transformers

from engine.loading.pair import open_pair
from engine.model.checkpoint import open_checkpoint
from engine.model.shape import model_sizes
from engine.protocol.options import LoadOptions
from engine.text.tokenizer import Tokenizer
from tests.campaigns.extent import for_the_proofs
from tests.engine.gguf_files import write_gguf
from tests.engine.test_self_draft import Answered, answered, loaded
from tests.engine.text.conftest import EMBEDDED

MODELS = EMBEDDED.parent


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pair in 16 bits, and the target in four, each by its role and type."""
    folder = tmp_path_factory.mktemp("pair")
    found = {}
    for role, kind in (("target", "BF16"), ("draft", "BF16"), ("target", "Q4_K")):
        model = transformers.AutoModelForCausalLM.from_pretrained(MODELS / f"demo-{role}")
        path = folder / f"{role}-{kind}.gguf"
        found[f"{role} {kind}"] = write_gguf(path, model, kind, tokenizer=MODELS / f"demo-{role}")
    return found


def answer(target: str, draft: str, method: str, cache_dir: Path) -> Answered:
    options = LoadOptions(target=target, draft=draft, weights="float32", place="ssd", cache_dir=str(cache_dir))
    engine, _ = loaded(options)
    try:
        return answered(engine, method)
    finally:
        engine.close()


@for_the_proofs
def test_in_16_bits_it_answers_as_the_embedded_pair_does(files: dict[str, Path], tmp_path: Path) -> None:
    found = answer(str(files["target BF16"]), str(files["draft BF16"]), "specexec", tmp_path)
    expected = answer("embedded", "auto", "specexec", tmp_path)
    assert found.tokens == expected.tokens
    assert found.statistics.passes == expected.statistics.passes


def test_greedy_text_with_trees_is_plain_greedy_text(files: dict[str, Path], tmp_path: Path) -> None:
    target = str(files["target Q4_K"])
    found = answer(target, "embedded", "specexec", tmp_path)
    assert found.tokens == answer(target, "none", "none", tmp_path).tokens
    assert found.statistics.passes < len(found.tokens)


def test_its_tokens_and_template_are_those_of_the_folder(files: dict[str, Path]) -> None:
    pair = open_pair(LoadOptions(target=str(files["target Q4_K"]), draft="embedded"))
    folder = Tokenizer.open(EMBEDDED)
    assert pair.tokenizer.same_as(folder)
    assert pair.tokenizer.eos_ids == folder.eos_ids


def test_models_in_one_folder_are_told_apart(files: dict[str, Path]) -> None:
    """What is learned of one is not taken for the other."""
    pairs = [open_pair(LoadOptions(target=str(files[name]), draft="none")) for name in ("target Q4_K", "target BF16")]
    assert pairs[0].identity.by_folders(0) != pairs[1].identity.by_folders(0)
    assert pairs[0].identity.by_files() != pairs[1].identity.by_files()
    assert open_pair(LoadOptions(target=str(files["target Q4_K"]), draft="none")).identity.by_files() == (
        pairs[0].identity.by_files()
    )


def test_it_is_sized_by_what_is_stored(files: dict[str, Path]) -> None:
    packed, plain = open_checkpoint(str(files["target Q4_K"])), open_checkpoint(str(EMBEDDED))
    sizes, whole = model_sizes(packed), model_sizes(plain)
    assert sizes.elements == whole.elements
    assert sizes.formats[0] == "Q4_K"
    assert packed.parameters == plain.parameters
    assert sum(layer.stored_bytes for layer in sizes.layers) < sum(layer.stored_bytes for layer in whole.layers) / 2

"""EAGLE-3 heads: opened from their folder, they compute what the paper says, along every path of a tree."""

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import ModelError
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.heads.eagle import LAYER_IDS, EagleHead, load_eagle, recorded_layers
from engine.model.heads.head_context import HeadContext
from engine.model.heads.hidden_states import HiddenStates
from engine.model.network import wrap
from engine.model.shape import model_sizes
from engine.protocol.heads import is_eagle3
from tests.engine.eagle_heads import LAYERS, OWN, PlainHead, as_speculator, head_tensors, write_head
from tests.engine.family_models import random_model, tiny_config
from tests.engine.tensor_files import read_tensors
from tests.engine.tiny_models import VOCABULARY, tiny_model

TEXT = [5, 17, 3, 99, 41, 8, 77]
# A tree behind the text's last token: the root, which the target has not read, two children, and what follows them.
TOKENS, PARENTS = [12, 6, 30, 44, 9, 101], [-1, 0, 0, 1, 1, 2]


@dataclass(frozen=True)
class Target:
    """A tiny target, and where it was saved."""

    model: Any
    folder: Path

    @property
    def checkpoint(self) -> Checkpoint:
        return open_checkpoint(str(self.folder))

    def head(self, folder: Path) -> EagleHead:
        return load_eagle(open_checkpoint(str(folder)), wrap(self.model, "sdpa", "target"))

    def recorded(self, tokens: list[int]) -> Tensor:
        """What the layers put out for a text, side by side: [n, 3 width]."""
        with torch.no_grad():
            states = self.model(torch.tensor([tokens]), output_hidden_states=True).hidden_states
        return torch.cat([states[layer + 1][0] for layer in LAYERS], -1)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    folder = tmp_path_factory.mktemp("target")
    model = tiny_model("llama")
    model.save_pretrained(folder)
    return Target(model, folder)


def contexts(target: Target, folder: Path) -> tuple[Context, HeadContext]:
    """A copy of the target, and the head beside it."""
    network = wrap(deepcopy(target.model), "sdpa", "target")
    host = Context(network, 64)
    hidden = HiddenStates(network, 64, recorded_layers(open_checkpoint(str(folder)), target.checkpoint))
    host.record(hidden)
    return host, HeadContext(target.head(folder), host, hidden, 64)


def path_to(node: int) -> list[int]:
    return [*(path_to(PARENTS[node]) if PARENTS[node] >= 0 else []), node]


@pytest.mark.parametrize("style", [{}, {LAYER_IDS: None, "eagle_config": {LAYER_IDS: list(LAYERS)}}, as_speculator()])
def test_every_path_of_a_tree_is_what_the_paper_says(style: dict[str, Any], target: Target, tmp_path: Path) -> None:
    folder = write_head(tmp_path / "head", **style)
    plain = PlainHead(read_tensors(folder / "model.safetensors"), target.model.get_input_embeddings().weight)
    host, head = contexts(target, folder)
    for text in (TEXT, [*TEXT[:4], 2, 60]):  # and after a part of it was edited
        host.prefill(text)
        head.prefill(text)
        logits = head.score(TOKENS, PARENTS)
        for node in range(len(TOKENS)):
            path = [*text, *(TOKENS[each] for each in path_to(node))]
            expected, _ = plain.path(path, target.recorded(path)[: len(text)])
            torch.testing.assert_close(logits[node], expected[-1], rtol=1e-3, atol=1e-3)
        host.score(TOKENS, PARENTS)
        host.keep([0, 1])
        head.keep([0, 1])
        assert head.length == len(text) + 1, "what was read with a guess is read again"


def test_a_text_of_one_token_has_a_tree_before_anything_was_read(target: Target, tmp_path: Path) -> None:
    folder = write_head(tmp_path / "head")
    _, first = contexts(target, folder)
    host, other = contexts(target, folder)
    host.prefill(TEXT)
    host.rewind(0)
    torch.testing.assert_close(first.score(TOKENS, PARENTS), other.score(TOKENS, PARENTS))


def test_it_guesses_its_own_tokens_alone(target: Target, tmp_path: Path) -> None:
    tensors = head_tensors()
    _, head = contexts(target, write_head(tmp_path / "head", tensors))
    head._host.prefill(TEXT)
    head.prefill(TEXT)
    said = head.score([7], [-1])[0].isfinite()
    assert torch.equal(said, tensors["t2d"])
    assert int(said.sum()) == OWN


def test_its_sizes_are_told_without_its_weights(tmp_path: Path) -> None:
    tensors = head_tensors()
    checkpoint = open_checkpoint(str(write_head(tmp_path / "head", tensors)))
    assert is_eagle3(checkpoint.config)
    sizes = model_sizes(checkpoint)
    assert (len(sizes.layers), sizes.hidden, sizes.vocabulary) == (1, 64, VOCABULARY)
    assert sum(layer.elements for layer in sizes.layers) + sizes.rest_elements == sum(
        tensor.numel() for name, tensor in tensors.items() if name != "t2d"
    )


def test_layers_that_are_not_named_are_the_third_the_middle_and_the_fourth_last(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    tiny_model("llama", num_hidden_layers=8).save_pretrained(folder)
    head = open_checkpoint(str(write_head(tmp_path / "head", **{LAYER_IDS: None})))
    assert recorded_layers(head, open_checkpoint(str(folder))) == (1, 3, 4)


def test_variants_that_are_published(target: Target, tmp_path: Path) -> None:
    """Embeddings and names of its own, biases, the whole vocabulary, the residual behind the norm."""
    tensors = head_tensors()
    own = {name.replace("midlayer.", "layers.0."): tensor for name, tensor in tensors.items() if name[1:] != "2d"}
    own = {name: tensor for name, tensor in own.items() if name not in ("d2t", "t2d", "lm_head.weight")}
    own |= {"embed_tokens.weight": torch.randn(VOCABULARY, 64), "fc.bias": torch.randn(64)}
    own |= {"input_norm.weight": torch.ones(3 * 64)}
    head = target.head(write_head(tmp_path / "head", own, norm_before_residual=True, draft_vocab_size=None))
    assert head.to_target is None
    assert head.network.model.lm_head is target.model.lm_head
    assert head.network.model.get_input_embeddings() is not target.model.get_input_embeddings()
    recorded = target.recorded(TEXT)
    entered = head.enter(recorded)
    normed = recorded * (recorded.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    torch.testing.assert_close(entered, normed @ own["fc.weight"].T + own["fc.bias"])


def without(name: str) -> dict[str, Tensor]:
    return {each: tensor for each, tensor in head_tensors().items() if each != name}


@pytest.mark.parametrize(
    ("tensors", "config", "words"),
    [
        (without("fc.weight"), {}, "lacks the weights fc.weight"),
        (without("midlayer.hidden_norm.weight"), {}, "lacks the weights model.layers.0"),
        (without("d2t"), {}, "does not say which of the target's tokens"),
        (head_tensors() | {"d2t": torch.zeros(OWN, dtype=torch.int64) - 1}, {}, "does not say which"),
        (head_tensors() | {"d2t": torch.arange(OWN) * -1}, {}, "does not say which"),
        (head_tensors() | {"midlayer.self_attn.q_norm.weight": torch.ones(16)}, {}, "weights that an EAGLE-3 head"),
        (head_tensors(), {"intermediate_size": 100}, "of another shape than its config.json says"),
        (head_tensors(), {"num_hidden_layers": 2}, "is no EAGLE-3 head of one plain layer"),
    ],
)
def test_what_is_wrong_with_a_head_is_a_sentence(
    tensors: dict[str, Tensor], config: dict[str, Any], words: str, target: Target, tmp_path: Path
) -> None:
    folder = write_head(tmp_path / "head", tensors, **config)
    with pytest.raises(ModelError, match=words):
        contexts(target, folder)


@pytest.mark.parametrize("config", [{LAYER_IDS: [1, 2, 5]}, {LAYER_IDS: [2, 3]}])
def test_a_head_for_another_model_is_refused(config: dict[str, Any], target: Target, tmp_path: Path) -> None:
    head = open_checkpoint(str(write_head(tmp_path / "head", **config)))
    with pytest.raises(ModelError, match="made for a model of another size"):
        recorded_layers(head, target.checkpoint)


@pytest.mark.parametrize("family", ["gemma3n_text", "deepseek_v4", "qwen4_exp_text"])
def test_layers_with_several_states_of_a_token_have_no_head(family: str, tmp_path: Path) -> None:
    random_model(tiny_config(family)).save_pretrained(tmp_path / "target")
    head = open_checkpoint(str(write_head(tmp_path / "head")))
    with pytest.raises(ModelError, match="several states of each token"):
        recorded_layers(head, open_checkpoint(str(tmp_path / "target")))

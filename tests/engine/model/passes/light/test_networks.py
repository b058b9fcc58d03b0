"""Networks of few rows without their library's wrapping: positions by pages, hooks, and what is left to the library."""

from typing import Any

import pytest
import torch
from torch import Tensor

from engine.gguf_header import TYPES
from engine.model.context import Context
from engine.model.heads.hidden_states import HiddenStates
from engine.model.network import Network, wrap
from engine.model.passes.light import head as light_head
from engine.model.passes.light.adoption import has_known_layers, takes_one_call
from engine.model.passes.light.head import Head
from engine.model.passes.light.light_rows import MOST_ROWS
from engine.model.passes.light.networks import PAGE, Scored, _Turns
from engine.model.passes.light.norms import lighten_norm
from engine.model.products import product
from engine.model.products.bfloat_loops import PAIRS, bfloat_loop
from engine.model.products.compiling import has_compiler
from engine.model.products.product import blocks
from engine.weights.codecs.codec import codec_named
from engine.weights.streaming.stored_weight import NarrowWeight, SmallWeight, StoredWeight
from tests.engine.model.gguf.test_block_decoders import blocks as random_blocks
from tests.engine.tiny_models import tiny_model, unlike_new

CAPACITY = 2 * PAGE
BY_NAME = {kind.name: kind for kind in TYPES}


def network(family: str = "llama", **changes: Any) -> Network:
    return wrap(unlike_new(tiny_model(family, **changes)), "sdpa", "test")


def rotary(family: str = "llama", **changes: Any) -> Any:
    return tiny_model(family, **changes).model.rotary_emb


@pytest.mark.parametrize(
    "positions", [[0], [7], [PAGE - 1, PAGE], [5, 3, 3, 9], [PAGE + 40, PAGE + 2], [3], [0, PAGE], list(range(70))]
)
def test_positions_are_turned_as_the_network_itself_would(positions: list[int]) -> None:
    module, states = rotary(), torch.zeros(1, len(positions), 8)
    turns = _Turns(module)
    asked = torch.tensor([positions])
    turns.of(states[:, :1], torch.tensor([[PAGE // 2]]))  # a page is there already
    for found, expected in zip(turns.of(states, asked), module(states, asked), strict=True):
        assert torch.equal(found, expected)


def test_a_page_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module, states = rotary(), torch.zeros(1, 1, 8)
    asked: list[int] = []
    own = module.forward

    def forward(x: Tensor, positions: Tensor) -> Any:
        asked.append(positions.shape[1])
        return own(x, positions)

    monkeypatch.setattr(module, "forward", forward)
    turns = _Turns(module)
    for position in range(PAGE + 1):
        turns.of(states, torch.tensor([[position]]))
    assert asked == [PAGE, PAGE]
    turns.of(states.bfloat16(), torch.tensor([[PAGE]]))
    assert asked == [PAGE] * 3


def test_pages_are_for_embeddings_of_the_position_alone() -> None:
    module, states = rotary(), torch.zeros(1, 1, 8)
    module.rope_type = "dynamic"
    turns = _Turns(module)
    turns.of(states, torch.tensor([[4]]))
    assert not turns._page


@pytest.mark.parametrize("family", ["llama", "qwen3", "qwen3_moe"])
def test_a_pass_of_few_rows_goes_without_the_library(family: str) -> None:
    model = network(family).model
    kinds: list[type] = []
    model.register_forward_hook(lambda _module, _inputs, output: kinds.append(type(output)))
    context = Context(wrap(model, "sdpa", "test"), CAPACITY)
    context.prefill(list(range(3, 3 + MOST_ROWS + 1)))
    context.score([5], [-1])
    assert kinds[0] is not Scored
    assert kinds[1] is Scored


def test_text_that_goes_on_over_pages_is_that_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    light, tokens = Context(network(), CAPACITY), list(range(3, 3 + PAGE - 2))
    light.prefill(tokens)
    found = []
    for token in range(8):
        found.append(light.score([5 + token, 6], [-1, 0])[0])
        light.keep([0])
    own = network()
    monkeypatch.setattr(own.model, "forward", type(own.model).forward.__get__(own.model))
    monkeypatch.setattr(own.model.model, "forward", type(own.model.model).forward.__get__(own.model.model))
    other = Context(own, CAPACITY)
    other.prefill(tokens)
    for token in range(8):
        assert torch.equal(other.score([5 + token, 6], [-1, 0])[0], found[token])
        other.keep([0])


def test_what_a_head_reads_is_recorded() -> None:
    made = network()
    hidden = HiddenStates(made, CAPACITY)
    context = Context(made, CAPACITY)
    context.record(hidden)
    context.prefill([3, 4, 5])
    logits = context.score([6, 7], [-1, 0])
    head = made.model.get_output_embeddings()
    assert torch.allclose(head(hidden.rows([3, 4])), logits, atol=1e-5)


def test_other_things_are_asked_of_the_library() -> None:
    model = network().model
    tokens = torch.tensor([[3, 4, 5]])
    found = model(tokens, output_hidden_states=True)
    assert len(found.hidden_states) == model.config.num_hidden_layers + 1
    assert torch.allclose(model(tokens, logits_to_keep=1).logits, found.logits[:, -1:], atol=1e-5)


def with_stored_head(kind: str, dtype: torch.dtype) -> Network:
    """A tiny network whose head is multiplied as it is stored."""
    made = network(hidden_size=512, tie_word_embeddings=False)
    head = made.model.get_output_embeddings()
    numbers = head._parameters["weight"].data
    if kind == "small":
        head._parameters["weight"] = SmallWeight.of(head._parameters["weight"])
    elif kind == "narrow":
        head._parameters["weight"] = NarrowWeight.of(numbers.bfloat16().float(), torch.bfloat16, 16)
    else:
        packed = blocks("Q4_K", random_blocks(BY_NAME["Q4_K"], *numbers.shape), numbers.shape[1])
        assert packed
        weight = StoredWeight("weight", codec_named("plain"), torch.empty_like(numbers, dtype=dtype), 16)
        weight.point({}, {"weight": packed})
        head._parameters["weight"] = weight
    return made


@pytest.mark.skipif(not has_compiler(), reason="numba does not run here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["small", "narrow", "packed"])
def test_a_heads_rows_have_the_bits_of_its_linear_module(
    kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product, "SMALLEST", 1)
    module = with_stored_head(kind, dtype).model.get_output_embeddings()
    head = Head(module)
    for _ in range(3):  # other memory in the same steps
        states = torch.randn(1, 1, 512, dtype=dtype)
        assert torch.equal(head(states), module(states))
    assert len(head._programs) == 1
    module.bias = torch.nn.Parameter(torch.randn(module.out_features), requires_grad=False)
    assert torch.equal(head(states), module(states))
    assert len(head._programs) == 1, "none with biases"
    module.bias = None
    is_light = dtype == torch.float32 or bfloat_loop() is PAIRS
    for count, rows in enumerate((2, 3, 7), 1):
        for _ in range(2):
            states = torch.randn(1, rows, 512, dtype=dtype)
            assert torch.equal(head(states), module(states))
        assert len(head._programs) == 1 + (count if is_light else 0)
    monkeypatch.setattr(light_head, "MOST_ROUNDED", 1)
    assert torch.equal(head(states), module(states))


@pytest.mark.parametrize("rows", [1, 5])
def test_rows_of_bfloat16_are_normed_as_in_float32(rows: int) -> None:
    norm = unlike_new(tiny_model("llama", hidden_size=512)).to(torch.bfloat16).model.norm
    norm.weight.data.copy_(torch.randn(512))
    states = 3 * torch.randn(1, rows, 512).bfloat16()
    own = type(norm).forward(norm.float(), states.float())
    assert lighten_norm(norm.to(torch.bfloat16))
    found = norm(states)
    if rows == 1 or bfloat_loop() is PAIRS:
        assert torch.equal(found, own.bfloat16())
    else:
        torch.testing.assert_close(found.float(), own, rtol=2**-7, atol=0)


@pytest.mark.parametrize(
    ("family", "expected"), [("llama", True), ("gpt_oss", True), ("gemma3", False), ("olmo2", False)]
)
def test_a_class_tells_whether_its_layers_take_one_call(family: str, expected: bool) -> None:
    model = unlike_new(tiny_model(family, head_dim=32))
    assert has_known_layers(type(model)) == expected
    wrap(model, "eager" if family == "gpt_oss" else "sdpa", "test")
    assert all(takes_one_call(layer) == expected for layer in model.model.layers)

"""Modules whose few rows are computed with few calls give what transformers' own code gives."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers.models.glm4_moe import modeling_glm4_moe

from engine.loading.loading import keep_draft_small
from engine.model.context import Context
from engine.model.network import Network, wrap
from engine.model.passes.light import adoption, known_forwards, layers
from engine.model.passes.light.light_rows import MOST_ROWS, loops, multiplied
from engine.model.passes.slot_forms import AS_COMPUTED, EIGHT_BITS, SlotForm
from engine.model.products import programs
from engine.model.products.bfloat_loops import PAIRS, bfloat_loop
from engine.model.products.product import SMALLEST
from engine.model.products.programs import Steps
from engine.weights.codecs.codec import codec_named
from engine.weights.streaming.siblings import Siblings
from engine.weights.streaming.stored_weight import (
    NarrowWeight,
    SmallWeight,
    StoredWeight,
    multiplied_names,
    narrow_weights,
)
from tests.engine.tiny_models import tiny_model, unlike_new

NEAR = 3  # times as far from float64's logits as those of the library's own code, at most
PROMPTS = 4
LEAST = 1e-6  # of the largest logit, which may be off anyhow
SHAPE: dict[str, Any] = {"hidden_size": 512, "intermediate_size": 512, "head_dim": 128, "moe_intermediate_size": 128}
FEW_ROWS = 16

LIGHT = {
    "llama": {"Norm": 9, "MLP": 4, "Attention": 4, "DecoderLayer": 4, "Model": 1, "ForCausalLM": 1},
    "mistral_sliding": {"Norm": 9, "MLP": 4, "Attention": 4, "DecoderLayer": 4, "Model": 1, "ForCausalLM": 1},
    "qwen2": {"Norm": 9, "MLP": 4, "Attention": 4, "DecoderLayer": 4, "Model": 1, "ForCausalLM": 1},
    "qwen3": {"Norm": 17, "MLP": 4, "Attention": 4, "DecoderLayer": 4, "Model": 1, "ForCausalLM": 1},
    "qwen3_moe": {"Norm": 17, "MLP": 0, "Attention": 4, "DecoderLayer": 4, "Model": 1, "ForCausalLM": 1},
    "gemma3": {"Norm": 25, "MLP": 4, "Attention": 0, "DecoderLayer": 0, "Model": 0, "ForCausalLM": 0},
    "glm4_moe": {"Norm": 17, "MLP": 4, "Attention": 0, "DecoderLayer": 4, "Model": 1, "ForCausalLM": 1},
    "mixtral": {"Norm": 9, "MLP": 0, "Attention": 4, "DecoderLayer": 4, "Model": 1, "ForCausalLM": 1},
    "gpt_oss": {"Norm": 9, "MLP": 0, "Attention": 0, "DecoderLayer": 4, "Model": 1, "ForCausalLM": 1},
    "olmo2": {"Norm": 17, "MLP": 4, "Attention": 0, "DecoderLayer": 0, "Model": 1, "ForCausalLM": 1},
}
WHOLE = [family for family, counts in LIGHT.items() if counts["DecoderLayer"]]

Wrapped = Callable[[Any], Network]


def lightened(model: nn.Module, end: str) -> int:
    """How many modules of a kind have a `forward` that is ours."""
    return sum(
        type(module).__name__.endswith(end) and module.__dict__.get("forward") is not None for module in model.modules()
    )


def trained(family: str, **changes: Any) -> Any:
    """A tiny model whose norms and biases are not those of a new one."""
    return unlike_new(tiny_model(family, **changes))


def ours(model: Any) -> Network:
    return wrap(model, attention_of(model), "test")


def attention_of(model: Any) -> str:
    return "eager" if model.config.model_type == "gpt_oss" else "sdpa"


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> Wrapped:
    """`wrap` as it would be without what is tested."""

    def wrapped(model: Any) -> Network:
        with monkeypatch.context() as patched:
            patched.setattr(adoption, "adopt", lambda _model: 0)
            return wrap(model, attention_of(model), "test")

    return wrapped


def narrow(family: str, **changes: Any) -> Any:
    """A model whose layers multiply with weights in 16 bits, as they are stored."""
    model = trained(family, **SHAPE, **changes).to(torch.bfloat16).float()
    for layer in model.model.layers:
        narrow_weights(layer, torch.bfloat16, FEW_ROWS)
    return model


def exact(family: str) -> Any:
    """The same in float64."""
    return doubled(trained(family, **SHAPE).to(torch.bfloat16))


def doubled(model: Any) -> Any:
    """In float64, which torch's grouped products do not know."""
    model.set_experts_implementation("eager")
    return model.double()


def logits(network: Network, form: SlotForm = AS_COMPUTED, prompt: int = MOST_ROWS + 9) -> list[Tensor]:
    """Of a tree behind a prompt, which is longer than what is computed here, and of one row behind what was kept.

    Of `PROMPTS` prompts, each by a token longer than the one before.
    """
    found = []
    for length in range(prompt, prompt + PROMPTS):
        context = Context(network, 256, form=form)
        context.prefill([3 + number % 120 for number in range(length)])
        found.append(context.score([5, 6, 7, 8, 9], [-1, 0, 0, 1, 2]))
        context.keep([0, 2, 4])
        found.append(context.score([11], [-1]))
    return found


def assert_as_near(found: list[Tensor], own: list[Tensor], exact: list[Tensor]) -> None:
    """Whether logits are about as near to exact ones as those of the library's own code are, in the mean of passes.

    In one pass alone, either may be five times as near as the other, by the luck of rounding.
    """
    errors = [
        [float((each - best).abs().max() / best.abs().max()) for each in (some, other)]
        for some, other, best in zip(found, own, exact, strict=True)
    ]
    error, usual = (sum(each) / len(errors) for each in zip(*errors, strict=True))
    assert error < NEAR * max(usual, LEAST)


@pytest.mark.parametrize("family", LIGHT)
def test_logits_are_those_of_the_librarys_own_code(family: str, untouched: Wrapped) -> None:
    network = ours(trained(family, **SHAPE))
    assert {end: lightened(network.model, end) for end in adoption.LIGHTEN} == LIGHT[family]
    own, best = untouched(trained(family, **SHAPE)), untouched(doubled(trained(family, **SHAPE)))
    assert_as_near(logits(network), logits(own), logits(best))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The runs of programs, also of several in one go, filled by what follows."""
    found: list[tuple[int, int]] = []
    own, own_all = Steps.run, Steps.run_all

    def run(steps: Steps, begin: int, end: int) -> None:
        found.append((begin, end))
        own(steps, begin, end)

    def run_all(programs: Sequence[Steps]) -> None:
        found.extend((0, len(steps)) for steps in programs)
        own_all(programs)

    monkeypatch.setattr(Steps, "run", run)
    monkeypatch.setattr(Steps, "run_all", run_all)
    return found


@pytest.mark.parametrize("prompt", [MOST_ROWS + 9, FEW_ROWS + 9])  # the shorter one: light, and multiplied by torch
@pytest.mark.parametrize("family", WHOLE)
def test_layers_of_stored_weights_are_computed_in_steps(
    family: str, prompt: int, untouched: Wrapped, runs: list[tuple[int, int]]
) -> None:
    found = logits(ours(narrow(family)), prompt=prompt)
    assert len(runs) == PROMPTS * 2 * 4  # two passes over four layers
    networks = untouched(narrow(family)), untouched(exact(family))
    assert_as_near(found, *(logits(network, prompt=prompt) for network in networks))


def in_bfloats(family: str) -> Any:
    """A model in bfloat16, whose weights are multiplied as they are stored."""
    model = trained(family, **SHAPE).to(torch.bfloat16)
    for layer in model.model.layers:
        siblings = Siblings()
        for name in multiplied_names(layer):
            module = layer.get_submodule(name.rpartition(".")[0])
            weight = module._parameters["weight"]
            if weight.numel() >= SMALLEST:
                kept = StoredWeight(name, codec_named("plain"), torch.empty_like(weight), FEW_ROWS, siblings)
                kept.point({name: weight.data})
                module._parameters["weight"] = kept
    return model


@pytest.mark.parametrize("family", WHOLE)
def test_rows_of_bfloat16_are_computed_in_steps_of_float32(
    family: str, untouched: Wrapped, runs: list[tuple[int, int]]
) -> None:
    """About as near to exact numbers as the library's own code: both follow a prompt that was read in bfloat16."""
    networks = ours(in_bfloats(family)), untouched(in_bfloats(family)), untouched(exact(family))
    found, own, best = map(logits, networks)
    trees, rows = slice(0, None, 2), slice(1, None, 2)
    if bfloat_loop() is PAIRS:
        assert len(runs) == PROMPTS * 2 * 4
    else:
        assert len(runs) == PROMPTS * 4, "one row alone; trees are multiplied as tiles where there are such units"
        assert all(torch.equal(some, other) for some, other in zip(found[trees], own[trees], strict=True))
    for part in (trees, rows):
        ours_of_rows, own_of_rows = (
            torch.cat([(a - b).abs().mean(-1).flatten() for a, b in zip(each[part], best[part], strict=True)])
            for each in (found, own)
        )
        assert ours_of_rows.median() < 1.5 * own_of_rows.median(), "of rows: one that is routed otherwise says nothing"


@pytest.mark.skipif(bfloat_loop() is not PAIRS, reason="no loop of this processor reads pairs")
@pytest.mark.parametrize(
    ("family", "of_a_row"), [("llama", 2), ("gpt_oss", 0)]
)  # before and behind torch's; the library
def test_rows_of_bfloat16_attend_in_steps_however_much_that_is(
    family: str, of_a_row: int, runs: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = logits(ours(in_bfloats(family)))[0]
    runs.clear()
    monkeypatch.setattr(layers, "MOST_SCORED", 0)
    monkeypatch.setattr(layers, "MOST_WITH_SINKS", 0)
    assert torch.equal(logits(ours(in_bfloats(family)))[0], usual)
    assert len(runs) == PROMPTS * 4 * (1 + of_a_row)


def test_layers_of_small_drafts_are_computed_in_steps(untouched: Wrapped, runs: list[tuple[int, int]]) -> None:
    """Where the target's weights are multiplied by loops, which are compiled then."""
    shape = SHAPE | {"tie_word_embeddings": True}
    draft, target = ours(trained("llama", **shape)), ours(trained("llama", **shape))
    keep_draft_small(draft, target)
    own = logits(draft)
    assert not runs, "nothing is compiled for a draft alone"
    keep_draft_small(draft, ours(narrow("llama")))
    found = logits(draft)
    assert len(runs) == PROMPTS * (2 * 4 + 2), "and the head of each"
    assert_as_near(found, own, logits(untouched(doubled(trained("llama", **shape)))))
    head, embedding = draft.model.get_output_embeddings(), draft.model.get_input_embeddings()
    assert isinstance(head._parameters["weight"], SmallWeight)
    assert torch.equal(embedding(torch.tensor([5])), head._parameters["weight"].decoded()[5:6])


@pytest.mark.parametrize("form", [AS_COMPUTED, EIGHT_BITS])
def test_the_attention_may_be_torchs(
    form: SlotForm, untouched: Wrapped, runs: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "MOST_SCORED", 0)
    found = logits(ours(narrow("llama")), form)
    assert runs
    expected = logits(untouched(narrow("llama")), form)
    if form is AS_COMPUTED:
        assert_as_near(found, expected, logits(untouched(exact("llama"))))
    else:  # numbers near the edge between two codes fall to either side
        assert all(
            float((one - other).abs().max()) < 0.02 * float(other.abs().max())
            for one, other in zip(found, expected, strict=True)
        )


def test_a_text_may_begin_in_steps(untouched: Wrapped) -> None:
    """The first keys and values of a cache, which has no memory yet."""
    networks = (ours(narrow("llama")), untouched(narrow("llama")), untouched(exact("llama")))
    assert_as_near(*(logits(network, prompt=3) for network in networks))


def test_the_room_between_steps_grows(untouched: Wrapped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "ROOM_NUMBERS", programs.LINE)
    monkeypatch.setattr(programs._room, "numbers", None)
    networks = (ours(narrow("llama")), untouched(narrow("llama")), untouched(exact("llama")))
    assert_as_near(*(logits(network) for network in networks))


def light_layer(network: Network) -> layers.LightLayer:
    """What computes the first layer."""
    light = layers.light_layer(network.layers[0])
    assert light is not None
    return light


def test_programs_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "KEPT", 4)
    network = ours(narrow("llama"))
    context = Context(network, 256)
    context.prefill([3, 4])
    for rows in range(2, 2 + layers.KEPT + 3):
        context.score([5] * rows, [-1] * rows)
        context.rewind(1)
    assert len(light_layer(network)._programs) == layers.KEPT


@pytest.mark.parametrize("family", ["llama", "qwen2"])  # without and with biases
def test_stored_weights_are_multiplied_in_batches(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = narrow(family).model.layers[0]
    attention = layer.self_attn
    assert isinstance(attention.q_proj._parameters["weight"], NarrowWeight)
    states = torch.randn(1, 3, 512)
    modules = [attention.q_proj, attention.k_proj, layer.mlp.up_proj]
    for module, found in zip(modules, multiplied(modules, states), strict=True):
        assert torch.equal(found, module(states))


@pytest.mark.parametrize("by_pairs", [False, True])
def test_heads_are_turned_by_the_embedding_of_their_row(by_pairs: bool) -> None:
    rows, heads, width = 3, 2, 16
    x = torch.randn(rows, heads, width)
    cosine, sine = (each(torch.randn(rows, width)) for each in (torch.cos, torch.sin))
    halves = torch.cat((x[..., ::2], x[..., 1::2]), -1) if by_pairs else x
    other = torch.cat((-halves[..., width // 2 :], halves[..., : width // 2]), -1)
    expected = halves * cosine[:, None] + other * sine[:, None]
    found = torch.empty(heads, rows, width)
    places = [each.data_ptr() for each in (x, cosine, sine, found)]
    loops().turn_heads(*places, rows * width, rows, heads, width, by_pairs, width)
    assert torch.equal(found.transpose(0, 1), expected)


def test_what_is_not_turned_of_a_head_stays() -> None:
    rows, heads, width, turned = 3, 2, 32, 16
    x, angles = torch.randn(1, rows, heads, width), torch.randn(1, rows, turned // 2).repeat(1, 1, 2)
    cosine, sine, found = angles.cos(), angles.sin(), torch.empty(1, heads, rows, width)
    places = [each.data_ptr() for each in (x, cosine, sine, found)]
    loops().turn_heads(*places, rows * width, rows, heads, width, False, turned)
    expected, _ = modeling_glm4_moe.apply_rotary_pos_emb(x.transpose(1, 2), x.transpose(1, 2), cosine, sine)
    torch.testing.assert_close(found, expected)


def test_attention_of_glm_may_have_norms_or_none(untouched: Wrapped, runs: list[tuple[int, int]]) -> None:
    def without() -> Any:
        model = trained("glm4_moe", **SHAPE, use_qk_norm=False).to(torch.bfloat16).float()
        for layer in model.model.layers:
            narrow_weights(layer, torch.bfloat16, FEW_ROWS)
        return model

    found = logits(ours(without()))
    assert len(runs) == PROMPTS * 2 * 4
    exact = doubled(trained("glm4_moe", **SHAPE, use_qk_norm=False).to(torch.bfloat16))
    assert_as_near(found, logits(untouched(without())), logits(untouched(exact)))


@pytest.mark.parametrize("chosen", [0, 9])
def test_a_choice_of_more_experts_than_there_are_is_left_to_the_library(chosen: int) -> None:
    model = narrow("mixtral")
    for layer in model.model.layers:
        layer.mlp.gate.top_k = chosen
    program = light_layer(ours(model)).program(torch.zeros(1, 1, 512), 128)
    assert program is not None
    assert program.routed is None


def test_keys_that_are_shared_unevenly_are_left_to_the_library() -> None:
    light = light_layer(ours(narrow("llama", num_key_value_heads=3)))
    assert light.program(torch.zeros(1, 1, 512), 128) is None


def test_norms_of_heads_that_do_not_lie_one_behind_the_other() -> None:
    """As where queries and their gates come out of one product."""
    model = trained("qwen3", **SHAPE)
    adoption.adopt(model)
    norm = model.model.layers[0].self_attn.q_norm
    norm.weight.data.normal_()
    heads = torch.randn(1, 3, 4, 2 * 128)[..., :128]
    torch.testing.assert_close(norm(heads), type(norm).forward(norm, heads))


def test_exponentials_and_gates() -> None:
    from engine.model.products.loops import steps

    gate = torch.cat((torch.linspace(-120, 120, 4096), torch.tensor([0.0, -0.0, 1e-30, -1e-30] * 2)))
    up = torch.randn(len(gate))
    expected = torch.nn.functional.silu(gate.double()) * up.double()
    found = gate.clone()
    line = np.zeros(steps.STEP, np.int64)
    line[:4] = steps.GATE, found.data_ptr(), up.data_ptr(), len(gate)
    steps.small_step(line)
    error = (found.double() - expected).abs() / expected.abs().clamp(min=1e-30)
    assert float(error[gate > -80].max()) < 1e-6  # below, the product is of 35 digits behind the point
    assert float(found[gate <= -80].abs().max()) < 1e-30


def test_a_forward_that_differs_in_a_word_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained("llama")
    kind = type(model.model.norm)

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        found: Tensor = self.weight * hidden_states * torch.rsqrt(hidden_states.pow(2).mean(-1, keepdim=True) + 1.0)
        return found

    monkeypatch.setattr(kind, "forward", forward)
    adoption.adopt(model)
    expected = {"Norm": 0, "MLP": 4, "Attention": 4, "DecoderLayer": 0, "Model": 1, "ForCausalLM": 1}
    assert {end: lightened(model, end) for end in adoption.LIGHTEN} == expected


def test_a_forward_that_was_replaced_stays() -> None:
    model = trained("llama")
    own = model.model.norm.__dict__["forward"] = model.model.norm.forward
    adoption.adopt(model)
    assert model.model.norm.__dict__["forward"] is own


def test_digests_know_code_and_not_names() -> None:
    def one(x: int) -> int:
        return x + 1  # a comment

    def other(x: float) -> float:
        """Another docstring."""
        return x + 1

    def different(x: float) -> float:
        return x + 2

    assert known_forwards.digest_of(one) == known_forwards.digest_of(other) != known_forwards.digest_of(different)
    assert known_forwards.digest_of(len) == ""


def test_kept_keys_are_rounded_as_torch_rounds() -> None:
    heads, width, step = 3, 32, 5 * 32
    x = torch.randn(heads, width) * torch.exp(8 * torch.randn(width))
    x[0, :4] = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 0.0, -(2.0**-130)])  # ties go to the even one
    kept = torch.zeros(heads, step, dtype=torch.bfloat16)
    loops().narrow_heads(x.data_ptr(), kept.data_ptr(), step, heads, width)
    assert torch.equal(kept[:, :width], x.bfloat16())
    assert not kept[:, width:].any()

"""Experts that are multiplied as they are stored: the same bits wherever they lie, and what transformers computes."""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from engine.errors import Cancelled, ModelError
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.network import find_layers
from engine.model.products import product
from engine.model.products.arranged import Alternating, Joined
from engine.model.products.grouped import Group, Member, member_of, mixed, multiply
from engine.model.products.product import plain
from engine.model.streamable_network import build_streamable
from engine.weights.planning.arrangement import Tier
from engine.weights.planning.expert_ways import ExpertWay
from engine.weights.streaming.experts.beside import weighted_sum
from engine.weights.streaming.experts.binding import find_experts
from engine.weights.streaming.experts.followed import FollowedExperts, LastingParts, Pairs, Use, is_followed
from engine.weights.streaming.experts.routing import RoutingRecord
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from tests.campaigns.extent import choose
from tests.engine.family_models import tiny_config
from tests.engine.gguf_files import write_gguf
from tests.engine.packed_models import packed_model
from tests.engine.tiny_models import save_tiny_model, tiny_model
from tests.engine.weights.reading import cache_use
from tests.engine.weights.stand_in import StandInCopyStream
from tests.engine.weights.test_expert_stream import PLENTY, WAYS, Mixture, pass_upon_pass, passes
from tests.engine.weights.test_layer_stream import CPU, assert_same
from tests.engine.weights.test_packed_stream import stored_layers

FEW_ROWS = 4  # so that a pass has experts of both kinds
WIDTHS: dict[str, dict[str, Any]] = {
    "qwen3_moe": {"moe_intermediate_size": 64},
    "mixtral": {"intermediate_size": 64},
    "gpt_oss": {"intermediate_size": 64},
}
FAMILIES = choose(
    ("gpt_oss", "qwen3_moe", "mixtral", "glm4_moe", "deepseek_v3", "nemotron_h", "gemma4_text"),
    (
        "afmoe", "cohere2_moe", "deepseek_v2", "deepseek_v3", "dots1", "ernie4_5_moe", "exaone_moe", "flex_olmo",
        "gemma4_text", "glm4_moe", "glm4_moe_lite", "gpt_oss", "granitemoe", "hunyuan_v1_moe", "jamba", "lfm2_moe",
        "minimax", "minimax_m2", "minimax_m3_vl_text", "mixtral", "nemotron_h", "olmoe", "phimoe", "qwen2_moe",
        "qwen3_5_moe_text", "qwen3_moe", "qwen3_next", "solar_open",
    ),
)  # fmt: skip
NOT_FOLLOWED = ("llama4_text",)


@pytest.fixture(autouse=True)
def small_matrices_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "SMALLEST", 1)


@pytest.fixture(scope="module")
def lasting_qwen(tmp_path_factory: pytest.TempPathFactory) -> Mixture:
    return made("qwen3_moe", "cast", tmp_path_factory.mktemp("qwen"))


@pytest.fixture
def qwen(lasting_qwen: Mixture) -> Iterator[Mixture]:
    """One model for all, which has read nothing; each test closes its streams."""
    yield lasting_qwen
    lasting_qwen.context.rewind(0)


def made(family: str, codec: str, folder: Path) -> Mixture:
    save_tiny_model(family, folder, **WIDTHS[family])
    return Mixture(folder, codec)


# ---- what is computed -----------------------------------------------------------------------------------------------


def layers_of(family: str) -> list[torch.nn.Module]:
    """Those of a tiny random model."""
    torch.manual_seed(0)
    config = tiny_config(family)
    if family == "gemma4_text":
        config.enable_moe_block, config.num_experts, config.top_k_experts = True, 8, 2
        config.moe_intermediate_size = 64
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.normal_(0, 0.25)
    return list(find_layers(model))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_family_computes_the_same(family: str) -> None:
    found = [(layer, experts) for layer in layers_of(family) if (experts := find_experts(layer))]
    assert found, "a mixture"
    _, experts = found[-1]
    assert is_followed(experts)
    followed = FollowedExperts(experts, None, 0, Use())
    width = dict(experts.module.named_parameters())["down_proj"].shape[1 if not experts.module.is_transposed else 2]
    hidden = torch.randn(9, int(width))
    choice = torch.rand(9, experts.count).topk(2).indices
    weights = torch.rand(9, 2)
    stacks = {experts.prefix + name: stack for name, stack in experts.module.named_parameters()}
    ours = followed(hidden, choice, weights, lambda expert: {name: stacks[name][expert] for name in stacks})
    theirs = experts.module(hidden, choice, weights)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5 * float(theirs.abs().max()))


def test_experts_of_an_older_library_that_knows_no_norm_behind_them_are_followed_too() -> None:
    experts = next(found for layer in layers_of("qwen3_moe") if (found := find_experts(layer)))
    if hasattr(experts.module, "has_post_expert_norm"):
        del experts.module.has_post_expert_norm
    assert is_followed(experts)
    hidden, choice, weights = torch.randn(5, 64), torch.tensor([[0, 1]] * 5), torch.rand(5, 2)
    stacks = {experts.prefix + name: stack for name, stack in experts.module.named_parameters()}
    followed = FollowedExperts(experts, None, 0, Use())
    assert followed(hidden, choice, weights, lambda expert: {name: stacks[name][expert] for name in stacks}).shape == (
        5,
        64,
    )


@pytest.mark.parametrize("family", NOT_FOLLOWED)
def test_other_experts_keep_their_ways(family: str) -> None:
    assert not any((experts := find_experts(layer)) and is_followed(experts) for layer in layers_of(family))


def bfloats(rows: int, seed: int) -> Tensor:
    return torch.randn(rows, 64, generator=torch.Generator().manual_seed(seed)).bfloat16()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["one", "joined", "woven"])
def test_a_shared_call_gives_the_bits_of_single_ones(kind: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "WORTH_A_THREAD", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        chance = random.Random(5)
        counts = [chance.choice((1, 2, 5, 33, 40)) for _ in range(6)]
        x = torch.randn(sum(counts), 64)
        groups, expected, begin = [], [], 0
        for seed, count in enumerate(counts):
            parts = [plain(bfloats(40, seed + 100 * part)) for part in range(1 if kind == "one" else 2)]
            assert all(parts)
            whole = [part for part in parts if part]
            single = whole[0] if kind == "one" else (Joined(whole) if kind == "joined" else Alternating(whole))
            member = member_of(single)
            assert isinstance(member, Member)
            groups.append(Group(member, begin, begin + count))
            expected.append(single(x[begin : begin + count]))
            begin += count
        assert torch.equal(multiply(groups, x), torch.cat(expected))
    finally:
        torch.set_num_threads(before)


def test_outputs_are_added_up_in_the_order_of_the_choice() -> None:
    chance = torch.Generator().manual_seed(3)
    choice = torch.rand(5, 7, generator=chance).topk(3).indices
    pairs, weights = Pairs.of(choice), torch.rand(5, 3, generator=chance)
    experts = choice.flatten()[pairs.order]
    assert experts.tolist() == sorted(experts.tolist())
    for run in pairs.runs:
        assert set(experts[run.begin : run.end].tolist()) == {run.expert}
        assert pairs.rows[run.begin : run.end].tolist() == sorted(pairs.rows[run.begin : run.end].tolist())
    outputs = torch.randn(15, 33, generator=chance)
    by_row = {(int(row), int(expert)): out for row, expert, out in zip(pairs.rows, experts, outputs, strict=True)}
    expected = torch.zeros(5, 33)
    for row in range(5):
        for k in range(3):
            expected[row] += by_row[row, int(choice[row, k])] * weights[row, k]
    assert torch.equal(mixed(outputs, pairs.order, weights), expected)
    torch.testing.assert_close(weighted_sum(outputs, pairs.order, weights), expected)


@pytest.mark.parametrize("family", ["qwen3_moe", "mixtral", "gpt_oss"])
def test_one_row_alone_has_the_bits_that_it_has_beside_others(family: str) -> None:
    """Alone it is not copied for each of its experts, and its experts' biases are added all at once."""
    layers = find_layers(tiny_model(family, **WIDTHS[family]))
    experts = next(each for layer in layers if (each := find_experts(layer)))
    followed = FollowedExperts(experts, None, 8, Use())
    width = dict(experts.module.named_parameters())["down_proj"].shape[1 if not experts.module.is_transposed else 2]
    hidden, weights = torch.randn(3, int(width)), torch.rand(3, 2)
    choice = torch.tensor([[0, 3], [3, 1], [1, 0]])
    stacks = {
        experts.prefix + name: stack.bfloat16() if stack.ndim > 2 else stack
        for name, stack in experts.module.named_parameters()
    }

    def parts_of(expert: int) -> dict[str, Tensor]:
        return {name: stacks[name][expert] for name in stacks}

    together = followed(hidden, choice, weights, parts_of)
    for row in range(3):
        alone = slice(row, row + 1)
        own = followed(hidden[alone], choice[alone], weights[alone], parts_of)
        if experts.module.is_transposed:  # not multiplied as they are stored here, and torch's bits depend on rows
            torch.testing.assert_close(own, together[alone], rtol=1e-5, atol=1e-4)
        else:
            assert torch.equal(own, together[alone])
    lasting = [LastingParts(parts_of(expert)) for expert in range(4)]
    assert torch.equal(followed(hidden, choice, weights, lasting.__getitem__), together)


def test_layers_share_the_memory_for_what_they_decode(qwen: Mixture) -> None:
    stream = qwen.stream(qwen.layouts, ["ram"] * 4, few_rows=FEW_ROWS)
    assert stream._experts
    layers = [layer.followed for layer in stream._experts._layers.values() if layer.followed]
    assert len(layers) == 4
    assert len({id(layer._scratch) for layer in layers}) == 1
    assert set(stream.followed_modules) == {layer._module for layer in layers}
    one = layers[0]._scratch
    assert one.place((3, 4), torch.float32) is one.place((3, 4), torch.float32)
    assert one.place((3, 4), torch.bfloat16).dtype == torch.bfloat16
    stream.close()


def test_views_are_kept_of_layers_that_stay_and_of_no_others(qwen: Mixture) -> None:
    places: list[tuple[Tier, int]] = [("device", 4), ("ssd", 0)]
    for place, kept in places:
        stream = qwen.stream(
            qwen.layouts, [place] * 4, expert_cache_bytes=PLENTY, choose=lambda _: "whole", few_rows=64
        )
        for _ in range(3):
            passes(qwen.context)
            qwen.context.rewind(0)
        assert stream._experts
        views = stream._experts._views
        assert sum(len(own) > 0 for _, own in views.values()) == kept
        assert all(len(own) <= 8 for _, own in views.values()), "no more than a layer has experts"
        stream.close()


# ---- wherever they lie ----------------------------------------------------------------------------------------------

PLACES: list[list[Tier]] = [["ram"] * 4, ["ssd"] * 4, ["device", "ram", "ssd", "ssd"]]


def every_way(stream_of: Callable[[list[Tier], ExpertWay], LayerStream], context: Context) -> list[Tensor]:
    """Logits, which must be the same in all places and ways; some experts were multiplied as they are stored."""
    found: list[list[Tensor]] = []
    for tiers in PLACES:
        for way in ("whole", "single"):
            stream = stream_of(tiers, way)
            found.append(passes(context))
            use = stream.expert_use
            assert 0 < use.in_place < use.experts
            if tiers[-1] == "ssd":
                assert (sum(cache_use(stream)) > 0) == (way == "single")
            stream.close()
            context.rewind(0)
    for other in found[1:]:
        assert_same(other, found[0])
    return found[0]


def assert_near(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4 * float(other.abs().max()))


@pytest.mark.parametrize(
    ("family", "codec"),
    choose([("qwen3_moe", "cast")], [("qwen3_moe", "cast"), ("qwen3_moe", "nf4"), ("mixtral", "int8")]),
)
def test_prepared_experts_have_the_same_bits_in_every_way(family: str, codec: str, tmp_path: Path) -> None:
    model = made(family, codec, tmp_path)

    def stream_of(tiers: list[Tier], way: ExpertWay) -> LayerStream:
        return model.stream(
            model.layouts, tiers, None, expert_cache_bytes=PLENTY, choose=lambda _: way, few_rows=FEW_ROWS
        )

    assert_near(every_way(stream_of, model.context), model.expected)


def of_file(family: str, kind: str, folder: Path) -> Checkpoint:
    if kind == "mxfp4":
        return packed_model(folder, family, kind)[0]
    model = tiny_model(family, **WIDTHS[family])
    return open_checkpoint(str(write_gguf(folder / "m.gguf", model, kind)))


@pytest.mark.parametrize(
    ("family", "kind"),
    choose(
        [("gpt_oss", "BF16")],
        [
            ("gpt_oss", "BF16"),
            ("gpt_oss", "MXFP4"),
            ("qwen3_moe", "Q4_0"),
            ("mixtral", "Q8_0"),
            ("gpt_oss", "mxfp4"),
        ],
    ),
)
def test_packed_experts_have_the_same_bits_in_every_way(family: str, kind: str, tmp_path: Path) -> None:
    checkpoint = of_file(family, kind, tmp_path)
    streamable = build_streamable(checkpoint, torch.float32, CPU)
    stored = stored_layers(streamable)
    layers = list(streamable.network.layers)

    def stream_of(tiers: list[Tier], way: ExpertWay) -> LayerStream:
        options = StreamOptions(expert_cache_bytes=PLENTY, choose=lambda _: way, few_rows=FEW_ROWS)
        stream = LayerStream(layers, stored.layouts, tiers, stored.decoders, None, options)
        assert sorted(stream.load()) == list(range(len(layers)))
        return stream

    context = Context(streamable.network, 160)
    found = every_way(stream_of, context)
    stream = LayerStream(layers, stored.layouts, ["ram"] * 4, stored.decoders, None, StreamOptions())
    list(stream.load())
    assert_near(found, passes(context))
    stream.close()


def test_nothing_of_it_is_left_when_the_stream_is_closed(qwen: Mixture) -> None:
    module = qwen.streamable.network.layers[0].mlp.experts  # type: ignore[union-attr]
    before = {name: tensor.shape for name, tensor in module.named_parameters()}  # type: ignore[union-attr]
    stream = qwen.stream(qwen.layouts, ["ram"] * 4, few_rows=FEW_ROWS)
    assert "forward" in vars(module)
    stream.close()
    assert "forward" not in vars(module)
    assert {name: tensor.shape for name, tensor in module.named_parameters()} == before  # type: ignore[union-attr]


def test_an_expert_that_cannot_be_read_fails_the_pass_with_a_sentence(tmp_path: Path) -> None:
    model = made("qwen3_moe", "cast", tmp_path)
    stream = model.stream(
        model.layouts, ["ssd"] * 4, expert_cache_bytes=PLENTY, choose=lambda _: "single", few_rows=FEW_ROWS
    )
    path = tmp_path / "2.safetensors"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ModelError, match=r"2\.safetensors.*\."):
        passes(model.context)
    stream.close()


@pytest.mark.parametrize("way", ["whole", "single", "computed"])
@pytest.mark.parametrize("place", ["device", "ssd"])
def test_a_pass_that_is_cancelled_in_a_layer_runs_no_other(way: ExpertWay, place: Tier, qwen: Mixture) -> None:
    stream = qwen.stream(qwen.layouts, [place] * 4, expert_cache_bytes=PLENTY, choose=lambda _: way, few_rows=FEW_ROWS)
    stopped, ran = threading.Event(), []
    hooks = []

    def between_layers() -> None:
        if stopped.is_set():
            raise Cancelled

    context = Context(qwen.streamable.network, 160, between_layers)
    for number, layer in enumerate(qwen.streamable.network.layers):
        experts = find_experts(layer)
        assert experts

        def note(_module: object, _inputs: object, _output: object, number: int = number) -> None:
            ran.append(number)
            if number == 1:
                stopped.set()  # as a command that comes while the layer computes

        hooks.append(experts.module.register_forward_hook(note))
    with pytest.raises(Cancelled):
        context.score([5, 6, 7], [-1, 0, 0])
    assert ran == [0, 1]
    for hook in hooks:
        hook.remove()
    stopped.clear()
    context.rewind(0)
    assert_near(passes(context), qwen.expected)
    stream.close()


# ---- beside a device ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cached", [0, 9, 40])
def test_the_processor_computes_what_the_device_has_not(cached: int, qwen: Mixture) -> None:
    """And twice the same bits, whenever copies arrive."""
    found = []
    for seed in (1, 2):
        copies = StandInCopyStream(seed)
        allowed = cached * qwen.slot_bytes()
        stream = qwen.stream(
            qwen.layouts, ["ram"] * 4, copies, expert_cache_bytes=allowed, choose=lambda _: "computed",
            host_rows=FEW_ROWS,
        )  # fmt: skip
        found.append(passes(qwen.context))
        use, (hits, misses) = stream.expert_use, cache_use(stream)
        assert 0 < use.in_place <= misses
        assert use.experts == hits + misses
        assert (hits > 0) == (cached > 0)
        stream.close()
        qwen.context.rewind(0)
    assert_same(found[0], found[1])
    assert_near(found[0], qwen.expected)


def test_any_mix_of_ways_and_places_computes_the_same_beside_a_device(qwen: Mixture) -> None:
    for seed in range(choose(2, 8)):
        chance = random.Random(seed)
        tiers: list[Tier] = [chance.choice(("device", "ram", "ram", "ssd")) for _ in range(4)]
        allowed = chance.choice((0, 12, 32)) * qwen.slot_bytes()
        stream = qwen.stream(
            qwen.layouts, tiers, StandInCopyStream(seed), expert_cache_bytes=allowed, host_rows=chance.choice((2, 64)),
            choose=lambda _, chance=chance: chance.choice(WAYS), trunks_stay=bool(seed % 2),
        )  # fmt: skip
        assert_near(passes(qwen.context), qwen.expected)
        stream.close()
        qwen.context.rewind(0)


def test_a_copy_that_fails_beside_the_processor_is_raised_and_the_next_pass_is_right(qwen: Mixture) -> None:
    copies, allowed = StandInCopyStream(fails_from=31), 9 * qwen.slot_bytes()
    stream = qwen.stream(
        qwen.layouts, ["ram"] * 4, copies, expert_cache_bytes=allowed, choose=lambda _: "computed", host_rows=FEW_ROWS
    )
    with pytest.raises(RuntimeError, match="copy engine failed"):
        passes(qwen.context)
    copies.fails_from = None
    qwen.context.rewind(0)
    assert_near(passes(qwen.context), qwen.expected)
    stream.close()


def test_an_answer_may_be_cancelled_while_experts_are_brought(qwen: Mixture) -> None:
    stream = qwen.stream(
        qwen.layouts, ["ram"] * 4, StandInCopyStream(), expert_cache_bytes=9 * qwen.slot_bytes(),
        choose=lambda _: "computed", host_rows=FEW_ROWS,
    )  # fmt: skip
    calls = 0

    def work() -> bool:
        nonlocal calls
        calls += 1
        if calls == 20:
            raise Cancelled
        return True

    stream.on_wait = work
    with pytest.raises(Cancelled):
        pass_upon_pass(qwen.context)
    stream.on_wait = None
    qwen.context.rewind(0)
    assert_near(passes(qwen.context), qwen.expected)
    stream.close()


# ---- what routers chose ---------------------------------------------------------------------------------------------


def test_the_record_is_what_the_routers_chose_in_the_last_pass(qwen: Mixture) -> None:
    seen: dict[int, Tensor] = {}
    for number, layer in enumerate(qwen.streamable.network.layers):
        experts = find_experts(layer)
        assert experts
        experts.module.register_forward_pre_hook(
            lambda _module, inputs, number=number: seen.update({number: inputs[1]}), prepend=True
        )
    for few_rows in (0, FEW_ROWS):
        stream = qwen.stream(
            qwen.layouts, ["ssd"] * 4, expert_cache_bytes=PLENTY, choose=lambda _: "single", few_rows=few_rows
        )
        record = stream.routing
        assert isinstance(record, RoutingRecord)
        assert (record.layers, record.count) == ((0, 1, 2, 3), 8)
        assert record.chosen(0).numel() == 0
        passes(qwen.context)
        for index in record.layers:
            assert record.chosen(index).shape == (8, 2)
            assert torch.equal(record.chosen(index), seen[index])
        stream.close()
        qwen.context.rewind(0)

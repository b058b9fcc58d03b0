"""Everything that runs in an answer, on a device that is not the host: no operation mixes the two."""

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import accelerator
from engine.loading.stored_layers import StoredLayers, in_shards
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.device import choose_device
from engine.model.heads.eagle import load_eagle, recorded_layers
from engine.model.heads.head_context import HeadContext
from engine.model.heads.hidden_states import HiddenStates
from engine.model.heads.multi_token import head_of, load_head
from engine.model.network import Network, wrap
from engine.model.passes.slot_forms import EIGHT_BITS
from engine.model.streamable_network import build_streamable, load_layerwise
from engine.protocol.options import SamplingOptions
from engine.speculation.interfaces import Fixed, Method, Scorer
from engine.speculation.methods.lookup import Lookup
from engine.speculation.methods.rng import Rng
from engine.speculation.methods.sampled_trees import Drafting
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from engine.speculation.translation import TranslatedDraft, translation_of
from engine.weights.codecs.codec import codec_named
from engine.weights.planning.arrangement import Tier
from engine.weights.streaming.copy_stream import CudaCopyStream
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from tests.campaigns.extent import choose
from tests.engine.eagle_heads import write_head
from tests.engine.family_models import save_tiny
from tests.engine.gguf_files import write_gguf
from tests.engine.head_models import save_with_head
from tests.engine.model.gguf.test_contents import WIDE, make
from tests.engine.model.state.test_hybrid_context import PROMPT, path_to, random_tree
from tests.engine.packed_models import packed_model
from tests.engine.played_gpu import CUDA, HOST, WrongDeviceError, moved, on_host, played_gpu
from tests.engine.played_streams import PlayedEvent, PlayedStream
from tests.engine.speculation.pairs import GREEDY, PUBLISHED, Silent, noisy_copy
from tests.engine.speculation.sampled import METHODS
from tests.engine.tiny_models import save_tiny_model, tiny_network
from tests.engine.weights.slot_watch import OutOfTimeError
from tests.engine.weights.test_layer_stream import pack

SAMPLED = SamplingOptions(temperature=0.9, top_p=0.95, top_k=40, repetition_penalty=1.2, seed=3)
LOOKED_UP = SamplingOptions(
    temperature=1.1, dry_multiplier=2.0, dry_allowed_length=0, xtc_probability=0.5, xtc_threshold=0.02, seed=5
)
FAMILIES = choose(
    ("glm_moe_dsa",),  # a hybrid is below, with a head
    ("llama", "gemma3_text", "phi3", "gpt_oss", "qwen3_5_text", "jamba", "mamba2", "lfm2", "glm_moe_dsa",
     "qwen4_exp_text", "gemma3n_text", "llama4_text", "kimi_linear", "falcon_h1", "minimax", "minimax_m3_vl",
     "glm5_next", "deepseek_v4"),
)  # fmt: skip

# Tables that the engine keeps for every device would stay behind for tests of a real one.
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a real GPU, which other tests are for")


def test_no_attention_is_planned_anew_for_every_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "find", lambda: torch.device("cuda"))
    torch.backends.cuda.enable_cudnn_sdp(True)
    assert choose_device("cpu").type == "cpu"
    assert torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]  # of torch
    assert choose_device("auto").type == "cuda"
    assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]  # of torch
    torch.backends.cuda.enable_cudnn_sdp(True)


def loaded(checkpoint: Checkpoint, device: torch.device) -> Network:
    steps = load_layerwise(checkpoint, torch.float32, device)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            network: Network = end.value
            return network


def passes(context: Context) -> list[Tensor]:
    """Logits of all that a context is asked for."""
    context.prefill(PROMPT)
    tokens, parents = random_tree(16, seed=1)
    found = [context.score(tokens, parents)]
    path = path_to(15, parents)[:2]
    rest = [node for node in range(16) if node not in path and path_to(node, parents)[: len(path)] == path]
    context.keep(path, rest)
    more, above = random_tree(9, seed=2)
    found.append(context.score(more, [-1 if parent < 0 else parent + len(rest) for parent in above]))
    context.rewind(len(PROMPT) - 3)
    found.append(context.score(more, above))
    context.keep([0])
    context.prefill([*PROMPT[:-5], 3, 4, 5])
    found.append(context.score([7], [-1]))
    context.keep([0])
    kept = context.copied_text()
    assert {part.device.type for layer in kept.slots for part in layer.values()} <= {"cpu"}
    context.prefill([9, 8, 7])
    context.restore(kept, context.common_with(kept, kept.tokens))
    assert context.length == len(PROMPT) - 1
    found.append(context.score([8], [-1]))
    return [on_host(logits) for logits in found]


@pytest.mark.parametrize("family", FAMILIES)
def test_contexts_of_every_kind_compute_the_same(family: str, tmp_path: Path) -> None:
    save_tiny(family, tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    expected = passes(Context(loaded(checkpoint, HOST), 64))
    with played_gpu():
        found = passes(Context(loaded(checkpoint, CUDA), 64))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4 * float(other.abs().max()))


def test_keys_and_values_in_8_bits_stay_on_the_device(tmp_path: Path) -> None:
    save_tiny("llama", tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    expected = passes(Context(loaded(checkpoint, HOST), 64, form=EIGHT_BITS))
    with played_gpu() as gpu:
        context = Context(loaded(checkpoint, CUDA), 64, form=EIGHT_BITS)
        found = passes(context)
        gpu.forget()
        context.score([5, 6, 7], [-1, 0, 0])
        context.keep([0, 2])
        assert sum(gpu.syncs.values()) <= 1, gpu.places
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4 * float(other.abs().max()))


def tiny_pair(device: torch.device) -> tuple[Network, Network]:
    """A target and a draft that often agrees with it."""
    both = tiny_network("llama", num_hidden_layers=2), noisy_copy("llama", num_hidden_layers=2)
    if device == HOST:
        return both
    target, draft = (wrap(moved(network.model), network.attention, "tiny") for network in both)
    return target, draft


def method_of(name: str, draft: Scorer, sampling: SamplingOptions, device: torch.device) -> Method:
    sampler = Sampler(sampling, PROMPT, Uniforms(sampling.seed))
    if name == "specexec":
        return SpecExec(draft, sampler, PUBLISHED, 131)
    if name == "lookup":
        return Lookup(SpecExec(draft, sampler, PUBLISHED, 131), name)
    return METHODS[name](Drafting(draft, sampler, sampling, PROMPT, 131, Rng(sampling.seed, device)))


def text_of(name: str, sampling: SamplingOptions, device: torch.device) -> list[int]:
    """An answer, with idle work in between."""
    target, draft = (Context(network, 128) for network in tiny_pair(device))
    method = method_of(name, draft, sampling, device)
    target.prefill(PROMPT[:-1])
    method.prefill(PROMPT[:-1])
    answer = Answer(Silent(), frozenset(), 5)
    parts = Speculation(target, Fixed(method, 6), answer, Stopwatch())
    for _ in rounds(parts, PROMPT):
        parts.keep_drafting()
    return answer.tokens


@pytest.mark.parametrize(
    ("name", "sampling"),
    choose(
        [("lookup", GREEDY), ("specinfer", SAMPLED), ("sequoia", LOOKED_UP)],
        list(product(["specexec", "lookup", *METHODS], (GREEDY, SAMPLED, LOOKED_UP))),
    ),
)
def test_every_method_writes_the_same_text(name: str, sampling: SamplingOptions) -> None:
    expected = text_of(name, sampling, HOST)
    with played_gpu():
        assert text_of(name, sampling, CUDA) == expected


# ---- weights that arrive --------------------------------------------------------------------------------------------


def streamed(
    checkpoint: Checkpoint, folder: Path, device: torch.device, codec: str | None, **options: Any
) -> list[Tensor]:
    """Logits over layers that come through a copy stream, as the engine has it for a GPU; `codec`: of prepared ones."""
    streamable = build_streamable(checkpoint, torch.float32, device)
    stored = None if codec else in_shards(streamable.converter)
    if stored is None:
        folder.mkdir(exist_ok=True)
        layouts = pack(build_streamable(checkpoint, torch.float32, HOST), folder, codec or "plain")
        stored = StoredLayers(layouts, [codec_named(codec)] * len(layouts) if codec else None)
    tiers: list[Tier] = ["device", "ssd", "ram", "ssd"][-len(stored.layouts) :]  # type: ignore[assignment]
    stream = LayerStream(
        list(streamable.network.layers), stored.layouts, tiers, stored.decoders,
        CudaCopyStream(device) if device == CUDA else None, StreamOptions(choose=lambda _at: "single", **options),
    )  # fmt: skip
    try:
        list(stream.load())
        return passes(Context(streamable.network, 64))
    finally:
        stream.close()


def llama(folder: Path) -> Checkpoint:
    save_tiny_model("llama", folder)
    return open_checkpoint(str(folder))


def mixture(folder: Path) -> Checkpoint:
    save_tiny_model("qwen3_moe", folder, num_hidden_layers=2)
    return open_checkpoint(str(folder))


def gguf(folder: Path) -> Checkpoint:
    folder.mkdir()
    return open_checkpoint(str(write_gguf(folder / "m.gguf", make("llama", **WIDE), "Q4_K")))


def packed(family: str, kind: str, folder: Path) -> Checkpoint:
    return packed_model(folder, family, kind)[0]


STREAMED: dict[str, tuple[Callable[[Path], Checkpoint], str | None, int]] = {
    "as stored": (llama, None, 0),
    "nf4": (llama, "nf4", 0),
    "int8": (llama, "int8", 0),
    "cast": (llama, "cast", 0),
    "single experts": (mixture, None, 1 << 22),
    "single experts in nf4": (mixture, "nf4", 1 << 22),
    "experts in whole layers": (mixture, None, 0),
    "gguf": (gguf, None, 0),
    "fp8": (partial(packed, "llama", "blocks"), None, 0),
    "single experts in fp8": (partial(packed, "qwen3_moe", "tensor"), None, 1 << 22),
    "mxfp4": (partial(packed, "gpt_oss", "mxfp4"), None, 1 << 22),
}


@pytest.mark.parametrize("name", choose(["single experts in nf4"], list(STREAMED)))
def test_layers_that_stream_to_the_device_compute_the_same(name: str, tmp_path: Path) -> None:
    make_one, codec, cache_bytes = STREAMED[name]
    checkpoint = make_one(tmp_path / "model")
    expected = streamed(checkpoint, tmp_path / "layers", HOST, codec, expert_cache_bytes=cache_bytes)
    with played_gpu():
        found = streamed(
            checkpoint, tmp_path / "layers", CUDA, codec, expert_cache_bytes=cache_bytes, trunks_stay=cache_bytes > 0
        )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4 * float(other.abs().max()))


def test_an_event_that_is_too_early_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's own copies, of which every one would run into what is still computed."""
    record = PlayedEvent.record

    def record_too_early(event: PlayedEvent, stream: PlayedStream | None = None) -> None:
        record(event, stream)
        event.passed = 0

    monkeypatch.setattr(PlayedEvent, "record", record_too_early)
    with played_gpu(), pytest.raises(OutOfTimeError, match="overtakes the computation"):
        streamed(llama(tmp_path / "model"), tmp_path, CUDA, None)


def test_bytes_that_do_not_arrive_are_no_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlayedStream, "finish", lambda _stream, _copies: None)
    with played_gpu():
        found = streamed(llama(tmp_path / "model"), tmp_path, CUDA, None)
    assert all(bool(logits.isnan().all()) for logits in found)


# ---- drafts of other kinds ------------------------------------------------------------------------------------------


def head_rounds(host: Context, head: HeadContext) -> list[Tensor]:
    """What a head guesses, from what the target read and from its own guesses."""
    found = []
    host.prefill(PROMPT)
    for seed in range(2):
        head.prefill(PROMPT if not seed else [*PROMPT, 5])
        found.append(head.score([5, 7, 9, 11], [-1, 0, 0, 1]))
        found.append(head.score([3, 4], [1, 3]))
        host.score([5, 6], [-1, 0])
        head.keep([0, 1])
        host.keep([0])
    return [on_host(logits) for logits in found]


def multi_token(folder: Path, device: torch.device) -> tuple[Context, HeadContext]:
    if not folder.exists():
        save_with_head("qwen3_5_text", folder)
    checkpoint = open_checkpoint(str(folder))
    network = loaded(checkpoint, device)
    host, hidden = Context(network, 64), HiddenStates(network, 64)
    host.record(hidden)
    return host, HeadContext(load_head(head_of(checkpoint), checkpoint, network), host, hidden, 64)


def eagle(folder: Path, device: torch.device) -> tuple[Context, HeadContext]:
    if not folder.exists():
        save_tiny_model("llama", folder)
        write_head(folder / "head")
    checkpoint, head = (open_checkpoint(str(each)) for each in (folder, folder / "head"))
    network = loaded(checkpoint, device)
    host, hidden = Context(network, 64), HiddenStates(network, 64, recorded_layers(head, checkpoint))
    host.record(hidden)
    return host, HeadContext(load_eagle(head, network), host, hidden, 64)


@pytest.mark.parametrize("made", [multi_token, eagle])
def test_heads_guess_the_same(made: Callable[..., tuple[Context, HeadContext]], tmp_path: Path) -> None:
    expected = head_rounds(*made(tmp_path / "model", HOST))
    with played_gpu():
        found = head_rounds(*made(tmp_path / "model", CUDA))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4 * float(other.abs().max()))


def translated_passes(device: torch.device) -> list[Tensor]:
    """A draft that knows 100 of the target's tokens, and reads the others as two of its own."""
    _, draft = tiny_pair(device)
    common = {token: 99 - token for token in range(100)}
    others = {token: (token % 7, token % 11) for token in range(100, 131)}
    spelled = {token: (own,) for token, own in common.items()} | others
    translation = translation_of(common, spelled.__getitem__, (), 131, 131, device)
    scorer = TranslatedDraft(Context(draft, 128), translation)
    scorer.prefill(PROMPT)
    found = [scorer.score([120, 7, 130], [-1, 0, 0])]
    scorer.keep([0], [2])
    return [on_host(logits) for logits in (*found, scorer.score([9], [0]))]


def test_a_draft_with_another_vocabulary_guesses_the_same() -> None:
    expected = translated_passes(HOST)
    with played_gpu():
        found = translated_passes(CUDA)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4 * float(other.abs().max()))


# ---- what the device shows ------------------------------------------------------------------------------------------


def test_what_a_device_refuses_and_what_the_host_waits_for() -> None:
    with played_gpu() as gpu:
        here, there = torch.ones(3, device=CUDA), torch.ones(3)
        assert (here.device, (here * 2).device, there.device) == (CUDA, CUDA, HOST)
        for mixes in (torch.add, torch.dot, torch.maximum):
            with pytest.raises(WrongDeviceError, match=r"device \(3,\), host \(3,\)"):
                mixes(here, there)
        with pytest.raises(WrongDeviceError, match="numpy"):
            here.numpy()
        assert on_host(here + torch.tensor(1.0)).tolist() == [2, 2, 2], "a single number may come from anywhere"
        gpu.forget()
        assert (here.sum().item(), here.tolist(), here.cpu().tolist()) == (3, [1, 1, 1], [1, 1, 1])
        assert sum(gpu.syncs.values()) == 3
        assert gpu.uploads == {}


@pytest.mark.parametrize("family", ["llama", "jamba", *choose((), ("qwen3_5_text", "lfm2", "glm_moe_dsa"))])
def test_a_pass_waits_for_the_device_once(family: str, tmp_path: Path) -> None:
    save_tiny(family, tmp_path)
    with played_gpu() as gpu:
        context = Context(loaded(open_checkpoint(str(tmp_path)), CUDA), 64)
        context.prefill(PROMPT)
        gpu.forget()
        context.score([5, 6, 7, 8], [-1, 0, 0, 2])
        context.keep([0, 2], rest=[3])
        assert sum(gpu.syncs.values()) <= 1, gpu.places


def test_a_text_in_place_is_written_before_other_streams_read_it(tmp_path: Path) -> None:
    with played_gpu():
        stream, target = PlayedStream(), torch.zeros(1)
        context = Context(loaded(llama(tmp_path / "model"), CUDA), 64, stream=stream)
        context.prefill(PROMPT)
        stream.copy(torch.ones(1), target)  # as slots that `keep` moves: it waits for nothing
        context.text_in_place()
        assert target.item() == 1

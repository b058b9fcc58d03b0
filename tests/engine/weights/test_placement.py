"""Plans that were computed by hand, and what they say about themselves."""

from dataclasses import replace

import pytest

from engine.errors import InputError
from engine.protocol.options import Place
from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.machine import GIB, Machine, Memory, Rates, Rings
from engine.weights.planning.needs import Codec, Layer, ModelNeeds, PassShape, Workload
from engine.weights.planning.placement import Override, plan
from engine.weights.planning.usual_rates import CPU_RATES, GPU_RATES
from engine.weights.streaming.layer_stream import StreamOptions

MIB = 1 << 20


def model(
    count: int = 80, parameters: int = 855_654_400, codec: Codec = "plain", stored_bits: float = 16
) -> ModelNeeds:
    """Llama 3 70B in bfloat16, unless said otherwise: 80 layers of 1.6 GiB, 320 KiB of cache per token."""
    layer = Layer(int(parameters * stored_bits / 8), 2 * parameters, parameters, parameters)
    shape = PassShape(128256, 8192, 64, 8192, 28672, value_bytes=2)
    return ModelNeeds(codec, (layer,) * count, rest_bytes=2 * 2 * 128256 * 8192, kv_bytes=count * 4096, shape=shape)


def small_model() -> ModelNeeds:
    """Llama 3.2 1B in bfloat16."""
    layer = Layer(121_643_008, 121_643_008, 60_821_504, 60_821_504)
    shape = PassShape(128256, 2048, 32, 2048, 8192, value_bytes=2)
    return ModelNeeds("plain", (layer,) * 16, rest_bytes=2 * 128256 * 2048, kv_bytes=16 * 2048, shape=shape)


def gpu(vram: float, ram: float, rates: Rates = GPU_RATES) -> Machine:
    """A card with so many GiB free, in a machine with so many GiB of RAM free."""
    return Machine(Memory(int(ram * GIB), vram_free=int(vram * GIB), has_gpu=True), rates)


def cpu(ram: float) -> Machine:
    return Machine(Memory(int(ram * GIB)), CPU_RATES)


# ---- by hand --------------------------------------------------------------------------------------------------------

WORK = Workload(context_tokens=8192, budget=256, tokens_per_pass=16.0)


def test_70b_in_16_bits_on_24_and_64_gib_comes_from_ssd() -> None:
    found = plan(model(), small_model(), gpu(24, 64), WORK)
    layer = 1_711_308_800
    # 64 GiB of RAM less three slots of the SSD's ring hold 37 layers; the card what the fixed parts leave of it.
    kv = (8192 + 1025) * 80 * 4096
    assert found.bytes.kv == kv
    assert found.bytes.rest == 2 * 128256 * 8192 * 2
    assert found.bytes.ring == 2 * layer
    assert found.bytes.transit == 3 * layer
    assert found.bytes.ram_layers == 37 * layer
    on_device = (24 * GIB - kv - found.bytes.rest - found.bytes.buffers - found.bytes.draft - 2 * layer) // layer
    assert found.arrangement.count("device") == on_device == 6
    assert found.arrangement.count("ram") == 37
    assert found.arrangement.count("ssd") == 37
    assert found.verdict == "ssd"
    assert found.reason == "6 of 80 layers stay on the GPU; 37 stream from RAM, 37 stream from SSD."
    assert found.forecast.seconds_per_pass == pytest.approx(37 * layer / 2e9)
    assert found.forecast.tokens_per_second == pytest.approx(16 / (37 * layer / 2e9))


def test_70b_in_16_bits_with_enough_ram_runs_at_the_speed_of_the_link() -> None:
    """SpecExec publishes 5.45 s for such a pass, of Llama 2 70B on PCIe 4.0 (arXiv 2406.02532)."""
    found = plan(model(), small_model(), gpu(24, 192), WORK)
    assert found.verdict == "offload"
    assert found.forecast.seconds_per_pass == pytest.approx(74 * 1_711_308_800 / 22e9)
    assert 5.0 < found.forecast.seconds_per_pass < 6.0
    assert found.forecast.draft_seconds > 0
    assert found.forecast.seconds_per_round == found.forecast.seconds_per_pass, "drafting hides behind the link"


def test_70b_in_4_bits_needs_a_scratch_layer_and_fits_more() -> None:
    found = plan(model(codec="nf4", stored_bits=4.13), small_model(), gpu(24, 64), WORK)
    assert found.bytes.scratch == 1_711_308_800
    assert found.verdict == "offload"
    assert found.arrangement.count("device") > 20
    assert not found.arrangement.ready


def test_a_model_that_fits_is_decoded_once_and_for_good() -> None:
    found = plan(small_model(), None, gpu(24, 16), Workload(8192))
    assert (found.verdict, found.arrangement.ready) == ("device", True)
    assert found.bytes.ring == found.bytes.scratch == found.bytes.ssd == 0
    assert found.bytes.transit == 121_643_008, "one layer at a time passes through RAM while it is loaded"
    assert found.reason == "All 16 layers fit on the GPU."


def test_without_a_gpu_ram_is_the_device_and_the_rest_comes_from_ssd() -> None:
    found = plan(model(), None, cpu(64), Workload(8192))
    assert found.arrangement.count("ram") == 0
    assert found.verdict == "ssd"
    assert found.bytes.ring == found.forecast.link_seconds == 0
    taken = found.bytes.device + found.bytes.ram
    assert 62 * GIB < taken <= 64 * GIB
    assert found.reason == f"{found.arrangement.count('device')} of 80 layers stay in memory; " + (
        f"{found.arrangement.count('ssd')} stream from SSD."
    )


def test_numbers_cast_once_fit_twice_as_often_when_cast_for_every_pass() -> None:
    """A 16-bit checkpoint that computes in float32: ready it takes 20 GiB, as it is stored 10 and a layer."""
    layer = Layer(GIB, 2 * GIB, GIB // 2, GIB // 2)
    wide = ModelNeeds("cast", (layer,) * 10, 0, 1024, PassShape(1000, 64, 4, 64, 128, value_bytes=4))
    roomy, narrow = (plan(wide, None, cpu(ram), Workload(512)) for ram in (21, 13))
    assert (roomy.verdict, roomy.arrangement.ready, roomy.bytes.scratch) == ("device", True, 0)
    assert (narrow.verdict, narrow.arrangement.ready, narrow.bytes.scratch) == ("device", False, 2 * GIB)
    assert roomy.layer_bytes == (2 * GIB,) * 10
    assert narrow.layer_bytes == (GIB,) * 10


def test_what_does_not_fit_says_what_it_would_take() -> None:
    found = plan(model(), small_model(), gpu(8, 64), WORK)
    assert (found.verdict, found.fits) == ("no", False)
    assert found.reason.startswith("13.5 GiB of GPU memory would be needed (3.9 GiB for embeddings and head, 3.2 GiB")
    assert found.reason.endswith("but 8.0 GiB may be used.")
    short_of_ram = plan(model(), small_model(), gpu(24, 2), WORK)
    assert short_of_ram.verdict == "no"
    assert "4.8 GiB of RAM would be needed (4.8 GiB for layers in transit through RAM)" in short_of_ram.reason


def test_a_limit_on_the_device_bounds_it_without_a_gpu_too() -> None:
    found = plan(small_model(), None, cpu(16), Workload(1024), Override(vram_limit=2 * GIB))
    assert found.verdict == "offload"
    assert found.bytes.device <= 2 * GIB
    assert (
        found.forecast.seconds_per_pass == plan(small_model(), None, cpu(16), Workload(1024)).forecast.seconds_per_pass
    )


def test_layers_that_stay_stored_take_what_was_measured_of_them_and_no_decoding() -> None:
    shape = small_model().shape
    weights = sum(layer.elements for layer in small_model().layers) + shape.vocabulary * shape.hidden  # the head, too
    slow = PassTime((1.0, 64.0), (1.0, 4.0))
    for rows, seconds in ((1, 1.0), (64, 4.0)):
        machine = replace(cpu(16), rates=replace(cpu(16).rates, stored=slow, products=PassTime((1.0,), (1e-9,))))
        kept = plan(replace(small_model(), codec="cast", stays_stored=True), None, machine, Workload(64, rows - 1))
        assert not kept.arrangement.ready
        assert kept.forecast.compute_seconds == pytest.approx(weights / 1e9 * seconds, rel=0.2)


def test_overrides_are_obeyed_or_refused() -> None:
    for place in ("ram", "ssd"):
        found = plan(model(), small_model(), gpu(24, 192), WORK, Override(place=place))
        assert set(found.arrangement.tiers) == {place}
        assert found.fits
    refused = plan(model(), small_model(), gpu(24, 192), WORK, Override(place="device"))
    assert (refused.verdict, refused.fits) == ("no", False)
    assert "127.5 GiB for layers" in refused.reason
    forced = plan(model(), small_model(), gpu(24, 192), WORK, Override(place="device", force=True))
    assert (forced.verdict, forced.fits) == ("device", False)
    assert forced.reason == refused.reason


def test_places_for_another_model_are_refused() -> None:
    with pytest.raises(InputError, match="Places for 3 layers are given, but the model has 80"):
        plan(model(), None, gpu(24, 64), WORK, Override(tiers=("device", "ram", "ssd")))


def test_the_hidden_states_of_a_whole_prompt_are_counted_where_layers_stream() -> None:
    wide = replace(model(), carried_bytes=4 << 20)
    cases: tuple[tuple[Place, int], ...] = (("ssd", 8192), ("ram", 8192), ("device", 0))
    for place, counted in cases:
        override = Override(place=place, force=True)
        before, after = (plan(each, None, gpu(24, 192), Workload(8192), override).bytes for each in (model(), wide))
        assert after.buffers - before.buffers == counted * wide.carried_bytes
        assert after.device - before.device == after.buffers - before.buffers
    short = Workload(512)  # one chunk: nothing is carried on
    assert plan(wide, None, gpu(24, 192), short).bytes == plan(model(), None, gpu(24, 192), short).bytes


def test_rings_are_as_long_as_those_of_the_stream() -> None:
    assert Rings() == Rings(StreamOptions().disk_slots, StreamOptions().device_slots)

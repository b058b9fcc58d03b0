"""Estimates as the dialog gets them: in view first, anew when the terms change, none lost with an engine; in words."""

from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.library.estimates import Estimator, Pricing, Terms, in_words, rate_text
from app.library.picker import entry
from app.library.picker.details import describe_tiers
from engine.protocol.messages import PROTOCOL, Appraise, Appraised, LayersAt, Ready
from engine.protocol.sentences import say
from tests.app.fake_link import FakeLink

A, B, C = (Pricing(key, f"/models/{key}") for key in "abc")
TIERS = (LayersAt("device", 10, 1 << 30),)


@pytest.fixture
def estimator(link: FakeLink) -> Estimator:
    made = Estimator(link)
    link.events_arrived.connect(made.on_events)
    link.engine_stopped.connect(made.on_engine_stopped)
    return made


@pytest.fixture
def priced(estimator: Estimator) -> list[str]:
    """The keys of what was priced, in order."""
    keys: list[str] = []
    estimator.priced.connect(lambda key, _found: keys.append(key))
    return keys


def asked(link: FakeLink) -> list[str]:
    return [each.options.target[-1] for each in link.sent if isinstance(each, Appraise)]


def answer(link: FakeLink) -> None:
    """Answer the newest question."""
    request = [each for each in link.sent if isinstance(each, Appraise)][-1]
    link.answer(Appraised(request.id, "device", "All fit.", "cuda", TIERS, tokens_per_second=9))


def test_one_question_at_a_time_in_the_order_of_the_view(
    qtbot: QtBot, link: FakeLink, estimator: Estimator, priced: list[str]
) -> None:
    estimator.show([A, B, C])
    assert asked(link) == ["a"]
    answer(link)
    estimator.show([C, B])
    answer(link)
    answer(link)
    assert asked(link) == ["a", "b", "c"], "what is under way is finished, then what is in view now"
    assert priced == ["a", "b", "c"]
    estimator.show([A, B, C])
    assert len(asked(link)) == 3, "what is known is not asked again"
    found = estimator.price(A)
    assert found is not None
    assert found.tokens_per_second == 9


def test_new_terms_price_everything_in_view_anew(
    qtbot: QtBot, link: FakeLink, estimator: Estimator, priced: list[str]
) -> None:
    estimator.show([A, B])
    terms = Terms("nf4", 32_000, 128, device="cpu", vram_limit_bytes=5, ram_limit_bytes=6, kv="fit", activations="int8")
    estimator.set_terms(terms)
    answer(link)
    assert priced == [], "an answer to the old terms is none"
    answer(link)
    answer(link)
    assert (asked(link), priced) == (["a", "a", "b"], ["a", "b"])
    last = link.sent[-1]
    assert isinstance(last, Appraise)
    assert (last.options.weights, last.options.context_tokens, last.options.budget) == ("nf4", 32_000, 128)
    assert (last.options.kv, last.options.activations) == ("fit", "int8")
    assert (last.options.device, last.options.vram_limit_bytes, last.options.ram_limit_bytes) == ("cpu", 5, 6)
    estimator.set_terms(terms)
    assert len(asked(link)) == 3


def test_an_engine_that_dies_loses_no_question(
    qtbot: QtBot, link: FakeLink, estimator: Estimator, priced: list[str]
) -> None:
    estimator.show([A, B])
    link.die()
    estimator.show([A, B])
    assert asked(link) == ["a"], "nobody is there"
    link.answer(Ready(PROTOCOL, 1))
    answer(link)
    answer(link)
    assert asked(link) == ["a", "a", "b"]
    assert priced == ["a", "b"]


def test_strange_answers_are_not_taken(qtbot: QtBot, link: FakeLink, estimator: Estimator, priced: list[str]) -> None:
    link.answer(Appraised(99, "no", "?"))
    estimator.show([A])
    link.answer(Appraised(99, "no", "?"))
    assert priced == []


def test_a_reason_in_a_line_calls_files_by_their_names(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    cut = say("{file} is cut off: {there} of {all} bytes are there.", file=file, there=1, all=2)
    said = in_words(Appraised(1, "no", say("{name}: {why}", name="org/name", why=cut)))
    assert said == "Cannot be used: org/name: model.safetensors is cut off: 1 of 2 bytes are there."
    assert entry.priced(Appraised(1, "no", cut)).details == str(cut), "the tip tells the whole path"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Appraised(1, "device", "", "cuda", TIERS, tokens_per_second=51.2), "Runs on the GPU, about 51 tokens/s"),
        (Appraised(1, "device", "", "xpu", TIERS, tokens_per_second=51.2), "Runs on the GPU, about 51 tokens/s"),
        (Appraised(1, "device", "", "cpu", TIERS, tokens_per_second=7.25), "Runs on the CPU, about 7.2 tokens/s"),
        (Appraised(1, "offload", "", "cuda", TIERS, tokens_per_second=9.44), "Streams from RAM, about 9.4 tokens/s"),
        (
            Appraised(1, "offload", "", "cuda", TIERS, tokens_per_pass=8.0, tokens_per_second=9.44),
            "Streams from RAM, about 9.4 tokens/s with a draft",
        ),
        (Appraised(1, "ssd", "", "cuda", TIERS, tokens_per_second=0.05), "Streams from SSD, about 0.05 tokens/s"),
        (
            Appraised(1, "no", "9 GiB of RAM would be needed, but 8 GiB may be used.", "cuda", TIERS),
            "Does not fit, because 9 GiB of RAM would be needed, but 8 GiB may be used.",
        ),
        (Appraised(1, "no", "'x' is an adapter."), "Cannot be used: 'x' is an adapter."),
        (Appraised(1, "no", "It is cut off.", faulty_draft="x"), "The draft x cannot be used: It is cut off."),
    ],
)
def test_estimates_in_words(found: Appraised, words: str) -> None:
    assert in_words(found) == words


def test_speeds_have_two_digits() -> None:
    assert [rate_text(each) for each in (123.4, 9.5, 9.44, 0.1, 0.012)] == [
        "123 tokens/s", "10 tokens/s", "9.4 tokens/s", "0.1 tokens/s", "0.01 tokens/s",
    ]  # fmt: skip


@pytest.mark.parametrize(("device", "place"), [("cuda", "GPU"), ("xpu", "GPU"), ("cpu", "RAM, ready")])
def test_layers_on_the_device_are_on_any_makers_gpu(device: str, place: str) -> None:
    assert describe_tiers(Appraised(1, "device", "", device, TIERS)).startswith(f"{place}: 10 layers")


def test_room_for_layers_on_their_way_is_no_place_of_layers() -> None:
    tiers = (LayersAt("device", 38, 10**9), LayersAt("ram", 0, 10**8), LayersAt("ssd", 42, 10**9))
    told = describe_tiers(Appraised(1, "ssd", "", "cpu", tiers))
    assert told == "RAM, ready: 38 layers, 1.0 GB  ·  RAM for layers on their way: 100.0 MB  ·  SSD: 42 layers, 1.0 GB"


def test_tokens_of_a_pass_are_told_with_its_time() -> None:
    price = Appraised(1, "ssd", "", "cuda", TIERS, tokens_per_pass=5.25, seconds_per_pass=0.4)
    assert describe_tiers(price).endswith("about 5.2 tokens per pass of 400 ms")


def test_what_is_unusual_about_the_context_is_told_below_its_length() -> None:
    price = Appraised(1, "device", "", "cuda", TIERS, context_tokens=2048, context_note="In 8 bits.")
    assert describe_tiers(price).splitlines()[-2:] == ["context of 2,048 tokens", "In 8 bits."]
    assert describe_tiers(replace(price, context_note="")).endswith("tokens")

"""Which build is proposed to whom, and what the others are told."""

import pytest

from app.installation.runtime.builds import NAMES, Build, BuildOffer, Proposal, propose
from app.installation.runtime.hardware import Hardware, NvidiaCard
from app.installation.runtime.lock import Lock, Wheel
from engine.accelerator import TYPES

LINUX = {build: Lock(build.value, "3.11", 900, (Wheel(f"torch-{build}-x.whl", "", 100),)) for build in Build}
CARD = NvidiaCard("RTX 4070", (8, 9))


def proposal(builds: str = "cpu cuda rocm", **about: object) -> Proposal:
    """What is proposed to a Linux computer with these parts."""
    parts = {"system": "linux", "machine": "x86_64"} | about
    return propose(Hardware(**parts), {Build(each): LINUX[Build(each)] for each in builds.split()})  # type: ignore[arg-type]


def best(given: Proposal) -> Build:
    """The proposed build."""
    assert given.best is not None
    return given.best.build


def words(sentence: str | None) -> str:
    """The sentence that is shown."""
    assert sentence is not None
    return str(sentence)


def test_a_card_with_a_driver_that_is_new_enough_gets_cuda() -> None:
    given = proposal(nvidia=(CARD,), driver=(580, 65, 6))
    assert best(given) is Build.CUDA
    assert given.advice is None
    assert "RTX 4070" in words(given.found)


def test_an_old_driver_gets_the_processor_and_a_sentence_that_says_which_driver_is_needed() -> None:
    given = proposal(nvidia=(CARD,), driver=(535, 104, 5))
    assert best(given) is Build.CPU
    said = words(given.advice)
    assert "driver 580 or newer" in said
    assert "535.104.05" in said
    assert [offer.build for offer in given.offers if offer.doubt is None] == [Build.CPU]


def test_a_card_without_a_driver_says_so() -> None:
    given = proposal(nvidia=(CARD,))
    assert best(given) is Build.CPU
    assert "has no NVIDIA driver" in words(given.advice)


def test_a_card_that_cuda_left_behind_says_so() -> None:
    given = proposal(nvidia=(NvidiaCard("GTX 1080", (6, 1)),), driver=(580, 0))
    assert best(given) is Build.CPU
    assert "6.1" in words(given.advice)
    assert "7.5" in words(given.advice)


def test_one_young_card_beside_an_old_one_is_enough() -> None:
    assert best(proposal(nvidia=(NvidiaCard("GTX 1080", (6, 1)), CARD), driver=(580, 0))) is Build.CUDA


def test_a_card_that_does_not_tell_its_capability_is_trusted() -> None:
    assert best(proposal(nvidia=(NvidiaCard("RTX"),), driver=(590, 1))) is Build.CUDA


def test_an_amd_card_gets_rocm_where_there_is_a_lock_for_it() -> None:
    given = proposal(amd=("gfx1036", "gfx1100"))
    assert best(given) is Build.ROCM
    assert given.advice is None
    assert "gfx1100" in words(given.found)
    given = proposal("cpu cuda", amd=("gfx1100",))
    assert best(given) is Build.CPU
    assert "AMD" in words(given.advice)


def test_an_amd_card_that_rocm_has_no_kernels_for_gets_the_processor_and_the_reason() -> None:
    given = proposal(amd=("gfx1032",))
    assert best(given) is Build.CPU
    assert "gfx1032" in words(given.advice)
    assert [offer.build for offer in given.offers if offer.doubt is None] == [Build.CPU]


def test_a_mac_gets_metal() -> None:
    assert best(proposal("metal", system="macos", machine="arm64")) is Build.METAL


def test_only_builds_for_cards_that_the_engine_computes_on_are_named_after_one() -> None:
    named = {build for build in Build if NAMES[build] != NAMES[Build.CPU]}
    assert named == {Build.CUDA, Build.ROCM}, "both are devices of torch's type cuda"
    assert TYPES == ("cuda", "xpu")


def test_no_card_gets_the_processor() -> None:
    given = proposal()
    assert best(given) is Build.CPU
    assert given.advice is None
    assert "processor" in words(given.found)


def test_nothing_to_install_is_no_proposal() -> None:
    assert proposal("").best is None


@pytest.mark.parametrize("build", [Build.CUDA, Build.ROCM, Build.METAL])
def test_what_would_not_help_says_why(build: Build) -> None:
    offers = proposal("cpu cuda rocm metal").offers
    doubt = next(offer.doubt for offer in offers if offer.build is build)
    assert words(doubt)


def test_time_and_space_are_told() -> None:
    offer = BuildOffer(Build.CPU, Lock("cpu", "3.11", 600_000_000, (Wheel("a-1-x.whl", "", 250_000_000),)))
    assert offer.disk_bytes() == 850_000_000
    assert offer.disk_bytes(is_local=True) == 600_000_000
    assert 60 < offer.seconds() < 70
    assert 20 < offer.seconds(is_local=True) < 30

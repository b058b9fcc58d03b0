"""Choosing a GGUF variant: seen in the search, chosen from a list, downloaded alone, loaded; and models of others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.downloads.progress import State
from app.library.pairing.suggestions import SuggestedModel
from app.library.picker.page import Page
from engine.protocol.messages import Failed
from engine.protocol.options import LoadOptions
from tests.app.hub.ggufs import TAGS, gguf, repository
from tests.app.hub.repositories import tiny
from tests.app.library.local.folders import cached, write
from tests.app.library.picker.conftest import SUGGESTION, Desk
from tests.hub import Hub, status

REPO = "org/tiny-GGUF"


@pytest.fixture
def shelf(hub: Hub) -> None:
    """A repository with three variants, one with safetensors beside a variant, and one in 8 bits."""
    hub.add(REPO, repository(Q8_0="Q8_0", F16="F16", Q4_K_M="Q4_K"), details=TAGS)
    hub.add("org/both", tiny() | repository(Q8_0="Q8_0"), details={"tags": ["safetensors", "gguf"]})
    hub.add("org/eight", tiny(), details={"tags": ["safetensors", "fp8"]})


def variants(desk: Desk) -> list[str]:
    """The lines of the list of variants, as a screen reader reads them."""
    model = desk.dialog.details.variants.variants
    role = Qt.ItemDataRole.AccessibleTextRole
    return [str(model.index(row).data(role)) for row in range(model.rowCount())]


def chosen(desk: Desk) -> None:
    """Search, go to the repository, and wait until every variant has its estimate."""
    desk.open()
    desk.search("org")
    desk.choose(REPO)
    desk.wait(lambda: len(variants(desk)) == 3 and all("tokens/s" in line for line in variants(desk)))


def test_a_line_shows_the_formats(desk: Desk, shelf: None) -> None:
    desk.open()
    desk.search("org")
    entries = desk.dialog.discover.entries
    shown = {each.name: each.format for row in range(entries.rowCount()) if (each := entries.entry(row))}
    assert shown == {REPO: "GGUF", "org/both": "safetensors 16-bit, GGUF", "org/eight": "FP8"}


def test_variants_are_listed_with_sizes_and_estimates_and_the_best_one_is_chosen(desk: Desk, shelf: None) -> None:
    chosen(desk)
    lines = variants(desk)
    assert [line.partition(",")[0] for line in lines] == ["Q4_K_M (recommended)", "Q8_0", "F16"]
    assert all("Runs on the GPU, about 10 tokens/s" in line for line in lines)
    assert "486.3 kB" in lines[0]
    assert desk.library.pair_choice.entry is not None
    assert desk.library.pair_choice.entry.source == f"{REPO}:Q4_K_M"
    assert desk.verdict(REPO).startswith("Q4_K_M: Runs on the GPU")
    assert desk.button.startswith("Download (")
    tip = desk.dialog.details.variants.variants.index(0).data(Qt.ItemDataRole.ToolTipRole)
    assert f"{REPO}:Q4_K_M" in str(tip)
    assert "four bits lose little" in str(tip)


def test_another_variant_is_chosen_by_key_downloaded_with_its_encoder_and_loaded(
    desk: Desk, hub: Hub, shelf: None, cache: Path
) -> None:
    chosen(desk)
    QTest.keyClick(desk.dialog.details.variants, Qt.Key.Key_Down)
    desk.wait(lambda: desk.dialog.details.name.text() == f"{REPO}:Q8_0")
    desk.wait(lambda: desk.button.startswith("Download ("))
    hub.requests.clear()
    desk.dialog.details.primary.click()
    desk.wait_for(REPO, State.DONE)
    desk.wait(lambda: bool(desk.asked))
    assert desk.asked == [LoadOptions(f"{REPO}:Q8_0", "none")]
    names = {path.name for path in cache.rglob("snapshots/*/*")}
    assert names == {"Tiny-Q8_0.gguf", "mmproj-F16.gguf"}
    assert {each.path.rpartition("/")[2] for each in hub.requests if each.server == "cdn"} == names
    desk.wait(lambda: any("here" in line for line in variants(desk)))
    desk.dialog.go_to(Page.MODELS)
    desk.choose(f"{REPO}:Q8_0")
    desk.wait(lambda: desk.button == "Load")


def test_a_variant_that_is_here_comes_before_the_recommended_one(desk: Desk, shelf: None, cache: Path) -> None:
    cached(cache, REPO, {"Tiny-F16.gguf": gguf("F16")})
    chosen(desk)
    assert desk.dialog.details.name.text() == f"{REPO}:F16"
    desk.wait(lambda: desk.button == "Load")


def test_with_safetensors_beside_them_nothing_has_to_be_chosen(desk: Desk, shelf: None) -> None:
    desk.open()
    desk.search("org")
    desk.choose("org/both")
    desk.wait(lambda: len(variants(desk)) == 2 and "tokens/s" in variants(desk)[1])
    assert variants(desk)[0].startswith("safetensors")
    assert desk.library.pair_choice.entry is not None
    assert desk.library.pair_choice.entry.source == "org/both"
    desk.choose("org/eight")
    desk.wait(lambda: not desk.dialog.details.variants.isVisible())


def test_a_hub_that_does_not_tell_the_variants_can_be_asked_again(desk: Desk, hub: Hub, shelf: None) -> None:
    hub.fail(f"*{REPO}*", status(503), times=99)
    desk.open()
    desk.search("org")
    desk.dialog.discover.view.choose(REPO)
    desk.wait(lambda: desk.button == "Try again")
    hub.heal()
    desk.dialog.details.primary.click()
    desk.wait(lambda: desk.button.startswith("Download ("))


def test_models_of_another_program_are_used_in_place_and_not_deleted(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    folder = write(tmp_path / "home" / ".lmstudio" / "models" / "org" / "tiny-GGUF", {"Tiny-Q8_0.gguf": gguf()})
    source = str(folder / "Tiny-Q8_0.gguf")
    desk.open(Page.MODELS)
    desk.choose(source)
    page = desk.dialog.local
    entry = page.view.current
    assert entry is not None
    assert entry.name == "org/tiny-GGUF:Q8_0"
    assert "LM Studio" in entry.figures
    assert not page.delete.isEnabled()
    assert "LM Studio" in page.delete.toolTip()
    assert page.open.isEnabled()
    desk.wait(lambda: desk.button == "Load")
    desk.dialog.details.primary.click()
    assert desk.asked == [LoadOptions(source, "none")]


def test_one_variant_is_deleted_and_put_back(desk: Desk, hub: Hub, cache: Path) -> None:
    cached(cache, REPO, {"Tiny-F16.gguf": gguf("F16"), "Tiny-Q8_0.gguf": gguf()})
    desk.open(Page.MODELS)
    desk.choose(f"{REPO}:Q8_0")
    page = desk.dialog.local
    entry = page.view.current
    assert entry is not None
    page._delete(entry)
    desk.wait(lambda: page.entries.row_of(f"{REPO}:Q8_0") < 0)
    assert page.entries.row_of(f"{REPO}:F16") >= 0
    page.notices.act("undo")
    desk.wait(lambda: page.entries.row_of(f"{REPO}:Q8_0") >= 0)


def test_a_suggestions_arithmetic_gives_way_to_the_hubs_bytes(make_desk: Callable[..., Desk], hub: Hub) -> None:
    hub.add(REPO, repository(Q4_K_M="Q4_K"), details=TAGS)
    desk = make_desk()
    model = SuggestedModel(f"{REPO}:Q4_K_M", 10**6, 10**9, "mit", False, "GGUF Q4_K_M", estimated=True)
    desk.room.suggested = (replace(SUGGESTION, target=model, draft=None),)
    desk.open()
    entries = desk.dialog.discover.entries
    first = entries.entry(0)
    assert first is not None
    assert "about 1.0 GB" in first.figures
    desk.choose(model.repo)
    desk.wait(lambda: "486.3 kB" in desk.dialog.details.figures.text())
    now = entries.entry(0)
    assert now is not None
    assert (now.bytes, now.is_estimate) == (len(hub.catalogue.repos[REPO].files["Tiny-Q4_K_M.gguf"]), False)
    assert "about" not in desk.dialog.details.figures.text()


def test_the_reason_of_a_failed_load_stays_until_another_one_succeeds(desk: Desk, cache: Path) -> None:
    cached(cache, REPO, {"Tiny-F16.gguf": gguf("F16")})
    dialog = desk.open(Page.MODELS)
    desk.choose(f"{REPO}:F16")
    desk.wait(lambda: desk.button == "Load")
    for failed, shown in ((True, 1), (False, 0)):
        dialog.details.primary.click()
        if failed:
            desk.room.on_load_failed(Failed(1, "It is damaged.", "Get it again."))
        desk.room.on_pair_loaded(LoadOptions())
        assert len(dialog.notices.notices) == shown
        dialog.show()

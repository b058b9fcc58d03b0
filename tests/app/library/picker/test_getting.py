"""From a model of the hub to a pair that is loaded: pairing, downloads and their failures, refusals."""

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox

from app.downloads.progress import State
from app.library.picker.downloads import downloads_page
from app.library.picker.downloads.download_list import DownloadList
from app.library.picker.page import Page
from app.settings.store import SettingsFile
from engine.protocol.options import LoadOptions
from tests.app.hub.repositories import tiny
from tests.app.library.local.folders import cached
from tests.app.library.picker.conftest import Desk, Ring, put_up
from tests.hub import Hub, stall, status

WEIGHTS = "model.safetensors"


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was opened in the browser."""
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    return opened


def paired(desk: Desk) -> None:
    """Find the target and wait until its drafts have been compared."""
    desk.open()
    desk.search("org")
    desk.choose("org/large")
    desk.wait(lambda: "16 times smaller" in desk.drafts()[0])


def test_the_right_draft_is_recommended_and_the_others_say_why(desk: Desk, pair: None) -> None:
    paired(desk)
    lines = desk.drafts()
    assert lines[0].startswith("org/small  ·  1.0 GB to download  (recommended). It has the same vocabulary")
    assert lines[1].startswith("No draft")
    greyed = {line.partition(".")[0].split("  ·")[0] for line in lines[2:]}
    assert {"org/other", "Embedded demo draft"} <= greyed
    assert any("another vocabulary" in line for line in lines[2:])
    model = desk.dialog.details.drafts.drafts
    assert not model.flags(model.index(2)) & Qt.ItemFlag.ItemIsEnabled
    assert desk.library.pair_choice.draft == "org/small"


def wait_for_words(desk: Desk, words: str) -> None:
    """Wait until the pane and the line say so."""
    desk.wait(lambda: desk.dialog.details.estimate.text() == words)
    desk.wait(lambda: desk.verdict("org/large") == words)


def test_terms_and_drafts_change_the_estimate_at_once(desk: Desk, pair: None) -> None:
    paired(desk)
    details = desk.dialog.details
    for box, value, words in (
        (details.terms.place, "ram", "Streams from RAM, about 10 tokens/s with a draft"),
        (details.terms.weights, "nf4", "Streams from RAM, about 20 tokens/s with a draft"),
        (details.terms.place, "ssd", "Streams from SSD, about 20 tokens/s with a draft"),
    ):
        box.setCurrentIndex(box.findData(value))
        wait_for_words(desk, words)
    details.terms.context.setValue(32_768)
    desk.wait(lambda: "32,768 tokens" in details.tiers.text())
    assert desk.link.priced[-1].draft.endswith(tuple("0123456789abcdef")), "the draft's facts are in the price"
    QTest.keyClick(details.drafts, Qt.Key.Key_Down)
    assert desk.library.pair_choice.draft == "none"
    assert desk.button.startswith("Download (")


def test_both_are_downloaded_and_loaded(desk: Desk, hub: Hub, pair: None, settings: SettingsFile) -> None:
    paired(desk)
    assert desk.button.startswith("Download both (")
    desk.dialog.details.primary.click()
    desk.wait_for("org/large", State.DONE)
    desk.wait(lambda: bool(desk.asked))
    assert desk.asked == [LoadOptions("org/large", "org/small")]
    assert settings.current.drafts["org/large"] == "org/small"
    desk.wait(lambda: desk.button == "Load")


def test_enter_on_a_download_goes_to_its_button_first(desk: Desk, pair: None) -> None:
    paired(desk)
    view = desk.dialog.discover.view
    QTest.keyClick(view, Qt.Key.Key_Return)
    assert desk.dialog.focusWidget() is desk.dialog.details.primary
    assert desk.downloads.downloads == ()


def test_what_does_not_fit_can_be_loaded_anyway(desk: Desk, hub: Hub, cache: Path) -> None:
    cached(cache, "org/huge", tiny())
    desk.open(Page.MODELS)
    desk.choose("org/huge")
    assert desk.verdict("org/huge").startswith("Does not fit, because 1 TB")
    desk.wait(lambda: desk.button == "Load anyway")
    desk.dialog.details.primary.click()
    assert desk.asked == [LoadOptions("org/huge", "none", force=True)]


def test_a_download_is_paused_resumed_and_cancelled(desk: Desk, hub: Hub, pair: None, cache: Path) -> None:
    paired(desk)
    hub.fail(WEIGHTS, stall(4_000), times=20)
    desk.dialog.details.primary.click()
    desk.wait_for("org/large", State.DOWNLOADING)
    assert desk.button == "Show download"
    desk.dialog.details.primary.click()
    page = desk.dialog.downloads
    assert page.isVisible()
    assert desk.dialog.tabs.tabText(Page.DOWNLOADS) == "Downloads (2)"
    row = page.list.row_of(desk.download("org/large").id)
    page.view.setCurrentIndex(page.list.index(row))
    page.pause.click()
    desk.wait_for("org/large", State.PAUSED)
    desk.wait(page.resume.isVisible)
    assert page.resume.text() == "Resume"
    assert "Paused" in str(page.list.index(row).data())
    QTest.keyClick(page.view, Qt.Key.Key_Return)
    desk.wait(lambda: desk.download("org/large").state is not State.PAUSED)
    page.cancel.click()
    desk.wait_for("org/large", State.CANCELLED)
    hub.heal()
    hub.release()
    desk.wait_for("org/small", State.DONE)
    assert desk.asked == [], "the pair was given up with its target"
    assert not list(cache.rglob("*.incomplete"))
    desk.wait(page.forget.isVisible)
    page.forget.click()
    desk.wait(lambda: len(desk.downloads.downloads) == 1)


def test_much_that_has_arrived_is_not_lost_by_one_click(
    desk: Desk, hub: Hub, pair: None, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads_page, "_WORTH_ASKING", 1)
    paired(desk)
    hub.fail(WEIGHTS, stall(4_000), times=20)
    desk.library.pair_choice.choose_draft("none")
    desk.dialog.details.primary.click()
    desk.dialog.go_to(Page.DOWNLOADS)
    page = desk.dialog.downloads
    desk.wait_for("org/large", State.DOWNLOADING)
    desk.wait(lambda: desk.download("org/large").file_bytes >= 4_000)
    page.cancel.click()
    (box,) = page.findChildren(QMessageBox)
    assert "org/large" in box.text()
    box.reject()
    assert desk.download("org/large").state is State.DOWNLOADING, "it goes on while nobody has said so"
    page.cancel.click()
    buttons = page.findChildren(QMessageBox)[-1].buttons()
    next(each for each in buttons if each.text() == "Cancel the download").click()
    desk.wait_for("org/large", State.CANCELLED)
    assert desk.download("org/large").file_bytes == 0
    assert page.resume.text() == "Download again"


def test_a_stall_is_shown_as_one(desk: Desk, hub: Hub, pair: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DownloadList, "still_seconds", 0.3)
    paired(desk)
    hub.fail(f"*org/large*{WEIGHTS}", stall(20_000))
    desk.library.pair_choice.choose_draft("none")
    desk.dialog.details.primary.click()
    desk.dialog.go_to(Page.DOWNLOADS)
    page = desk.dialog.downloads
    desk.wait(lambda: any("Stalled" in str(page.list.index(row).data()) for row in range(page.list.rowCount())))
    hub.release()
    desk.wait_for("org/large", State.DONE)
    desk.wait(page.load.isVisible)


def test_a_failure_is_told_in_words_and_tried_again(desk: Desk, hub: Hub, pair: None) -> None:
    paired(desk)
    desk.library.pair_choice.choose_draft("none")
    hub.fail(WEIGHTS, status(404), times=9)
    desk.dialog.details.primary.click()
    desk.dialog.go_to(Page.DOWNLOADS)
    desk.wait_for("org/large", State.FAILED)
    page = desk.dialog.downloads
    desk.wait(lambda: page.resume.isVisible() and page.resume.text() == "Retry")
    words = str(page.list.index(0).data())
    assert words.startswith("org/large: Failed")
    assert "." in words
    hub.heal()
    page.resume.click()
    desk.wait_for("org/large", State.DONE)
    desk.wait(page.load.isVisible)
    page.load.click()
    assert desk.asked[-1] == LoadOptions("org/large", "none")


@pytest.mark.parametrize(
    ("about", "token", "title", "button"),
    [
        ({"gated": "manual"}, "", "Not logged in", "Log in…"),
        ({"gated": "manual"}, "hf_ada", "Licence not accepted", "Open licence page"),
        ({"gated": "manual", "access": {"hf_ada": "rejected"}}, "hf_ada", "Access refused", "Open the model's page"),
        ({}, "", "Not found", "Look again"),
    ],
)
def test_a_locked_door_has_its_own_sentence_and_button(
    desk: Desk, hub: Hub, ring: Ring, pages: list[str], about: dict[str, Any], token: str, title: str, button: str
) -> None:
    put_up(hub, "org/locked", 8_000_000_000, **about)
    if token:
        hub.issue_token(token)
        ring.kept["coppice", "model hub token"] = token
    if not about:
        hub.fail("*org/locked/*", status(404, X_Error_Code="RepoNotFound"), times=99)
        hub.fail("*org/locked", status(404, X_Error_Code="RepoNotFound"), times=99)
    desk.open()
    desk.search("locked")
    desk.choose("org/locked")
    access = desk.dialog.details.access
    desk.wait(access.isVisible)
    assert (access.title.text(), desk.button) == (title, button)
    assert not desk.dialog.details.drafts.isVisible()
    assert access.token.isVisible() == (title == "Not logged in")
    desk.dialog.details.primary.click()
    assert len(pages) == ("page" in button)
    assert all("org/locked" in each for each in pages)
    assert not any(request.path.endswith(WEIGHTS) and request.status < 400 for request in hub.requests)


def test_a_token_opens_the_door(desk: Desk, hub: Hub, ring: Ring) -> None:
    hub.issue_token("hf_ada")
    put_up(hub, "org/locked", 8_000_000_000, gated="manual", access={"hf_ada": "accepted"})
    desk.open()
    desk.search("locked")
    desk.choose("org/locked")
    desk.wait(desk.dialog.details.access.isVisible)
    desk.dialog.details.primary.click()
    field = desk.dialog.details.access.token
    assert desk.dialog.focusWidget() is field
    QTest.keyClicks(field, "hf_ada")
    QTest.keyClick(field, Qt.Key.Key_Return)
    desk.wait(lambda: "GPU" in desk.verdict("org/locked"))
    assert ring.kept == {("coppice", "model hub token"): "hf_ada"}
    assert not desk.dialog.details.access.isVisible()
    assert desk.button.startswith("Download (")
    assert not any(each.token for each in hub.requests if each.server == "cdn")

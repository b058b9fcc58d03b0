"""The models on this computer: found, filtered, deleted and put back, verified and repaired, folders added."""

import shutil
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QFileDialog, QMessageBox

from app.downloads.progress import Request, State
from app.library.picker.entry_list import ENTRY
from app.library.picker.local_page import DAMAGED, SAID, STOP, UNDO, LocalPage
from app.library.picker.page import Page
from app.settings.store import SettingsFile
from app.system.paths import Folders
from engine.protocol.messages import Appraise, Appraised
from engine.protocol.options import OWN_HEADS, LoadOptions
from engine.weights.store.manifest import Manifest, Recipe
from tests.app.hub.ggufs import gguf
from tests.app.hub.repositories import REST, safetensors, shapes, tiny
from tests.app.library.local.folders import cached, write
from tests.app.library.picker.conftest import Desk, appraised, put_up
from tests.hub import Hub, stall
from tests.links import make_link


@pytest.fixture
def page(desk: Desk, cache: Path, settings: SettingsFile, tmp_path: Path) -> LocalPage:
    """My models, with one in the hub's cache and one in a folder."""
    cached(cache, "org/kept", tiny())
    write(tmp_path / "models" / "mine", tiny())
    settings.change(model_folders=(str(tmp_path / "models"),))
    return desk.open(Page.MODELS).local


def names(page: LocalPage) -> list[str]:
    return [page.entries.index(row).data(ENTRY).name for row in range(page.entries.rowCount())]


def confirm(page: LocalPage, answer: str) -> str:
    """Press a button of the question; returns what it said."""
    box = page.findChildren(QMessageBox)[-1]
    words = f"{box.text()} {box.informativeText()}"
    buttons = [each for each in box.findChildren(QAbstractButton) if each.text().replace("&", "") == answer]
    buttons[0].click()
    return words


def test_everything_here_is_listed_and_loads_with_enter(desk: Desk, page: LocalPage) -> None:
    desk.wait(lambda: set(names(page)) == {"Embedded demo", "org/kept", "mine"})
    assert names(page)[0] == "Embedded demo"
    desk.choose("org/kept")
    desk.wait(lambda: desk.button == "Load")
    assert "8.0 B parameters" in page.entries.index(page.entries.row_of("org/kept")).data(ENTRY).figures
    QTest.keyClick(page.view, Qt.Key.Key_Return)
    assert desk.asked == [LoadOptions("org/kept", "none")]


def test_buttons_that_are_off_say_why(desk: Desk, page: LocalPage) -> None:
    desk.choose("embedded")
    for button in (page.open, page.verify, page.delete):
        assert not button.isEnabled()
        assert "comes with Coppice" in button.toolTip()
    desk.choose("org/kept")
    assert page.delete.isEnabled()
    assert "comes with" not in page.delete.toolTip()


def test_the_demo_offers_its_own_draft(desk: Desk, page: LocalPage) -> None:
    desk.choose("embedded")
    desk.wait(lambda: desk.drafts()[0].startswith("Embedded demo draft  (recommended). It has the same"))
    QTest.keyClick(page.view, Qt.Key.Key_Return)
    assert desk.asked == [LoadOptions()]


def test_heads_that_came_with_a_model_are_its_draft(desk: Desk, page: LocalPage, tmp_path: Path) -> None:
    with_heads = safetensors(shapes(range(2)) | REST | {"mtp.fc.weight": [64, 128]})
    alone = {"tokenizer.json": b'{"model": {"type": "BPE", "vocab": {"other": 0}, "merges": []}, "added_tokens": []}'}
    folder = write(tmp_path / "models" / "heads", tiny() | alone | {"model.safetensors": with_heads})
    head = write(tmp_path / "models" / "eagle", tiny(architectures=["LlamaForCausalLMEagle3"]))
    desk.library.local_models.look()
    desk.wait(lambda: "eagle" in names(page))
    page.view.choose(str(head))
    desk.wait(lambda: "drafts for a larger model" in desk.dialog.details.estimate.text())
    assert not desk.dialog.details.primary.isEnabled()
    desk.choose(str(folder))
    desk.wait(lambda: desk.drafts()[0].startswith("Its own heads  (recommended). They came with the model"))
    assert desk.drafts()[1].startswith("eagle. It is a head that was made for a model of this size")
    desk.wait(lambda: desk.link.priced[-1].draft == OWN_HEADS and desk.button == "Load")
    QTest.keyClick(page.view, Qt.Key.Key_Return)
    assert desk.asked == [LoadOptions(str(folder), OWN_HEADS)]


def test_a_damaged_model_is_no_draft_and_says_so_itself(desk: Desk, page: LocalPage, tmp_path: Path) -> None:
    models = tmp_path / "models"
    write(models / "cut", tiny() | {"model.safetensors": tiny()["model.safetensors"][:10_000]})
    (models / "Long-Q8_0.gguf").write_bytes(gguf(padding=1 << 17)[: (1 << 17) + 4096])
    desk.library.local_models.look()
    desk.wait(lambda: "Long-Q8_0" in names(page))
    page.view.choose(str(models / "cut"))
    assert "model.safetensors is cut off" in desk.dialog.details.estimate.text()
    assert not desk.dialog.details.primary.isEnabled()
    desk.choose(str(models / "mine"))
    desk.wait(lambda: any(line.startswith("Long-Q8_0. Its vocabulary cannot be read") for line in desk.drafts()))
    lines, model = desk.drafts(), desk.dialog.details.drafts.drafts
    assert not any(line.startswith("cut") for line in lines)
    (at,) = [row for row, line in enumerate(lines) if line.startswith("Long-Q8_0")]
    assert not model.flags(model.index(at)) & Qt.ItemFlag.ItemIsEnabled


def test_a_draft_that_the_engine_refuses_is_given_up_and_the_model_stays_usable(
    desk: Desk, page: LocalPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(question: Appraise) -> Appraised:
        if question.options.draft != "org/kept":
            return appraised(question)
        return Appraised(question.id, "no", "model.safetensors is damaged.", faulty_draft="org/kept")

    monkeypatch.setattr("tests.app.library.picker.conftest.appraised", refused)
    large = safetensors(shapes(range(12)) | REST)
    target = write(tmp_path / "models" / "large", tiny() | {"model.safetensors": large})
    desk.library.local_models.look()
    desk.wait(lambda: "large" in names(page))
    desk.choose(str(target))
    desk.wait(lambda: any(line.startswith("org/kept. model.safetensors is damaged.") for line in desk.drafts()))
    desk.wait(lambda: desk.button == "Load")
    assert desk.library.pair_choice.draft == str(tmp_path / "models" / "mine"), "the next best"
    desk.wait(lambda: desk.verdict(str(target)) == "Runs on the GPU, about 10 tokens/s with a draft")
    assert all("damaged" not in desk.verdict(str(each)) for each in (target, "embedded"))


def test_a_model_was_used_when_it_was_loaded_and_not_when_it_was_copied(
    desk: Desk, page: LocalPage, tmp_path: Path
) -> None:
    mine = str(tmp_path / "models" / "mine")
    desk.wait(lambda: len(names(page)) == 3)
    assert not any("used" in page.entries.index(row).data(ENTRY).figures for row in range(3))
    desk.room.on_pair_loaded(LoadOptions(mine, "none"))
    desk.library.local_models.look()
    desk.wait(lambda: "used today" in page.entries.index(page.entries.row_of(mine)).data(ENTRY).figures)
    assert names(page)[:2] == ["Embedded demo", "mine"], "what was used stands above what never was"
    assert "used" not in page.entries.index(page.entries.row_of("org/kept")).data(ENTRY).figures
    desk.room._on_download(("org/x",), LoadOptions(mine, "none", weights="nf4"))
    assert desk.room._memory.used_at([mine]) > 0, "another order forgets nothing"
    desk.room._settings.change(loads={mine: {"used": 1e300}, "org/kept": {"used": "x"}})
    assert desk.room._memory.used_at([mine, "org/kept"]) == 0


def test_typing_filters(desk: Desk, page: LocalPage) -> None:
    desk.wait(lambda: len(names(page)) == 3)
    QTest.keyClicks(page.field, "kept")
    assert names(page) == ["org/kept"]
    QTest.keyClicks(page.field, "zzz")
    assert page.empty.isVisible()
    QTest.keyClick(page.field, Qt.Key.Key_Escape)
    assert len(names(page)) == 3


def test_deleting_asks_says_what_is_freed_and_can_be_undone(desk: Desk, page: LocalPage, cache: Path) -> None:
    desk.choose("org/kept")
    QTest.keyClick(page.view, Qt.Key.Key_Delete)
    assert "159.8 kB" in confirm(page, "Cancel")
    assert (cache / "models--org--kept").is_dir()
    page.delete.click()
    assert "deleted for good" in confirm(page, "Delete")
    desk.wait(lambda: "org/kept" not in names(page))
    assert not (cache / "models--org--kept").exists()
    page.notices.act(UNDO)
    desk.wait(lambda: "org/kept" in names(page))
    assert (cache / "models--org--kept" / "refs" / "main").is_file()


def test_what_was_deleted_is_gone_when_the_dialog_closes(desk: Desk, page: LocalPage, cache: Path) -> None:
    desk.choose("org/kept")
    page.delete.click()
    confirm(page, "Delete")
    desk.wait(lambda: "org/kept" not in names(page))
    assert list(cache.iterdir()) != [], "it is only set aside"
    desk.dialog.close()
    desk.wait(lambda: list(cache.iterdir()) == [])


def test_what_was_deleted_can_be_put_back_after_minimising(desk: Desk, page: LocalPage, cache: Path) -> None:
    desk.choose("org/kept")
    page.delete.click()
    confirm(page, "Delete")
    desk.wait(lambda: "org/kept" not in names(page))
    desk.dialog.windowHandle().showMinimized()
    desk.wait(desk.dialog.isMinimized)
    desk.dialog.windowHandle().showNormal()
    desk.wait(lambda: not desk.dialog.isMinimized())
    assert any(each.key == UNDO for each in page.notices.notices)
    page.notices.act(UNDO)
    desk.wait(lambda: "org/kept" in names(page))
    assert (cache / "models--org--kept" / "refs" / "main").is_file()


def test_what_is_loaded_or_ours_is_not_deleted(desk: Desk, page: LocalPage) -> None:
    desk.choose("embedded")
    assert not page.delete.isEnabled()
    desk.choose("org/kept")
    assert page.delete.isEnabled()
    page.show_in_use(frozenset({"org/kept"}))
    assert not page.delete.isEnabled()
    QTest.keyClick(page.view, Qt.Key.Key_Delete)
    assert page.findChildren(QMessageBox) == []


def test_what_is_being_downloaded_is_not_deleted(desk: Desk, page: LocalPage, hub: Hub) -> None:
    put_up(hub, "org/coming", 10**9, padding=1)
    hub.fail("model.safetensors", stall(after=1000))
    desk.downloads.add(Request.of("org/coming"))
    desk.wait_for("org/coming", State.DOWNLOADING)
    desk.library.local_models.look()
    desk.wait(lambda: "org/coming" in names(page))
    page.view.choose("org/coming")
    assert not page.delete.isEnabled()
    assert "being downloaded" in page.delete.toolTip()
    QTest.keyClick(page.view, Qt.Key.Key_Delete)
    assert page.findChildren(QMessageBox) == []
    hub.release()
    desk.wait(page.delete.isEnabled)
    assert desk.download("org/coming").state is State.DONE


def test_neither_a_loaded_model_nor_its_prepared_copy_is_deleted(
    desk: Desk, page: LocalPage, cache: Path, folders: Folders
) -> None:
    source = str(next((cache / "models--org--kept" / "snapshots").iterdir()).resolve())
    copy = folders.cache / "prepared" / "kept-nf4"
    copy.mkdir(parents=True)
    Manifest(Recipe("org/kept", source, "f" * 64, "nf4", "bfloat16", 2), {}, True).write(copy)
    desk.library.local_models.look()
    desk.choose(f"prepared:{copy}")
    assert page.delete.isEnabled()
    page.show_in_use(frozenset({"org/kept"}))
    assert not page.delete.isEnabled()
    QTest.keyClick(page.view, Qt.Key.Key_Delete)
    assert page.findChildren(QMessageBox) == []
    desk.choose("org/kept")
    page.show_in_use(frozenset({source}))
    assert not page.delete.isEnabled()
    page.show_in_use(frozenset({"org/other"}))
    assert page.delete.isEnabled()


def test_verifying_finds_damage_and_gets_just_that_file_again(
    desk: Desk, page: LocalPage, hub: Hub, cache: Path, settings: SettingsFile
) -> None:
    put_up(hub, "org/kept", 10**9)
    settings.remember_draft("org/kept", "org/small")
    settings.remember_load("org/kept", {"weights": "nf4"})
    desk.choose("org/kept")
    page.verify.click()
    assert any(each.key == STOP for each in page.notices.notices)
    desk.wait(lambda: any("verified" in each.message for each in page.notices.notices))
    weights = next((cache / "models--org--kept").rglob("model.safetensors"))
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.resolve().write_bytes(content)
    page.verify.click()
    desk.wait(lambda: any(each.key == DAMAGED for each in page.notices.notices))
    assert "model.safetensors" in page.notices.notices[-1].message
    page.notices.act(DAMAGED)
    desk.wait_for("org/kept", State.DONE)
    assert len(hub.asked("model.safetensors")) == 1
    folder = Path(desk.download("org/kept").path)
    assert (folder / "model.safetensors").read_bytes() == hub.catalogue.repos["org/kept"].files["model.safetensors"]
    remembered = (settings.current.drafts["org/kept"], settings.current.loads["org/kept"])
    assert remembered == ("org/small", {"weights": "nf4"})
    assert desk.asked == []


def test_a_damaged_file_is_fetched_again_where_the_cache_is_behind_a_link(
    desk: Desk, hub: Hub, cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    cache.parent.mkdir(parents=True, exist_ok=True)
    make_link(cache, tmp_path / "elsewhere")
    root = cached(cache, "org/kept", tiny())
    put_up(hub, "org/kept", 10**9)
    blob = next(root.rglob("model.safetensors")).resolve()
    blob.write_bytes(bytes(blob.stat().st_size))
    page = desk.open(Page.MODELS).local
    desk.wait(lambda: "org/kept" in names(page))
    page.view.choose("org/kept")
    assert "damaged or cut off" in desk.dialog.details.estimate.text(), "told at a glance"
    assert "“Verify” finds what is damaged" in desk.dialog.details.estimate.text(), "with what to do about it"
    page.verify.click()
    desk.wait(lambda: any(each.key == DAMAGED for each in page.notices.notices))
    page.notices.act(DAMAGED)
    desk.wait_for("org/kept", State.DONE)
    assert len(hub.asked("model.safetensors")) == 1
    assert blob.read_bytes() == hub.catalogue.repos["org/kept"].files["model.safetensors"]


def test_a_verification_that_fails_is_over(desk: Desk, page: LocalPage, cache: Path, tmp_path: Path) -> None:
    desk.choose("org/kept")
    shutil.rmtree(cache / "models--org--kept" / "snapshots")
    page.verify.click()
    desk.wait(lambda: any(each.key == SAID for each in page.notices.notices))
    assert not any(each.key == STOP for each in page.notices.notices)
    desk.choose(str(tmp_path / "models" / "mine"))
    assert page.verify.isEnabled()


def test_folders_come_and_go(
    desk: Desk, page: LocalPage, tmp_path: Path, settings: SettingsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write(tmp_path / "other", tiny())
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(other))
    page.fill_menu()
    page.menu.actions()[0].trigger()
    desk.wait(lambda: "other" in names(page))
    assert settings.current.model_folders == (str(tmp_path / "models"), str(other))
    page.fill_menu()
    page.menu.actions()[-1].trigger()
    desk.wait(lambda: "other" not in names(page))
    assert other.is_dir()


def test_what_says_how_pictures_are_read_is_fetched_and_nothing_else(desk: Desk, hub: Hub, cache: Path) -> None:
    """As for a model that was downloaded before its pictures were read."""
    files = tiny(model_type="qwen3_vl")
    cached(
        cache, "org/sees", files, commit=hub.add("org/sees", files | {"preprocessor_config.json": b'{"a": 1}'}).commit
    )
    page = desk.open(Page.MODELS).local
    desk.choose("org/sees")
    sight, button = desk.dialog.details.sight, desk.dialog.details.get_settings
    assert "Download it again" in sight.text()
    assert button.isVisible()
    button.click()
    desk.wait_for("org/sees", State.DONE)
    assert {request.path.rpartition("/")[2] for request in hub.requests} == {"main", "preprocessor_config.json"}
    desk.wait(lambda: sight.text() == "Reads pictures")
    assert not button.isVisible()
    line = page.entries.index(page.entries.row_of("org/sees"))
    for role in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole):
        assert "Reads pictures" in line.data(role)
    desk.choose("embedded")
    assert not sight.isVisible()

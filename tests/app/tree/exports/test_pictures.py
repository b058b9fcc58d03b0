"""Pictures of rounds: what is written opens again, and holds what it is a picture of."""

import errno
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PySide6.QtCore import QByteArray
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtSvg import QSvgRenderer
from pytestqt.qtbot import QtBot

from app.tree.exports import exports as exports_module
from app.tree.exports.choices import DARK, PAPER, POST, SHOWN, WHOLE, PictureChoice, restored, stored
from app.tree.exports.pictures import formats as formats_module
from app.tree.exports.pictures.dialog import PictureDialog
from app.tree.exports.pictures.formats import FORMATS
from app.tree.panel import TreePanel
from app.ui import colors
from engine.errors import InputError
from engine.protocol.messages import Round
from tests.app.tree.exports.rounds import HARD, PIECES
from tests.app.tree.panels import canvas, news, show
from tests.app.tree.trees import random_round

_NAMESPACE = "{http://www.w3.org/2000/svg}"


def dialog_of(qtbot: QtBot, panel: TreePanel, of: Round, choice: PictureChoice = POST) -> PictureDialog:
    show(qtbot, panel, of)
    panel.exports.export_picture()
    dialog = panel.findChildren(PictureDialog)[-1]
    dialog.show_choice(choice)
    return dialog


def written(panel: TreePanel, dialog: PictureDialog, path: Path) -> bytes:
    panel.exports.write_picture(path, dialog.sheet, dialog.choice)
    return path.read_bytes()


def texts_of(svg: bytes) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter(f"{_NAMESPACE}text")]


def test_png_has_the_width_and_the_background_that_were_chosen(qtbot: QtBot, panel: TreePanel, tmp_path: Path) -> None:
    dialog = dialog_of(qtbot, panel, random_round(64), replace(POST, theme=DARK))
    image = QImage.fromData(written(panel, dialog, tmp_path / "a.png"))
    assert image.width() == 1600
    assert image.pixelColor(1, 1).name() == colors.DARK.tree.background
    dialog.show_choice(replace(dialog.choice, is_transparent=True, width=600))
    image = QImage.fromData(written(panel, dialog, tmp_path / "a.png"))
    assert (image.width(), image.pixelColor(1, 1).alpha()) == (600, 0)


@pytest.mark.parametrize("part", [SHOWN, WHOLE])
def test_svg_holds_every_token_as_text_that_any_font_can_show(
    qtbot: QtBot, panel: TreePanel, tmp_path: Path, part: str
) -> None:
    dialog = dialog_of(qtbot, panel, HARD, replace(POST, part=part))
    svg = written(panel, dialog, tmp_path / "a.svg")
    texts = texts_of(svg)
    for piece in (*PIECES[:6], HARD.bonus_piece):
        visible = piece.replace(" ", "·")
        assert visible in texts or any(each and each in visible for each in texts if each.strip("·")), piece
    assert {"·<&>", "·\"quoted'", "]]>", "⏎", "\\x00"} <= set(texts)
    assert "SpecExec" not in texts[-1]
    assert texts[-1].startswith("Round 1 · 4 accepted + 1 bonus = 5 tokens")
    assert svg.count(b"sans-serif") >= len(texts)
    assert svg.count(b"textLength") == len(texts)
    renderer = QSvgRenderer(QByteArray(svg))
    assert renderer.isValid()
    assert renderer.viewBoxF().width() == pytest.approx(800)


def test_pdf_is_a_page_of_the_wanted_width_with_fonts(qtbot: QtBot, panel: TreePanel, tmp_path: Path) -> None:
    dialog = dialog_of(qtbot, panel, HARD, PAPER)
    pdf = written(panel, dialog, tmp_path / "a.pdf")
    assert pdf.startswith(b"%PDF-")
    page = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    assert page
    assert float(page[1]) == pytest.approx(160 / 25.4 * 72, abs=1)
    assert float(page[2]) == pytest.approx(160 / 25.4 * 72 * dialog.sheet.ratio, abs=1)
    assert b"/FontFile2" in pdf
    assert b"/Subtype /Image" not in pdf, "it is drawn, not a picture of pixels"


@pytest.mark.parametrize("way", ["chips", "icicle"])
def test_whole_tree_is_larger_than_the_view_and_still_goes_on_a_page(
    qtbot: QtBot, panel: TreePanel, tmp_path: Path, way: str
) -> None:
    panel.set_way(way)
    panel.player.add(random_round(1024))
    panel.show_round(random_round(1024))
    qtbot.waitUntil(lambda: canvas(panel).picture is not None)
    panel.exports.export_picture()
    dialog = panel.findChildren(PictureDialog)[-1]
    dialog.show_choice(PAPER)
    subject = dialog.sheet.subject
    assert subject.shown == 1024 > canvas(panel).picture.shown  # type: ignore[union-attr]
    assert subject.size.height > canvas(panel).height()
    assert dialog.sheet.ratio < 1.6
    if way == "chips":
        svg = written(panel, dialog, tmp_path / "a.svg")
        assert len(texts_of(svg)) >= 1025
    dialog.show_choice(replace(PAPER, part=SHOWN))
    assert dialog.sheet.subject.size.height <= panel.height()


def test_window_looks_as_before_while_and_after_a_picture_is_made(
    qtbot: QtBot, panel: TreePanel, tmp_path: Path
) -> None:
    show(qtbot, panel, random_round(64))
    before = canvas(panel).grab().toImage()
    panel.exports.export_picture()
    dialog = panel.findChildren(PictureDialog)[-1]
    dialog.show_choice(replace(POST, theme=DARK))
    written(panel, dialog, tmp_path / "a.png")
    assert canvas(panel).grab().toImage() == before
    panel.show_round(random_round(20, index=1))
    stays = not panel.player.is_live
    dialog.reject()
    assert stays
    assert panel.player.is_live
    qtbot.waitUntil(lambda: canvas(panel).picture.tree.drafted == 20)  # type: ignore[union-attr]


def test_it_is_saved_where_a_person_says_and_failures_are_told(
    qtbot: QtBot, panel: TreePanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[Path | None] = [None, tmp_path / "gone" / "a.png", tmp_path / "a.bmp", tmp_path / "a.png"]
    monkeypatch.setattr(exports_module, "ask_where", lambda *_asked: places.pop(0))
    dialog = dialog_of(qtbot, panel, HARD)
    dialog.save.click()
    dialog.save.click()
    assert "its folder is not there any more" in dialog.words.text()
    dialog.save.click()
    assert "Choose one of these: .png, .svg, .pdf" in dialog.words.text()
    with monkeypatch.context() as small:
        small.setattr(formats_module, "_MOST_PIXELS", 100_000)
        dialog.save.click()
    assert "too many" in dialog.words.text()

    def full(_path: Path, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(exports_module, "write_chosen", full)
        with pytest.raises(InputError, match="the disk is full"):
            panel.exports.write_picture(tmp_path / "a.svg", dialog.sheet, dialog.choice)
    assert list(tmp_path.iterdir()) == []
    places.append(tmp_path / "a.pdf")
    with qtbot.waitSignal(dialog.finished):
        dialog.save.click()
    assert news(panel).words.text() == "The picture is in a.pdf."


def test_picture_is_copied_and_nothing_is_not(qtbot: QtBot, panel: TreePanel) -> None:
    panel.exports.copy_picture()
    assert "nothing to be exported" in news(panel).words.text()
    show(qtbot, panel, HARD)
    panel.exports.copy_picture()
    assert panel.player.is_live
    assert "clipboard" in news(panel).words.text()
    image = QGuiApplication.clipboard().image()
    assert image.width() > 200
    dialog = dialog_of(qtbot, panel, HARD, replace(POST, width=500))
    dialog.copy.click()
    assert QGuiApplication.clipboard().image().width() == 500
    assert dialog.words.text() == "The picture is on the clipboard."


def test_choices_are_remembered_as_far_as_they_make_sense(qtbot: QtBot, panel: TreePanel) -> None:
    dialog = dialog_of(qtbot, panel, HARD)
    dialog.paper.click()
    assert dialog.choice == PAPER
    dialog.caption.click()
    dialog.unit.setCurrentIndex(0)
    assert (dialog.choice.width, dialog.choice.unit) == (POST.width, POST.unit)
    dialog.paper.click()
    kept: list[dict[str, dict[str, object]]] = []
    panel.exports.chosen.connect(kept.append)
    panel.exports._picture = dialog.choice
    panel.exports._remember()
    assert restored(POST, kept[0]["picture"]) == PAPER
    panel.exports.set_choices({"picture": {**stored(PAPER), "part": "?", "width": 3, "suffix": 5, "more": 1}})
    assert panel.exports._picture == replace(PAPER, part=POST.part, width=POST.width, unit=POST.unit, suffix=".png")


def test_every_format_has_a_filter_with_its_suffix() -> None:
    assert all(f"(*{each.suffix})" in each.filter for each in FORMATS)

"""Pictures as they are seen: small in the tray and in the question, large in a window of their own."""

import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.chat.composer.attachment_tray import AttachmentChip, AttachmentTray
from app.chat.history.message import Attachment, Message
from app.chat.pictures import viewer
from app.chat.pictures.decoding import decoded, size_of
from app.chat.pictures.thumbnail import Thumbnail
from app.chat.pictures.viewer import PictureDialog
from app.chat.text.document_style import Look
from app.chat.view import message_tools
from app.chat.view.question_view import QuestionView
from app.ui.theme import LIGHT
from tests.app.chat.composer.pictures import picture, png_of

OAK = Attachment("oak & yew.png", "", picture=picture(400, 100))
NOTES = Attachment("notes.txt", "An oak.")
GREEN = QColor("#3a7")


def question_of(qtbot: QtBot, *attachments: Attachment, text: str = "What is it?") -> QuestionView:
    view = QuestionView(Message("user", text, attachments=attachments), Look(LIGHT, points=11))
    qtbot.addWidget(view)
    view.resize(600, 400)
    view.show()
    return view


def thumbnail_in(tray: AttachmentTray) -> Thumbnail:
    (found,) = (each.thumbnail for each in tray.chips if each.thumbnail is not None)
    return found


def thumbnail_of(chip: AttachmentChip) -> Thumbnail:
    assert chip.thumbnail is not None
    return chip.thumbnail


def opened() -> PictureDialog:
    (found,) = (each for each in QApplication.topLevelWidgets() if isinstance(each, PictureDialog) and each.isVisible())
    return found


# ---- decoding -------------------------------------------------------------------------------------------------------


def test_a_picture_is_decoded_no_larger_than_it_is_seen() -> None:
    assert size_of(OAK.picture) == QSize(400, 100)
    assert decoded(OAK.picture, QSize(100, 100)).size() == QSize(100, 25)
    assert decoded(OAK.picture, QSize(900, 900)).size() == QSize(400, 100)


@pytest.mark.parametrize("content", [b"", b"GIF89a", OAK.picture[:20], png_of(40_000, 40_000, 1)])
def test_what_is_none_or_too_large_is_not_decoded(content: bytes) -> None:
    assert size_of(content).isEmpty()
    assert decoded(content).isNull()


# ---- small ----------------------------------------------------------------------------------------------------------


def test_the_tray_shows_what_is_attached(qtbot: QtBot) -> None:
    tray = AttachmentTray()
    qtbot.addWidget(tray)
    tray.show_attachments([OAK, NOTES])
    shown = thumbnail_in(tray)
    assert tray.text.splitlines() == ["oak && yew.png · 400 × 100", "notes.txt · 7 characters"]
    assert tray.chips[0].accessibleName() == "Attached: oak & yew.png, 400 × 100"
    assert shown.height() <= 44
    tray.show_costs((0, 12))
    assert tray.text.splitlines() == ["oak && yew.png · 400 × 100", "notes.txt · 12 tokens"]
    qtbot.waitUntil(lambda: shown.is_decoded)
    assert shown.grab().toImage().pixelColor(shown.width() // 2, shown.height() // 2) == GREEN
    tray.chips[0].remove.click()
    assert tray.attachments == (NOTES,)


def test_a_question_shows_its_picture_and_the_keyboard_reaches_it(qtbot: QtBot) -> None:
    view = question_of(qtbot, OAK, NOTES)
    shown = thumbnail_in(view.files)
    assert shown.size() == QSize(320, 80)
    assert shown.accessibleName() == "Picture oak & yew.png, 400 × 100"
    assert shown.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert view.files.chips[0].words.isHidden()
    assert not view.files.chips[1].words.isHidden()
    shown.setFocus()
    QTest.keyClick(shown, Qt.Key.Key_Space)
    dialog = opened()
    assert dialog.windowTitle() == "oak & yew.png"
    dialog.close()


def test_several_pictures_are_smaller_and_a_narrow_window_makes_them_so(qtbot: QtBot) -> None:
    column = QWidget()
    qtbot.addWidget(column)
    view = QuestionView(Message("user", "", attachments=(OAK, OAK)), Look(LIGHT, points=11), column)
    column.show()
    for width, pictures in ((600, 200), (150, 86)):
        view.resize(width, 400)
        assert {each.thumbnail.width() for each in view.files.chips if each.thumbnail} == {pictures}


def test_many_pictures_take_little_room(qtbot: QtBot) -> None:
    tray = AttachmentTray()
    qtbot.addWidget(tray)
    tray.show_attachments([OAK] * 5)
    first = tray.chips[0]
    assert first.words.isHidden()
    assert thumbnail_of(first).focusPolicy() is Qt.FocusPolicy.TabFocus
    first.remove.click()
    assert not any(each.words.isHidden() for each in tray.chips)
    assert thumbnail_of(tray.chips[0]).focusPolicy() is Qt.FocusPolicy.NoFocus
    assert {thumbnail_of(each).width() for each in question_of(qtbot, *[OAK] * 5).files.chips} == {120}


def test_a_damaged_picture_says_so(qtbot: QtBot) -> None:
    view = question_of(qtbot, Attachment("bad.png", "", picture=OAK.picture[:60]))
    shown = thumbnail_in(view.files)
    qtbot.waitUntil(lambda: shown.size_words == "cannot be shown")
    assert not shown.is_decoded
    shown.grab()


def test_editing_takes_pictures_away_and_adds_others(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = question_of(qtbot, OAK)
    view.edit()
    assert view.editor is not None
    tray = view.editor.tray
    assert thumbnail_in(tray).height() <= 44
    tray.chips[0].remove.click()
    view.editor.field.picture_given.emit(picture(20, 20))
    (tmp_path / "notes.txt").write_text("An oak.")
    monkeypatch.setattr(message_tools, "ask_for_files", lambda *_: [tmp_path / "notes.txt"])
    view.editor.attach_tool.click()
    assert not view.editor.accept.isEnabled()
    qtbot.waitUntil(view.editor.accept.isEnabled)
    with qtbot.waitSignal(view.edited) as edited:
        view.editor.accept.click()
    assert edited.args is not None
    assert [each.name for each in edited.args[2]] == ["Pasted picture 1", "notes.txt"]


def test_an_edited_question_with_pictures_waits_for_a_model_that_reads_them(qtbot: QtBot) -> None:
    view = question_of(qtbot, OAK)
    view.set_no_pictures("Bonsai reads no pictures.")
    view.edit()
    assert view.editor is not None
    assert not view.editor.accept.isEnabled()
    assert view.editor.accept.toolTip() == "Bonsai reads no pictures."
    view.editor.tray.chips[0].remove.click()
    assert view.editor.accept.isEnabled()


# ---- large ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def above(qtbot: QtBot) -> QWidget:
    """The window that a picture is opened from."""
    made = QWidget()
    qtbot.addWidget(made)
    return made


@pytest.fixture
def dialog(qtbot: QtBot, above: QWidget) -> PictureDialog:
    made = PictureDialog("../oak.tree.png", OAK.picture, above)
    made.show()
    qtbot.waitUntil(made.copy.isEnabled)
    return made


def test_a_picture_is_seen_copied_and_left(dialog: PictureDialog, qtbot: QtBot) -> None:
    assert dialog.about.text().startswith("400 × 100 · PNG, ")
    canvas = dialog.canvas
    assert canvas.grab().toImage().pixelColor(canvas.rect().center()) == GREEN
    dialog.copy.click()
    assert QGuiApplication.clipboard().image().size() == QSize(400, 100)
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


def test_a_picture_is_saved_as_it_is_kept(
    dialog: PictureDialog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Mock(side_effect=[None, tmp_path / "a.png", tmp_path / "nowhere" / "a.png"])
    monkeypatch.setattr(viewer, "ask_where", ask)
    for _ in range(3):
        dialog.save.click()
    assert ask.call_args.args[2:] == ("oak_tree.png", {"PNG (*.png)": ".png"}), "a name from elsewhere leads nowhere"
    assert (tmp_path / "a.png").read_bytes() == OAK.picture
    assert "could not be written" in dialog.about.text()


def test_what_cannot_be_shown_is_told(above: QWidget) -> None:
    made = PictureDialog("a.png", b"\x89PNG\r\n\x1a\nno more", above)
    assert made.about.text() == "This picture cannot be shown."
    assert not made.copy.isEnabled()


_RACE = """
import sys, threading, time
from PySide6.QtCore import QSize
from app.chat.pictures.decoding import decoded, size_of
picture, ends = sys.stdin.buffer.read(), time.monotonic() + 0.3
def decode():
    while time.monotonic() < ends:
        decoded(picture, QSize(20, 20))
threads = [threading.Thread(target=decode) for _ in range(2)]
for each in threads:
    each.start()
while time.monotonic() < ends:
    size_of(picture)
"""


def test_threads_decode_while_the_window_looks_at_others() -> None:
    """With a buffer of Python's own, which Qt asks while it holds a lock, each would wait for the other."""
    subprocess.run(
        [sys.executable, "-c", _RACE], input=picture(2, 2), cwd=Path(__file__).parents[4], check=True, timeout=60
    )

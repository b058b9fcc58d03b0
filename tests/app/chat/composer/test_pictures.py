"""Pictures for a question: decoded in another process, upright, of a sensible size, and without what a camera noted."""

import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QByteArray, QMimeData, QUrl
from PySide6.QtGui import QImage, QImageReader
from pytestqt.qtbot import QtBot

from app import __main__ as command
from app.chat.composer import picture_program, pictures
from app.chat.composer.attachment_reader import read_attachment
from app.chat.composer.composer import Composer
from app.chat.composer.pdf_text import Refused
from app.chat.composer.picture_program import MOST_SIDE, Told, kept_of
from app.chat.composer.pictures import file_kinds, picture_in, read_picture
from app.chat.history.message import Attachment, attachment_details, attachments_of, pictures_of, with_attachments
from app.chat.history.picture_kinds import kind_of
from app.system import own_program
from app.system.background import Stop
from app.system.bundle import READ_PICTURE
from app.ui.theme import LIGHT
from engine.protocol.pictures import PICTURE_KINDS
from tests.app.chat.composer.pictures import color_at, decoded, is_red, noise, picture, png_of, sideways, written

HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"
WRITABLE = [each for each in PICTURE_KINDS if each != "gif"]
GIF = (
    b"GIF89a\x02\0\x01\0\x80\0\0\xff\0\0\xff\xff\xff,\0\0\0\0\x02\0\x01\0\0\x02\x02D\x0a\0;"
)  # two pixels  # fmt: skip


def refusal(content: bytes) -> str:
    with pytest.raises(Refused) as caught:
        read_picture(content, Stop())
    return str(caught.value)


def kept(content: bytes) -> bytes:
    told, found = kept_of(content)
    assert told.refused == ""
    assert (told.width, told.height) == (decoded(found).width(), decoded(found).height())
    return found


@pytest.mark.parametrize("kind", WRITABLE)
def test_every_kind_is_read(kind: str) -> None:
    content = picture(kind=kind)
    assert kind_of(content) == kind
    found = kept(content)
    assert kind_of(found) == ("jpeg" if kind == "jpeg" else "png")
    assert decoded(found).size() == decoded(content).size()


def test_of_an_animation_the_first_picture_is_kept() -> None:
    assert kind_of(GIF) == "gif"
    assert decoded(kept(GIF)).width() == 2


def test_a_photo_stands_upright_and_forgets_where_it_was_taken() -> None:
    photo = sideways(60, 40)
    assert b"Exif" in photo
    found = kept(photo)
    assert (decoded(found).width(), decoded(found).height()) == (40, 60)
    assert is_red(color_at(found, 35, 5)), "its left side is above"
    assert not is_red(color_at(found, 5, 5))
    assert b"Exif" not in found


def test_what_is_written_beside_the_pixels_goes() -> None:
    image = QImage(8, 8, QImage.Format.Format_RGB32)
    image.setText("Author", "somebody")
    content = written(image, "png")
    assert b"somebody" in content
    assert b"somebody" not in kept(content)


def test_a_large_picture_becomes_smaller_and_a_small_one_stays() -> None:
    image = decoded(kept(picture(3000, 1500)))
    assert (image.width(), image.height()) == (MOST_SIDE, MOST_SIDE // 2)
    assert decoded(kept(picture(9000, 3))).height() == 1


def test_screenshots_keep_every_pixel_and_photos_take_no_more_than_they_need() -> None:
    assert kind_of(kept(written(noise(400, 300), "png"))) == "png"
    assert kind_of(kept(written(noise(1600, 1200), "bmp"))) == "jpeg"


def test_what_can_be_seen_through_stays_so() -> None:
    found = kept(picture(color="#800000ff"))
    assert kind_of(found) == "png"
    assert color_at(found, 0, 0).alpha() == 0x80
    assert not decoded(kept(picture(color="#0000ff"))).hasAlphaChannel()


def test_a_bomb_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QImageReader, "read", lambda _: pytest.fail("it was decoded"))
    assert kept_of(png_of(60_000, 60_000, 2)) == (Told("large"), b"")


def test_what_is_refused_is_told(tmp_path: Path) -> None:
    assert kept_of(png_of(50, 50, 0)[:60]) == (Told("damaged"), b"")
    assert refusal(HEIC) == "Pictures of this kind (HEIC) cannot be read. Save it as PNG or JPEG, and attach that."
    (tmp_path / "a.heic").write_bytes(HEIC)
    with pytest.raises(Refused, match="HEIC"):
        read_attachment(tmp_path / "a.heic", Stop())


def test_another_process_reads_a_file(tmp_path: Path) -> None:
    (tmp_path / "a photo.jpg").write_bytes(picture(kind="jpeg"))
    found = read_attachment(tmp_path / "a photo.jpg", Stop())
    assert (found.name, found.text, kind_of(found.picture)) == ("a photo.jpg", "", "jpeg")
    assert refusal(b"\x89PNG\r\n\x1a\n\x00\x00") == "It is damaged, or no picture."


def test_a_process_that_dies_takes_nothing_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "command", lambda *_: [sys.executable, "-c", "import os; os._exit(3)"])
    assert refusal(picture()) == "Reading it takes too long, or too much memory."


def test_a_packaged_program_starts_itself_as_the_process_that_reads_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    arguments = own_program.command(READ_PICTURE, picture_program.__name__)
    monkeypatch.setattr(picture_program, "main", len)
    assert command.main([*arguments[1:], "5"]) == 1


def test_the_dialog_offers_what_can_be_read() -> None:
    everything, offered = file_kinds().split(";;")
    assert everything == "All files (*)"
    assert offered == "Pictures (*.png *.jpg *.jpeg *.jfif *.webp *.gif *.bmp)"


# ---- as plain data --------------------------------------------------------------------------------------------------


def test_pictures_are_kept_beside_what_is_told_of_them() -> None:
    files = (Attachment("a.png", "", picture=b"1"), Attachment("b.txt", "words"), Attachment("c.png", "", picture=b"2"))
    details = attachment_details(files)
    assert b"1" not in details[0].values()
    assert attachments_of(details, pictures_of(files)) == files
    assert attachments_of(details, [b"1"]) == files[:2], "what is lost is left out"
    assert attachments_of([{"name": "a", "text": "", "picture": -1}], [b"1"]) == ()


def test_a_picture_is_no_text() -> None:
    assert with_attachments("What is it?", [Attachment("a.png", "", picture=b"1")]) == "What is it?"


# ---- pasted and dropped ---------------------------------------------------------------------------------------------


@pytest.fixture
def composer(qtbot: QtBot) -> Composer:
    made = Composer(LIGHT)
    qtbot.addWidget(made)
    made.show()
    return made


def copied(**formats: bytes) -> QMimeData:
    made = QMimeData()
    for kind, content in formats.items():
        made.setData(f"image/{kind}", QByteArray(content))
    return made


def test_a_picture_that_is_pasted_is_attached(composer: Composer, qtbot: QtBot) -> None:
    source = QMimeData()
    source.setImageData(decoded(picture(30, 20)))
    assert composer.field.canInsertFromMimeData(source)
    composer.field.insertFromMimeData(source)
    composer.field.insertFromMimeData(copied(png=picture(50, 20)))
    assert composer.unsent.unread == (), "they are no files that could be read at the next start"
    qtbot.waitUntil(lambda: not composer.tray.is_reading)
    assert [each.name for each in composer.tray.attachments] == ["Pasted picture 1", "Pasted picture 2"]
    assert [decoded(each.picture).width() for each in composer.tray.attachments] == [30, 50]


def test_words_with_a_picture_of_them_are_words(composer: Composer) -> None:
    source = copied(png=picture())
    source.setText("three cells")
    composer.field.insertFromMimeData(source)
    assert composer.field.toPlainText() == "three cells"
    assert composer.tray.chips == ()


def test_a_picture_from_a_browser_is_taken_with_its_address() -> None:
    source = copied(webp=picture(kind="webp"))
    source.setUrls([QUrl("https://example.org/a.webp")])
    assert kind_of(picture_in(source)) == "webp"  # type: ignore[arg-type]


# ---- a model that reads none ----------------------------------------------------------------------------------------


def test_a_picture_that_cannot_be_read_is_said_at_once_and_stays(composer: Composer, qtbot: QtBot) -> None:
    composer.tray.set_no_pictures("Bonsai reads no pictures.")
    assert composer.hindrance.isHidden()
    composer.tray.show_attachments([Attachment("a.png", "", picture=picture())])
    composer.field.setPlainText("What is it?")
    assert composer.hindrance.text().startswith("Bonsai reads no pictures. Choose a model")
    assert not composer.button.isEnabled()
    with qtbot.assertNotEmitted(composer.sent):
        composer.field.submitted.emit()
    assert composer.field.toPlainText() == "What is it?"
    composer.tray.set_no_pictures("")
    assert composer.hindrance.isHidden()
    with qtbot.waitSignal(composer.sent):
        composer.field.submitted.emit()


def test_text_can_be_sent_to_a_model_that_reads_no_pictures(composer: Composer) -> None:
    composer.tray.set_no_pictures("Bonsai reads no pictures.")
    composer.tray.show_attachments([Attachment("a.txt", "words")])
    assert composer.hindrance.isHidden()
    assert composer.button.isEnabled()

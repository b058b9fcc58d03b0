"""Files for a question: what is text is read, what is not is refused in words, and nothing waits for it."""

import sys
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PageObject
from PySide6.QtCore import QMimeData, QUrl
from pytestqt.qtbot import QtBot

from app import __main__ as command
from app.chat.composer import pdf_program
from app.chat.composer.attachment_reader import LARGEST_PDF, LARGEST_TEXT, AttachmentReader, read_attachment
from app.chat.composer.attachment_tray import MOST_FILES, AttachmentTray
from app.chat.composer.composer import Composer
from app.chat.composer.pdf_text import Refused, found_in, read_pdf
from app.chat.history.message import Attachment, attachment_details, attachments_of
from app.system import own_program
from app.system.background import Stop
from app.system.bundle import READ_PDF
from app.ui.theme import LIGHT
from tests.app.chat.composer.pdfs import encrypted, packed_page, pdf_of
from tests.links import make_pipe

PATIENCE_SECONDS = 60.0
ENDLESS = packed_page(bytes(LARGEST_PDF - 1000), "LZWDecode")  # two minutes


def read(content: bytes, most_characters: int = 1000) -> tuple[str, str]:
    return read_pdf(content, most_characters, Stop(), PATIENCE_SECONDS)


def refusal(path: Path) -> str:
    with pytest.raises(Refused) as caught:
        read_attachment(path, Stop())
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Grüße\r\nund mehr\r".encode(), "Grüße\nund mehr\n"),
        (b"\xef\xbb\xbfmark", "mark"),
        ("weit".encode("utf-16"), "weit"),
        ("weiter".encode("utf-32"), "weiter"),
        ("Köln".encode("cp1252"), "Köln"),
        (b"\x1b[1mbold\x1b[0m\ttab\x0c", "\x1b[1mbold\x1b[0m\ttab\x0c"),
    ],
)
def test_texts_are_read_in_their_encoding(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    assert read_attachment(path, Stop()) == Attachment("notes.txt", text)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x7fELF\x02\x01\x01\x00", "not text"),
        (b"words\x00words", "not text"),
        (b"\xff\xfe\x00", "not text"),
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"a" * (LARGEST_TEXT + 1), "larger than 2 MB"),
        (b"a" * (LARGEST_PDF + 1), "larger than 2 MB"),
        (b"%PDF-1.7" + b"a" * LARGEST_PDF, "larger than 64 MB"),
        (b"\x00" * (LARGEST_TEXT + 1), "not text"),
        (b"%PDF-1.7\nno more", "damaged"),
        (b"%PDF-1.4\n" + b"1 0 obj\n<<" * 999, "damaged"),
    ],
)
def test_what_is_no_text_is_refused_in_words(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert words in refusal(path)
    assert refusal(path).isprintable()


def test_folders_pipes_and_nothing_are_refused(tmp_path: Path) -> None:
    assert "Attach the files in it" in refusal(tmp_path)
    assert "No such file" in refusal(tmp_path / "missing")
    make_pipe(tmp_path / "pipe")
    assert "not an ordinary file" in refusal(tmp_path / "pipe")


@given(st.text(alphabet="`a\n", max_size=40))
def test_no_text_can_close_its_own_fence(text: str) -> None:
    first, *_, last = Attachment("a", text).written_out.split("\n")[1:]
    assert first == last
    assert set(first) == {"`"}
    assert first not in text


def test_attachments_are_kept_and_damage_is_passed_over() -> None:
    files = (Attachment("a.txt", "words"), Attachment("b.pdf", "more", "only 3 of 9 pages"))
    assert attachments_of(attachment_details(files)) == files
    assert attachments_of([{"name": 5, "text": "a"}, "x", {"name": "n", "text": "t", "note": 1}]) == (
        Attachment("n", "t"),
    )
    assert attachments_of({"name": "a"}) == ()


# ---- PDFs -----------------------------------------------------------------------------------------------------------


def test_the_text_of_a_pdf_is_taken_page_by_page(tmp_path: Path) -> None:
    path = tmp_path / "paper.pdf"
    path.write_bytes(pdf_of(["First words", "", "Last words"]))
    assert read_attachment(path, Stop()) == Attachment("paper.pdf", "[Page 1]\nFirst words\n\n[Page 3]\nLast words")


def test_an_encrypted_pdf_is_told() -> None:
    with pytest.raises(Refused, match="encrypted"):
        read(encrypted(pdf_of(["secret"]), "password"))
    assert "open" in read(encrypted(pdf_of(["open"]), ""))[0]


def test_a_pdf_of_pictures_is_told() -> None:
    with pytest.raises(Refused, match="no text"):
        read(pdf_of(["", ""]))


def test_a_long_pdf_is_cut_and_it_is_told() -> None:
    text, note = read(pdf_of(["word " * 20] * 30), 400)
    assert text.count("[Page") == 4
    assert note == "only the first 4 of 30 pages: the rest is too long"


def test_a_pdf_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(Refused, match=r"took too long|takes too long"):
        read_pdf(ENDLESS, 1000, Stop(), seconds=1)


def test_a_pdf_that_takes_too_much_memory_is_read_as_far_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PageObject, "extract_text", Mock(side_effect=["first", MemoryError]))
    assert [told.page for told in pdf_program.lines_of(pdf_of(["first", "second"]), 1000)] == [None, "first"]


def test_what_was_read_in_time_is_kept() -> None:
    lines = b'{"count": 3}\n{"page": "first"}\n{"page": ""}\n{"page": "thi'
    assert found_in(lines).within(1000) == (
        "[Page 1]\nfirst", "reading was stopped after 2 of 3 pages: it took too long, or too much memory"
    )  # fmt: skip
    pages = b'{"count": 5000}\n{"page": "first"}\n{"is_last": true}\n'
    assert found_in(pages).within(1000)[1] == "only the first 1 of 5000 pages"


def test_a_pdf_is_left_when_nobody_waits_for_it(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(ENDLESS)
    reader = AttachmentReader()
    reader.read(tmp_path / "a.pdf")
    qtbot.waitUntil(lambda: bool(readers_of_pdfs()))
    reader.close()
    qtbot.waitUntil(lambda: not readers_of_pdfs())


def test_a_packaged_program_starts_itself_as_the_process_that_reads_pdfs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    arguments = own_program.command(READ_PDF, pdf_program.__name__)
    assert arguments[0] == sys.executable
    monkeypatch.setattr(pdf_program, "main", len)
    assert command.main([*arguments[1:], "1000", "5"]) == 2


def readers_of_pdfs() -> list[psutil.Process]:
    return [each for each in psutil.Process().children() if pdf_program.__name__ in words_of(each)]


def words_of(process: psutil.Process) -> list[str]:
    """How it was started; nothing of one that has just ended."""
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


# ---- chips ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tray(qtbot: QtBot) -> AttachmentTray:
    made = AttachmentTray()
    qtbot.addWidget(made)
    return made


def written(folder: Path, name: str, text: str = "words") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_a_file_is_read_beside_the_window_and_shown_with_its_price(
    tray: AttachmentTray, qtbot: QtBot, tmp_path: Path
) -> None:
    path = written(tmp_path, "a.py", "print(1)")
    tray.add_file(path)
    tray.add_file(path)
    (chip,) = tray.chips
    assert tray.is_reading
    assert "reading" in chip.words.text()
    qtbot.waitUntil(lambda: not tray.is_reading)
    assert [(each.name, each.text) for each in tray.attachments] == [("a.py", "print(1)")]
    tray.show_costs((4321,))
    assert chip.words.text() == "a.py · 4,321 tokens"
    tray.show_costs((1, 2))
    assert chip.accessibleName() == "Attached: a.py, 4,321 tokens"
    chip.remove.click()
    assert tray.isHidden()
    assert not tray.chips


def test_a_refused_file_goes_with_a_word(tray: AttachmentTray, qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\x00")
    with qtbot.waitSignal(tray.refused) as told:
        tray.add_file(tmp_path / "photo.png")
    assert told.args is not None
    assert told.args[0].startswith("photo.png was not attached. It is not text.")
    assert tray.chips == ()


def test_there_is_an_end_to_it(tray: AttachmentTray, qtbot: QtBot, tmp_path: Path) -> None:
    told: list[str] = []
    tray.refused.connect(told.append)
    for number in range(MOST_FILES + 1):
        tray.add_file(written(tmp_path, f"{number}.txt"))
    assert len(tray.chips) == MOST_FILES
    assert len(told) == 1
    qtbot.waitUntil(lambda: not tray.is_reading)


@pytest.fixture
def composer(qtbot: QtBot) -> Composer:
    made = Composer(LIGHT)
    qtbot.addWidget(made)
    made.show()
    return made


def test_files_are_pasted_and_text_stays_text(composer: Composer, qtbot: QtBot, tmp_path: Path) -> None:
    files, words = QMimeData(), QMimeData()
    files.setUrls([QUrl.fromLocalFile(str(written(tmp_path, "a.txt")))])
    words.setText("https://example.org/a.txt")
    assert composer.field.canInsertFromMimeData(files)
    composer.field.insertFromMimeData(files)
    composer.field.insertFromMimeData(words)
    assert [chip.path.name for chip in composer.tray.chips] == ["a.txt"]
    assert composer.field.toPlainText() == "https://example.org/a.txt"
    assert not composer.button.isEnabled(), "what is still read would be missing"
    qtbot.waitUntil(composer.button.isEnabled)
    with qtbot.waitSignal(composer.sent) as sent:
        composer.button.click()
    assert sent.args == ["https://example.org/a.txt", (Attachment("a.txt", "words"),), ""]
    assert composer.tray.chips == ()


def test_a_file_alone_can_be_sent(composer: Composer, qtbot: QtBot, tmp_path: Path) -> None:
    composer.attach([written(tmp_path, "a.txt")])
    qtbot.waitUntil(composer.button.isEnabled)
    composer.set_answering(True)
    with qtbot.assertNotEmitted(composer.sent):
        composer.field.submitted.emit()

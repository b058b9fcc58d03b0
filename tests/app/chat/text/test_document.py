"""Blocks in a text document: written once, hostile text harmless, code coloured in both themes."""

import pytest
from PySide6.QtGui import QTextBlockFormat, QTextCursor, QTextDocument
from PySide6.QtWidgets import QApplication

from app.chat.text import rendering
from app.chat.text.blocks import Block
from app.chat.text.rendering import BlockRenderer
from app.chat.text.selection import selected_text
from app.chat.typesetting.layout_cost import Budget
from app.ui.theme import DARK, LIGHT
from tests.app.chat.text.growing import Growing


@pytest.fixture
def document(qapp: QApplication) -> QTextDocument:
    """An empty document."""
    return QTextDocument()


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The source of every block that is rendered, in order."""
    sources: list[str] = []
    original = BlockRenderer.render

    def render(self: BlockRenderer, block: Block) -> rendering.Rendered:
        sources.append(block.source)
        return original(self, block)

    monkeypatch.setattr(BlockRenderer, "render", render)
    return sources


def plain(document: QTextDocument) -> list[str]:
    """The paragraphs that hold text of the answer; the lines above code blocks do not."""
    return [line for line in document.toPlainText().splitlines() if line.strip() and not line.endswith("Copy")]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "# Title\n\nSome *text*.\n\n- a\n- b\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n```py\nx = 1\n```\n\n---\n\nend",
            ["Title", "Some text.", "a", "b", "x", "y", "1", "2", "x = 1", "end"],
        ),
        ("\\[\nx\n=\ny\n\\]\n\nend", ["\\[x", "=", "y\\]", "end"]),
        ("so\n$$\na\n+ b\n- c\n$$\nend\n", ["so", "$$a", "+ b", "- c$$", "end"]),
        ("so\n$$\na\n\nb\n$$\n\nend", ["so $$ a", "b $$", "end"]),
        ("so\n\\[1] one\n\\[2] two\n\nend", ["so [1] one [2] two", "end"]),
    ],
    ids=["all kinds", "brackets", "dollars", "blank line", "escaped"],
)
def test_growing_text_reads_like_the_whole(document: QTextDocument, text: str, lines: list[str]) -> None:
    growing = Growing(document, LIGHT)
    for character in text:
        growing.append(character)
    at_once = QTextDocument()
    Growing(at_once, LIGHT).append(text)
    assert plain(document) == plain(at_once) == lines
    assert growing.text == text


@pytest.mark.parametrize("pieces", [["One.\n\nTwo.\n\nThree."], ["One.", "\n\nTwo.\n\nThr", "ee", "."]])
def test_paragraphs_stand_apart_while_the_last_one_is_being_written(document: QTextDocument, pieces: list[str]) -> None:
    markdown = Growing(document, LIGHT)
    for piece in pieces:
        markdown.append(piece)
    gaps = [frame.frameFormat().topMargin() for frame in document.rootFrame().childFrames()]
    assert gaps == [0, 12, 12]


def test_closed_blocks_are_not_rendered_again(document: QTextDocument, rendered: list[str]) -> None:
    growing = Growing(document, LIGHT)
    for number in range(50):
        growing.append(f"Paragraph {number}.\n\n")
    rendered.clear()
    frames = document.rootFrame().childFrames()[:40]
    growing.append("more")
    growing.append(" and more")
    assert len(rendered) <= 4
    assert all("Paragraph 10." not in source for source in rendered)
    assert document.rootFrame().childFrames()[:40] == frames
    assert growing.blocks_written >= 49


def test_the_work_for_a_word_does_not_grow_with_the_answer(document: QTextDocument, rendered: list[str]) -> None:
    growing = Growing(document, LIGHT)
    longest: list[int] = []
    for part in ("Some words in a paragraph.\n\n" * 200, "end.\n\n```py\n" + "x = 1\n" * 500):
        growing.append(part)
        rendered.clear()
        growing.append("word ")
        longest.append(sum(map(len, rendered)))
    assert max(longest) < 600


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "<img src='http://host/x.png'>",
        "<style>* { color: red }</style>",
        "<table><tr><td>cell",
        "&lt;b&gt; &amp;",
        "</td></tr></table></body></html>",
    ],
)
def test_html_is_shown_as_text(document: QTextDocument, hostile: str) -> None:
    Growing(document, LIGHT).append(f"before {hostile} after")
    shown = document.toPlainText()
    assert "before" in shown
    assert "after" in shown
    if "&" not in hostile:
        assert hostile in shown


def test_html_inside_code_is_shown_as_text(document: QTextDocument) -> None:
    Growing(document, LIGHT).append("```html\n<b>x</b>\n```\n\n`<i>y</i>`\n\n    <u>z</u>\n")
    assert plain(document) == ["<b>x</b>", "<i>y</i>", "<u>z</u>"]


def test_an_image_is_a_link(document: QTextDocument) -> None:
    Growing(document, LIGHT).append("![a picture](http://host/x.png)\n")
    assert "￼" not in document.toPlainText(), "no place for an image"
    assert "a picture" in document.toPlainText()


def test_tasks_have_boxes_in_place_of_bullets(document: QTextDocument) -> None:
    growing = Growing(document, LIGHT)
    for character in "- [ ] **buy** milk\n- [x] eat\n- [y] no\n- [x](http://host/) link\n- [x]\n\n[x] text\n\n":
        growing.append(character)
    boxes: dict[str, QTextBlockFormat.MarkerType] = {}
    block = document.begin()
    while block.isValid():
        boxes |= {block.text(): block.blockFormat().marker()} if block.text().strip() else {}
        block = block.next()
    marker = QTextBlockFormat.MarkerType
    assert boxes == {
        "buy milk": marker.Unchecked,
        "eat": marker.Checked,
        "[y] no": marker.NoMarker,
        "x link": marker.NoMarker,
        "[x]": marker.NoMarker,
        "[x] text": marker.NoMarker,
    }


def test_the_address_of_a_reference_stays_visible(document: QTextDocument) -> None:
    Growing(document, LIGHT).append("see [a][1]\n\nmore\n\n[1]: https://e.org\n\nend\n")
    assert plain(document) == ["see [a][1]", "more", "[1]: https://e.org", "end"]


@pytest.mark.parametrize(
    "hostile",
    [
        "```" * 50,
        "> " * 200 + "deep",
        "- " * 100 + "deep",
        "|" * 300,
        "\x00\ufffe\u202e\u200b",
        "a" * 20_000,
        "[" * 500,
    ],
)
def test_odd_text_leaves_the_document_usable(document: QTextDocument, hostile: str) -> None:
    growing = Growing(document, LIGHT)
    growing.append(hostile + "\n\n")
    growing.append("```\n```\n\nafter\n")
    assert plain(document)[-1] == "after"
    assert not hostile.endswith("deep") or "deep" in document.toPlainText()


def test_code_in_no_language_is_plain_and_other_code_has_a_place() -> None:
    plain, other = (BlockRenderer(LIGHT).render(Block(f"```{name}\na < b\n```")) for name in ("", "python"))
    assert plain.code is not None
    assert plain.html == "<pre>a &lt; b</pre>"
    assert other.codes == (("a < b", "python"),)
    assert other.html == f"<pre>{rendering.code_placeholder(0)}</pre>"


def test_another_theme_changes_colours_and_no_text(document: QTextDocument) -> None:
    growing = Growing(document, LIGHT)
    growing.append("# Title\n\n```py\nx = 1\n```\n\nopen `end`")
    before, html = document.toPlainText(), document.toHtml()
    growing.set_theme(DARK)
    assert document.toPlainText() == before
    assert document.toHtml() != html


def test_the_open_end_waits_for_its_own_turn() -> None:
    document = QTextDocument()
    markdown = Growing(document, LIGHT)
    markdown.append("closed\n\nopen\n")
    markdown.clear()
    markdown.write(Budget(0.0))
    assert document.toPlainText().strip() == "closed"
    assert not markdown.is_current
    markdown.write(Budget(0.0))
    assert "open" in document.toPlainText()
    assert markdown.is_current


def test_letters_behind_an_emoji_are_copied_as_they_are_selected(document: QTextDocument) -> None:
    document.setPlainText("😀 hello world")
    cursor = QTextCursor(document)
    cursor.setPosition(3)
    cursor.setPosition(8, QTextCursor.MoveMode.KeepAnchor)
    assert selected_text(cursor) == "hello"

"""Texts from elsewhere are never read as HTML: by the whole program's style sheet, and by how it is written."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QSize
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication, QInputDialog, QLabel, QMessageBox, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from app.chat.text.message_text import MessageText
from app.shell.dialogs import about_box
from app.shell.faults.crash import refusal_box
from app.system.plain_text import tip, unsteered
from app.ui.theme import Theme
from app.ui.widgets import SealedBrowser
from engine.errors import InputError
from tests.app.sources import sources

PLAIN = "PlainText"

# What shows text in another way than as it is. Two modules write HTML, of which they have escaped every foreign part.
WRITERS = {"setHtml", "insertHtml", "setMarkdown", "insertMarkdown"}
MAY_WRITE = {"shell/dialogs.py": 1, "chat/text/document.py": 1}
FORMATS = {"RichText", "AutoText", "MarkdownText"}
RICH_WIDGETS = {
    "QTextBrowser",
    "QTextEdit",
    "QErrorMessage",
    "QWhatsThis",
    "QGraphicsTextItem",
    "LabelItem",
    "TextItem",
}
MAY_BE_RICH = {  # the one base; types
    *("ui/widgets.py", "chat/text/message_text.py", "comparison/text_pane.py", "shell/keyboard.py"),
}
NEVER = {"setWhatsThis", "setStatusTip"}


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A picture of a size that would show."""
    image = QImage(300, 300, QImage.Format.Format_RGB32)
    image.fill(QColor("red"))
    image.save(str(tmp_path / "big.png"))
    return tmp_path / "big.png"


def tip_label() -> QLabel:
    """What shows the tooltip at present."""
    (label,) = (each for each in QApplication.topLevelWidgets() if isinstance(each, QLabel) and each.isVisible())
    return label


def test_a_tooltip_with_a_picture_in_it_shows_how_it_is_written(theme: Theme, qtbot: QtBot, picture: Path) -> None:
    widget = QWidget()
    qtbot.addWidget(widget)
    widget.show()
    text = f"<img src='{picture}'>"
    QToolTip.showText(widget.mapToGlobal(QPoint(1, 1)), text, widget)
    label = tip_label()
    assert label.textFormat().name == PLAIN
    assert label.height() < 200
    QToolTip.showText(widget.mapToGlobal(QPoint(2, 2)), f"<b>{text}</b>", widget)
    assert tip_label().textFormat().name == PLAIN
    QToolTip.hideText()
    qtbot.waitUntil(lambda: not any(isinstance(each, QLabel) for each in QApplication.topLevelWidgets()))


def test_labels_and_boxes_that_qt_makes_show_it_too(theme: Theme, qtbot: QtBot, picture: Path) -> None:
    text = f"<img src='{picture}'>"
    window = QWidget()
    qtbot.addWidget(window)
    box, question, label = QMessageBox(window), QInputDialog(window), QLabel(text, window)
    box.setText(text)
    box.setInformativeText(text)
    question.setLabelText(text)
    for each in (window, box, question):
        each.show()
    labels = [*box.findChildren(QLabel), *question.findChildren(QLabel), label]
    assert sum(each.text() == text for each in labels) == 4
    assert {each.textFormat().name for each in labels} == {PLAIN}
    assert label.sizeHint().height() < 200


def test_a_refusal_is_plain_without_a_theme(qtbot: QtBot) -> None:
    box = refusal_box(InputError("<b>bad</b>", "<i>hint</i>"))
    qtbot.addWidget(box)
    box.show()
    assert {each.textFormat().name for each in box.findChildren(QLabel)} == {PLAIN}


def test_the_box_about_the_program_reads_well_as_plain_text(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    box = about_box("<1.0>", window)
    assert box.text() == "Coppice <1.0>"
    assert box.informativeText().count("\n\n") == 2
    assert "<" not in box.informativeText()


@pytest.mark.parametrize("kind", [SealedBrowser, MessageText])
def test_a_text_browser_opens_no_file(qtbot: QtBot, picture: Path, kind: type[SealedBrowser]) -> None:
    browser = kind()
    qtbot.addWidget(browser)
    sheet = picture.with_name("red.css")
    sheet.write_text("p { font-size: 300px; }")
    for source in (picture.as_posix(), picture.as_uri()):
        browser.setHtml(f"<link rel='stylesheet' href='{sheet.as_uri()}'><p>x<img src='{source}'></p>")
        assert browser.document().size().height() < 150
        assert browser.document().idealWidth() < 150
    browser.setSource(picture.with_name("red.css").as_uri())
    assert "300px" not in browser.toPlainText()


def test_a_tip_is_broken_into_lines_and_fits_on_a_screen() -> None:
    assert tip("") == ""
    assert tip("a <b>b</b>\nc") == "a <b>b</b>\nc"
    lines = tip("word " * 100 + "\n\nend").split("\n")
    assert max(map(len, lines)) <= 72
    assert lines[-2:] == ["", "end"]
    assert tip(tip("word " * 100)) == tip("word " * 100)
    assert len(tip("x" * 1_000_000).split("\n")) == len(tip("\n" * 1_000_000).split("\n")) == 40


def test_marks_that_are_piled_up_are_left_out() -> None:
    assert unsteered("a" + "\u0301" * 1_000 + "b") == "a" + "\u0301" * 4 + "b"
    vietnamese = "Tiê\u0301ng Viê\u0323t"
    assert unsteered(vietnamese) == vietnamese


# ---- how the program is written -------------------------------------------------------------------------------------


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Every call of a method or a function by its name, and the module that it is in."""
    for path, nodes in modules():
        for node in nodes:
            if isinstance(node, ast.Call):
                function = node.func
                name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                yield path, name, node


def modules() -> list[tuple[str, tuple[ast.AST, ...]]]:
    return [(each.place.removeprefix("app/"), each.nodes) for each in sources("app")]


def is_ours(text: ast.expr) -> bool:
    """Whether a text is made by `tip`, or is one of the program's own without anything put into it."""
    if isinstance(text, ast.IfExp):
        return is_ours(text.body) and is_ours(text.orelse)
    if isinstance(text, ast.Call) and isinstance(text.func, ast.Name):
        return text.func.id in ("tip", "tr")
    return isinstance(text, ast.Constant)


def test_every_tooltip_is_made_by_tip_or_is_a_text_of_ours() -> None:
    others = [
        f"{path}:{call.lineno}"
        for path, name, call in calls()
        for place in {"setToolTip": [0], "showText": [1]}.get(name, [])
        if not is_ours(call.args[place])
    ]
    assert others == []


def test_no_other_module_writes_html_or_shows_rich_text() -> None:
    writers: dict[str, int] = {}
    rich = []
    for path, name, _ in calls():
        if name in WRITERS:
            writers[path] = writers.get(path, 0) + 1
        assert name not in NEVER, path
    for path, nodes in modules():
        for node in nodes:
            word = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if word in FORMATS or (word in RICH_WIDGETS and path not in MAY_BE_RICH) or "<qt>" in text:
                rich.append(f"{path}: {word or text}")
    assert writers == MAY_WRITE
    assert rich == []


def test_the_picture_of_the_test_would_show(picture: Path) -> None:
    assert QImage(str(picture)).size() == QSize(300, 300)

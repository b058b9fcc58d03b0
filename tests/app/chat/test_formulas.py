"""Formulas: found, drawn, shown in their line, copied as they were written; money is no formula."""

import pytest
from PySide6.QtGui import QTextCursor, QTextDocument
from pytestqt.qtbot import QtBot

from app.chat.blocks import markdown_parser
from app.chat.excerpt import selected_text
from app.chat.formula_drawing import draw
from app.chat.formula_object import OBJECT
from app.chat.formulas import Formulas
from app.theme import LIGHT
from tests.app.chat.growing import Growing


def found(text: str) -> list[str]:
    """The LaTeX of every formula in a text."""
    tokens = markdown_parser().parse(text)
    every = [each for token in tokens for each in (token, *(token.children or []))]
    return [each.content for each in every if each.type.startswith("formula")]


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("a $x^2$ b", ["x^2"]),
        ("\\(a\\) and \\[b\\]", ["a", "b"]),
        ("$$\na = b\n$$\n", ["a = b"]),
        ("\\[\na\n\\]\ntext", ["a"]),
        ("- $$x$$", ["x"]),
        ("$5 and $6", []),
        ("$5,$6", []),
        ("US$ 5 and US$ 6", []),
        ("from $5 or US$", []),
        ("`$x$` and \\$x$", []),
        ("```\n$x$\n```", []),
        ("$$\na", []),
        ("$$\na\n\nb\n$$", []),
    ],
)
def test_formulas_are_told_from_money_and_code(text: str, formulas: list[str]) -> None:
    assert found(text) == formulas


@pytest.mark.parametrize("latex", ["\\frac{", "\\nosuchcommand{x}", "x" * 5_000])
def test_what_is_no_formula_is_not_drawn(latex: str) -> None:
    assert draw(latex, displayed=False) is None


def test_a_fraction_stands_on_its_line() -> None:
    drawn = draw("\\frac{a}{b}", displayed=False)
    assert drawn is not None
    assert drawn.ascent > drawn.depth > 0 < drawn.width


def test_a_formula_is_shown_when_it_is_drawn_and_copied_as_written(qtbot: QtBot) -> None:
    document, formulas = QTextDocument(), Formulas()
    markdown = Growing(document, LIGHT, formulas)
    markdown.append("So $x^2$ and $\\frac{$ and\n\n$$y$$\n\nend")
    assert "$x^2$" in document.toPlainText(), "the source is shown until it is drawn"
    qtbot.waitUntil(lambda: document.toPlainText().count(OBJECT) == 2)
    assert "$\\frac{$" in document.toPlainText()
    cursor = QTextCursor(document)
    cursor.select(QTextCursor.SelectionType.Document)
    assert markdown.text
    assert selected_text(cursor) == "So $x^2$ and $\\frac{$ and\n\n$$y$$\n\nend"
    formulas.close()

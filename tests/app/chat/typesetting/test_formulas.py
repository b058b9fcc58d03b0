"""Formulas: found, drawn, shown in their line, copied as they were written; money is no formula."""

import json
import math
import threading
from dataclasses import asdict

import pytest
from PySide6.QtGui import QFontMetrics, QImage, QTextCursor, QTextDocument, QTextFormat, QTextImageFormat
from pytestqt.qtbot import QtBot

from app.chat.history.message import Message
from app.chat.text.document_style import Look
from app.chat.text.markdown_parser import markdown_parser
from app.chat.text.selection import selected_text
from app.chat.typesetting.drawing_process import DrawingProcess
from app.chat.typesetting.formula_drawing import Formula, draw, formula_of
from app.chat.typesetting.formula_places import OBJECT
from app.chat.typesetting.formulas import Formulas, Latex
from app.chat.typesetting.layout_cost import Budget
from app.chat.typesetting.typesetter import Typesetter
from app.chat.view.answer_view import AnswerView
from app.settings.preferences import TINT_ORIGIN
from app.ui.theme import DARK, LIGHT
from tests.app.chat.text.growing import Growing

PATIENCE_SECONDS = 60.0
BOX = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><path d="M0 0 H10 V10 H0 Z" fill="#010203"/></svg>'


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


def nested(command: str, levels: int) -> str:
    """A formula in a formula in a formula."""
    return command * levels + "x" + "}" * levels


@pytest.mark.parametrize(
    "latex", ["\\frac{", "\\nosuchcommand{x}", "x" * 5_000, nested("\\sqrt{", 9), nested("^{", 50)]
)
def test_what_is_no_formula_is_not_drawn(latex: str) -> None:
    assert draw(latex, displayed=False) is None


def test_a_continued_fraction_of_five_levels_is_drawn() -> None:
    drawn = draw(nested("\\frac{1}{1+", 5), displayed=False)
    assert drawn is not None
    assert formula_of(json.loads(json.dumps(asdict(drawn)))) == drawn


@pytest.mark.parametrize("latex", ["\\rule{1em}{999999em}", "\\rule{999999em}{1em}", "x\\hspace{999999em}y"])
def test_a_formula_larger_than_any_page_is_not_drawn(latex: str) -> None:
    assert draw(latex, displayed=True) is None


@pytest.mark.parametrize(
    "change",
    [
        {"ascent": 41.0},
        {"depth": 1e9},
        {"depth": -41.0},
        {"width": 1e9},
        {"width": 0.0},
        {"width": math.nan},
        {"ascent": math.inf},
        {"svg": None},
        {"svg": "<svg><image href='/dev/zero'/></svg>"},
        {"svg": "<svg>" + "<path/>" * 100_000 + "</svg>"},
    ],
)
def test_a_drawing_of_another_size_or_with_other_things_in_it_is_not_shown(change: dict[str, object]) -> None:
    sound = asdict(Formula(BOX, 1.0, 1.0, 0.0))
    assert formula_of(sound) is not None
    assert formula_of(sound | change) is None


def test_the_pictures_of_a_document_have_their_room() -> None:
    document, formulas = QTextDocument(), Drawer()
    for each in range(60):
        formulas._on_finished(Latex(f"a_{each}", "$", displayed=False), Formula(BOX, 40.0, 40.0, 0.0))
    Growing(document, LIGHT, formulas).append(" ".join(f"$a_{each}$" for each in range(60)))
    shown = len(formats(document))
    pixels = sum(image(document, each).width() * image(document, each).height() for each in formats(document))
    assert 0 < shown < 60
    assert document.toPlainText().count("$") == 2 * (60 - shown), "the others are shown as they were written"
    assert pixels <= 8_000_000


def test_a_fraction_stands_on_its_line() -> None:
    drawn = draw("\\frac{a}{b}", displayed=False)
    assert drawn is not None
    assert drawn.ascent > drawn.depth > 0 < drawn.width


def test_a_formula_is_shown_when_it_is_drawn_and_copied_as_written(qtbot: QtBot) -> None:
    document, formulas = QTextDocument(), Formulas(typesetter=Typesetter(process=DrawingProcess(PATIENCE_SECONDS)))
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


@pytest.mark.parametrize(
    "text",
    [
        "$$\n\\begin{aligned}\na &= b \\\\\nc &= d\n\\end{aligned}\n$$\n\nend\n",
        "T $a +\nb$ u\n\nend\n",
        "T $\U0001d465 = 1$ u\n\nend\n",
    ],
    ids=["lines", "inline", "beyond 16 bits"],
)
def test_a_formula_of_several_lines_or_with_rare_letters_is_shown_when_it_is_drawn(text: str) -> None:
    document, formulas = QTextDocument(), Drawer()
    Growing(document, LIGHT, formulas).append(text)
    (latex,) = formulas.asked
    formulas._on_finished(latex, Formula(BOX, 1, 1.0, 0.0))
    formulas._telling.flush()
    cursor = QTextCursor(document)
    cursor.select(QTextCursor.SelectionType.Document)
    assert document.toPlainText().count(OBJECT) == 1
    assert selected_text(cursor).replace("\n", "") == text.replace("\n", ""), "it is copied as it was written"


class Drawer(Formulas):
    """Formulas that are drawn when the test says so: squares, as wide as they have letters."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[Latex] = set()

    def is_known(self, latex: Latex) -> bool:
        """Nothing is drawn by itself."""
        self.asked.add(latex)
        return latex in self._pictures

    def finish(self, *contents: str, depth: float = 0.0) -> None:
        """These are drawn now."""
        for each in contents:
            self._on_finished(Latex(each, "$", displayed=False), Formula(BOX, len(each), 1.0, depth))
        self._telling.flush()


def formats(document: QTextDocument) -> list[QTextImageFormat]:
    """Those of the formulas in a document, from the first to the last."""
    found, place = [], document.find(OBJECT)
    while not place.isNull():
        found.append(place.charFormat().toImageFormat())
        place = document.find(OBJECT, place)
    return found


def image(document: QTextDocument, layout: QTextImageFormat) -> QImage:
    """The picture of a formula."""
    kept: QImage = document.resource(QTextDocument.ResourceType.ImageResource.value, layout.name())
    return kept


def test_pictures_take_their_places_paragraph_by_paragraph_as_there_is_time() -> None:
    document, formulas = QTextDocument(), Drawer()
    markdown = Growing(document, LIGHT, formulas)
    markdown.append("$a$ $a$ $a$\n\n$a$ $a$\n\n$a$ $b$\n\nend")
    markdown.fell_behind.disconnect()
    formulas.finish("a")
    left: list[int] = []
    while markdown.is_behind:
        left.append(document.toPlainText().count("$a$"))
        markdown.write(Budget(0.0))
    assert left == [6, 5, 3], "one paragraph in a turn"
    assert (document.toPlainText().count("$"), len(formats(document))) == (2, 6)


def test_a_screen_full_of_formulas_is_painted_by_qt_alone() -> None:
    document, formulas = QTextDocument(), Drawer()
    formulas.finish("a", "b")
    Growing(document, LIGHT, formulas).append("$a$ " * 100 + "$b$\n\n")
    assert len(formats(document)) == 101
    assert all(each.isImageFormat() for each in formats(document))
    assert len({each.name() for each in formats(document)}) == 2, "every formula has one picture"


def test_pictures_that_come_together_are_told_together(qtbot: QtBot) -> None:
    formulas, told = Drawer(), list[frozenset[Latex]]()
    formulas.settled.connect(told.append)
    for each in "abcdef":
        formulas._on_finished(Latex(each, "$", displayed=False), None)
    qtbot.waitUntil(lambda: sum(len(each) for each in told) == 6)
    assert len(told) == 2, "the first at once, the others a frame later"
    formulas.close()


@pytest.mark.parametrize("depth", [0.1, 0.4, 1.0, 3.0])
def test_a_formula_stands_on_the_line(depth: float) -> None:
    document, formulas = QTextDocument(), Drawer()
    formulas.finish("a", depth=depth)
    Growing(document, LIGHT, formulas).append("$a$\n\n")
    (layout,) = formats(document)
    drawn = image(document, layout)
    inked = [y for y in range(drawn.height()) if drawn.pixelColor(drawn.width() // 2, y).alpha() > 127]
    below = QFontMetrics(layout.font()).descent()
    assert layout.verticalAlignment() == layout.VerticalAlignment.AlignBaseline
    assert layout.hasProperty(QTextFormat.Property.FontPixelSize.value)
    assert below < drawn.height()
    part = depth / (1 + depth)
    assert abs(below - len(inked) * part) <= 1.5, "the layout puts so many pixels of it below the line"


def test_a_formula_is_no_wider_than_the_text_and_grows_with_it_again() -> None:
    document, formulas = QTextDocument(), Drawer()
    formulas.finish("a" * 100, "b")
    document.setTextWidth(300)
    markdown = Growing(document, LIGHT, formulas)
    markdown.append(f"${'a' * 100}$ $b$\n\n")
    long, short = formats(document)
    widths = [image(document, long).width()]
    least = image(document, short).width()
    for width in (100, 300, 10_000):
        document.setTextWidth(width)
        markdown.fit()
        widths.append(image(document, long).width())
    assert widths[:3] == [300, 100, 300]
    assert 300 < widths[3] < 10_000
    assert image(document, short).width() == least


def test_formulas_are_drawn_anew_in_other_colours_and_letters_of_another_size(qtbot: QtBot) -> None:
    formulas = Drawer()
    formulas.finish("a")
    view = AnswerView(Message("assistant", "$a$\n\n"), Look(LIGHT, points=10.0), formulas)
    qtbot.addWidget(view)
    document = view.text.document()
    qtbot.waitUntil(lambda: len(formats(document)) == 1)
    light = image(document, formats(document)[0]).pixelColor(2, 2)
    view.set_look(Look(DARK, points=10.0))
    qtbot.waitUntil(lambda: not view.body.is_behind)
    assert image(document, formats(document)[0]).pixelColor(2, 2).lightness() > light.lightness()
    before = image(document, formats(document)[0]).cacheKey()
    view.set_look(Look(DARK, points=10.0, tint=TINT_ORIGIN))
    assert image(document, formats(document)[0]).cacheKey() == before
    view.set_look(Look(DARK, points=20.0))
    qtbot.waitUntil(lambda: not view.body.is_behind)
    assert image(document, formats(document)[0]).cacheKey() != before


class Held(DrawingProcess):
    """Has no answer to anything, and none before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def ask(self, _request: dict[str, object]) -> None:
        assert self.let_go.wait(PATIENCE_SECONDS)


def test_what_nobody_waits_for_is_not_drawn(qtbot: QtBot) -> None:
    process = Held()
    formulas, told = Formulas(typesetter=Typesetter(process=process)), list[Latex]()
    formulas.settled.connect(told.extend)
    wanted = [Latex(f"x_{{{number}}}", "$", displayed=False) for number in range(300)]
    for each in wanted:
        formulas.is_known(each)
    formulas.give_up()
    last = Latex("y", "$", displayed=False)
    formulas.is_known(last)
    process.let_go.set()
    qtbot.waitUntil(lambda: last in told)
    assert set(told) <= {wanted[0], last}, "the one that was being drawn"
    formulas.is_known(wanted[-1])
    qtbot.waitUntil(lambda: wanted[-1] in told)
    formulas.close()

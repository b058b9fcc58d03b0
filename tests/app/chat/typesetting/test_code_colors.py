"""Code is shown at once, and in colours as soon as they are known; while it grows it keeps those that it has."""

from typing import Any

import pytest
from PySide6.QtGui import QTextCursor, QTextDocument
from pytestqt.qtbot import QtBot

from app.chat.typesetting.code_kinds import CodeKinds, CodeText
from app.chat.typesetting.code_places import CodeColors, CodeLook
from app.chat.typesetting.drawing_program import token_runs
from app.chat.typesetting.formulas import Formulas
from app.chat.typesetting.typesetter import Typesetter, TypesettingJob
from app.ui.theme import DARK, LIGHT
from tests.app.chat.text.growing import Growing

CODE = 'def f(x):\n    """Says \U0001f333 to x."""\n    return [x, 12]  # all\n'


class Hand(Typesetter):
    """Does the jobs when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[TypesettingJob] = []

    def ask(self, job: TypesettingJob) -> None:
        """It waits."""
        self.jobs.append(job)

    def drop(self, unwanted: Any) -> None:
        """It is not wanted any more."""
        self.jobs = [each for each in self.jobs if not unwanted(each)]

    def work(self) -> int:
        """Do all of them; returns their number."""
        jobs, self.jobs = self.jobs, []
        for each in jobs:
            assert isinstance(each, CodeText)
            self.answered.emit(each, token_runs(each.code, each.language))
        return len(jobs)


def colored(document: QTextDocument) -> list[tuple[str, str, bool]]:
    """The letters of the code that have a colour, or are bold."""
    found = []
    for position in range(1, document.characterCount()):
        cursor = QTextCursor(document)
        cursor.setPosition(position)
        letter, look = document.characterAt(position - 1), cursor.charFormat()
        if cursor.charFormat().fontFamilies() and not letter.isspace() and look.foreground().color() != "#000000":
            found.append((letter, look.foreground().color().name(), look.fontWeight() > 500))
    return found


def test_code_is_plain_until_its_colours_are_known(qtbot: QtBot) -> None:
    document, hand = QTextDocument(), Hand()
    growing = Growing(document, LIGHT, Formulas(typesetter=hand))
    growing.append(f"```python\n{CODE}```\n\nend\n\n")
    before, text = len(colored(document)), document.toPlainText()
    assert CODE.strip() in text
    assert hand.work() == 1
    assert not growing.is_behind
    assert document.toPlainText() == text
    assert len(colored(document)) - before > 30
    at_once = QTextDocument()
    again = Growing(at_once, LIGHT, growing_formulas := Formulas(typesetter=hand))
    again.append(f"```python\n{CODE}```\n\nend\n\n")
    hand.work()
    assert colored(at_once) == colored(document)
    third = QTextDocument()
    Growing(third, LIGHT, growing_formulas).append(f"```python\n{CODE}```\n\nend\n\n")
    assert not hand.jobs, "it is known"
    assert colored(third) == colored(document)
    assert third.toHtml() == document.toHtml(), "colours that came later look like those that were there"


def test_growing_code_keeps_its_colours(qtbot: QtBot) -> None:
    document, hand = QTextDocument(), Hand()
    growing = Growing(document, LIGHT, Formulas(typesetter=hand))
    growing.append("```python\n")
    shown = 0
    for letter in CODE:
        growing.append(letter)
        assert len(colored(document)) >= shown, "no letter loses the colour that it has"
        assert len(hand.jobs) <= 1, "what it has grown from is not asked for any more"
        hand.work()
        shown = len(colored(document))
    assert shown > 30


def test_code_that_is_cut_keeps_its_colours_in_both_pieces() -> None:
    hand = Hand()
    kinds = CodeKinds(hand)
    whole = CodeText("x = 1\n" * 41, "python")
    kinds.runs(whole)
    hand.work()
    for piece in (whole.code[:240], whole.code[240:]):
        runs = kinds.runs(CodeText(piece, "python"))
        assert sum(length for length, _ in runs) == len(piece)
        assert runs[0] == (1, "Token.Name")
    assert kinds.runs(CodeText("y = 1", "python")) == ()


@pytest.mark.parametrize(
    "answer", [None, [], 3, "x", [["a", 1]], [[5, "Token.Name"], [-2, "Token.Name"]], [[99, "Token"]]]
)
def test_an_answer_that_does_not_fit_gives_no_colours(answer: Any) -> None:
    hand = Hand()
    kinds = CodeKinds(hand)
    text = CodeText("abc", "python")
    kinds.runs(text)
    hand.answered.emit(text, answer)
    assert kinds.runs(text) == ()
    assert kinds.is_settled(text)


def test_a_language_that_misses_its_deadline_again_and_again_is_not_asked_for() -> None:
    hand = Hand()
    kinds = CodeKinds(hand)
    for name in "abc":
        kinds.runs(CodeText(name, "python"))
        kinds.runs(CodeText(name + "more", "python"))
        hand.answered.emit(CodeText(name, "python"), None)
    hand.jobs.clear()
    assert kinds.runs(CodeText("d", "python")) == ()
    assert not hand.jobs
    assert kinds.is_settled(CodeText("d", "python"))
    kinds.runs(CodeText("d", "c"))
    assert hand.jobs == [CodeText("d", "c")]


@pytest.mark.parametrize(
    ("code", "language"),
    [("a", ""), ("a", "l" * 41), ("a" * 6_001, "python")],
)
def test_what_no_lexer_is_for_is_not_asked_for(code: str, language: str) -> None:
    hand = Hand()
    kinds = CodeKinds(hand)
    assert kinds.runs(CodeText(code, language)) == ()
    assert kinds.is_settled(CodeText(code, language))
    assert not hand.jobs


def test_code_in_a_list_is_coloured_too(qtbot: QtBot) -> None:
    document, hand = QTextDocument(), Hand()
    growing = Growing(document, DARK, Formulas(typesetter=hand))
    growing.append("- a\n  ```python\n  def f(): pass\n  ```\n- b\n  ```python\n  return 1\n  ```\n\nend\n\n")
    assert [each.request["code"] for each in hand.jobs] == ["def f(): pass", "return 1"]
    hand.work()
    keyword = CodeColors(DARK.code_style).stretches("def", [(3, "Token.Keyword")])[0][0].color.lower()
    bright = "".join(letter for letter, color, _ in colored(document) if color == keyword)
    assert bright == "defpassreturn"


def test_kinds_that_a_lexer_has_made_up_look_like_what_they_belong_to() -> None:
    colors = CodeColors("friendly")
    ((look, length),) = colors.stretches("abc", [(3, "Token.Keyword.Odd.Kind")])
    assert (look, length) == (colors.stretches("abc", [(3, "Token.Keyword")])[0])
    assert look != CodeLook()


def test_code_of_very_many_colours_stays_without() -> None:
    runs = [(1, "Token.Keyword"), (1, "Token.Name")] * 400
    assert CodeColors("friendly").stretches("ab" * 400, runs) == [(CodeLook(), 800)]

"""The formulas of one document: shown as they were written first, and as pictures as soon as there are some."""

from collections.abc import Set as AbstractSet

from PySide6.QtGui import QTextCursor, QTextDocument, QTextFormat

from app.chat.typesetting.budget import Budget
from app.chat.typesetting.formula_image import OBJECT, FormulaImages
from app.chat.typesetting.formulas import Formulas, Latex

_Place = tuple[QTextCursor, Latex]  # the text of a formula, selected


class FormulaPlaces:
    """Puts pictures into a document. Without `formulas` everything stays as it was written."""

    def __init__(self, document: QTextDocument, formulas: Formulas | None, color: str) -> None:
        self._document = document
        self._formulas = formulas
        self._images = FormulaImages(document, color)
        self._awaited: list[_Place] = []
        self._ready: list[_Place] = []

    @property
    def is_current(self) -> bool:
        """Whether all pictures that there are stand in their places."""
        return not self._ready

    def clear(self, color: str) -> None:
        """The document was emptied; what comes will be in this colour."""
        self._images.clear(color)
        self._awaited, self._ready = [], []

    def fit(self) -> None:
        """The document has another width."""
        self._images.fit()

    def place(self, found: QTextCursor, latex: Latex) -> None:
        """Put a formula in the place of the selected text."""
        if self._formulas is not None and self._formulas.is_known(latex):
            self._draw(found, latex)
        else:
            found.insertText(latex.source)
            found.setPosition(found.position() - len(latex.source), QTextCursor.MoveMode.KeepAnchor)
            self._awaited.append((found, latex))

    def take(self, drawn: AbstractSet[Latex]) -> None:
        """These are settled now; `draw` puts them where they are awaited."""
        self._ready += [each for each in self._awaited if each[1] in drawn]
        self._awaited = [(place, each) for place, each in self._awaited if each not in drawn and place.hasSelection()]

    def draw(self, budget: Budget) -> None:
        """Put pictures in their places, all of a paragraph at once, until none is left or the time is up."""
        whole = QTextCursor(self._document)
        while self._ready:
            paragraph = self._ready[-1][0].block()
            whole.beginEditBlock()
            while self._ready and self._ready[-1][0].block() == paragraph:
                place, latex = self._ready.pop()
                if place.selectedText() == latex.source:  # it still stands there
                    self._draw(place, latex)
            whole.endEditBlock()
            if budget.is_spent:
                return

    def _draw(self, place: QTextCursor, latex: Latex) -> None:
        picture = self._formulas.picture(latex) if self._formulas else None
        shown = self._images.format(latex, picture) if picture is not None else None
        if shown is None:
            place.insertText(latex.source)
        else:
            plain = QTextFormat(place.charFormat()).toCharFormat()
            place.insertText(OBJECT, shown)
            place.setCharFormat(plain)

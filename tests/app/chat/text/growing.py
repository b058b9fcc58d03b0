"""Markdown that grows in a document of its own, as a section of an answer does."""

import math

from PySide6.QtGui import QTextDocument

from app.chat.text.document import MarkdownDocument
from app.chat.text.manuscript import Manuscript
from app.chat.text.rendering import BlockRenderer
from app.chat.typesetting.formulas import Formulas
from app.chat.typesetting.layout_cost import Budget
from app.ui.theme import Colors


class Growing(MarkdownDocument):
    """A document whose section is all of the text."""

    def __init__(self, document: QTextDocument, colors: Colors, formulas: Formulas | None = None) -> None:
        self.manuscript = Manuscript(section_size=1 << 30)
        super().__init__(document, self.manuscript, BlockRenderer(colors), formulas)
        self.fell_behind.connect(lambda: self.write(Budget()))

    def append(self, text: str, seconds: float = math.inf) -> None:
        """Add Markdown, cut it and write it."""
        self.manuscript.add(text)
        self.manuscript.cut(Budget(seconds))
        self.write(Budget(seconds))

    @property
    def is_behind(self) -> bool:
        """Whether some of the text is not there yet."""
        return self.manuscript.is_behind or not self.is_current

    def set_theme(self, colors: Colors) -> None:
        """Write it anew in other colours."""
        self.set_renderer(BlockRenderer(colors))
        self.write(Budget())

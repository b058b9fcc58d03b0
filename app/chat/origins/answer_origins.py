"""Where the text of an answer comes from, shown in every section of it that exists."""

from PySide6.QtCore import QObject, QPoint, QRect, QSize, Signal
from PySide6.QtWidgets import QWidget

from app.chat.history.chances import Chances
from app.chat.history.token_origins import Origin, TokenOrigins
from app.chat.origins.origin_display import OriginDisplay
from app.chat.text.document_style import Look
from app.chat.text.markdown_view import MarkdownView, Shown
from app.chat.text.message_text import MessageText


class AnswerOrigins(QObject):
    """Passes on what is known of the origins to the sections, also to those that come near later.

    An answer has a body of sections for its text, and another one for its thinking once somebody has opened that.
    """

    token_hovered = Signal(int, int)  # request and number of a round; 0 and -1: of none any more
    token_chosen = Signal(int, int)  # the same of a click

    def __init__(self, look: Look, view: QWidget) -> None:
        super().__init__(view)
        self._view = view
        self._look = look
        self._begins: dict[MarkdownView, int] = {}  # where the text of each body begins in what the model wrote
        self._origins: TokenOrigins | None = None
        self._chances: Chances | None = None
        self._stretch: tuple[int, int] | None = None
        self._displays: dict[MessageText, OriginDisplay] = {}

    def add_body(self, body: MarkdownView) -> None:
        """Show origins in this text as well."""
        self._begins[body] = 0
        body.section_added.connect(lambda shown: self._add(body, shown))
        for each in body.shown:
            self._add(body, each)

    def set_origins(self, origins: TokenOrigins) -> None:
        """Know where the text comes from."""
        self._origins = origins
        for each in self._shown():
            each.set_origins(origins)

    def set_chances(self, chances: Chances) -> None:
        """Know how likely the target found the text; of more text it is told again."""
        self._chances = chances
        for each in self._shown():
            each.set_chances(chances)

    def set_look(self, look: Look) -> None:
        """Tint in other colours, or no longer."""
        self._look = look
        for each in self._shown():
            each.set_look(look)

    def mark(self, stretch: tuple[int, int] | None) -> None:
        """Mark these characters of what the model wrote; None for none."""
        self._stretch = stretch
        for each in self._shown():
            each.mark(stretch)

    @property
    def mark_place(self) -> QRect | None:
        """Where the mark begins in the answer's view, or about where it will; None if nothing is to be seen of it."""
        visible = [body for body in self._begins if body.isVisibleTo(self._view)]
        for body in visible:
            for shown in body.shown:
                place = self._displays[shown.text].mark_place
                if place is not None:
                    return place.translated(shown.text.mapTo(self._view, QPoint()))
        begin = self._stretch[0] if self._stretch else -1
        for body in visible:
            if 0 <= (far := begin - self._begins[body]) < len(body.manuscript.text):
                return QRect(body.mapTo(self._view, QPoint(0, body.guess_top(far))), QSize(1, 1))
        return None

    def show_written(self, body: MarkdownView, begin: int) -> None:
        """Text was written; `begin`: where that of this body begins in what the model wrote."""
        self._begins[body] = begin
        for each in body.shown:
            self._displays[each.text].show_written(begin)

    def origin_at(self, position: int) -> Origin | None:
        """Where the character at a position of the first section that exists comes from; None if it is not known."""
        return self._shown()[0].origin_at(position)

    def _shown(self) -> list[OriginDisplay]:
        return [self._displays[each.text] for body in self._begins for each in body.shown]

    def _add(self, body: MarkdownView, shown: Shown) -> None:
        display = OriginDisplay(shown.text, shown.document, self._look)
        self._displays[shown.text] = display
        shown.text.destroyed.connect(self._forget)
        display.token_hovered.connect(self.token_hovered)
        display.token_chosen.connect(self.token_chosen)
        if self._origins is not None:
            display.set_origins(self._origins)
        if self._chances is not None:
            display.set_chances(self._chances)
        display.show_written(self._begins[body])
        display.mark(self._stretch)

    def _forget(self) -> None:
        kept = {each.text for body in self._begins for each in body.shown}
        self._displays = {text: display for text, display in self._displays.items() if text in kept}

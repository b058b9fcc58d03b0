"""What is known of the tokens of an answer, in every section that exists: a tint, and the round under the mouse."""

from itertools import chain, repeat

from PySide6.QtCore import QObject, QPoint, QRect, QSize, Signal
from PySide6.QtGui import QTextBlock, QTextLayout
from PySide6.QtWidgets import QWidget

from app.chat.history.token_origins import TokenOrigin, TokenOrigins
from app.chat.history.token_probabilities import TokenProbabilities
from app.chat.origins.round_mark import PlacedWord, RoundMark, letters_of, positions_of, source_place, words_in
from app.chat.origins.tint import TokenTint
from app.chat.text.document import BlockFrame, MarkdownDocument
from app.chat.text.document_style import CODE, Look, code_stretches
from app.chat.text.markdown_view import MarkdownView, Shown
from app.chat.text.message_text import MessageText
from app.settings.preferences import TINT_CHANCE, TINT_OFF
from app.system.plain_text import tip


class OriginDisplay(QObject):
    """Tints one section, but for code. The tint is a layout format and no part of the document: copies lack it."""

    token_hovered = Signal(int, int)  # request and number of a round; 0 and -1: of none any more
    token_chosen = Signal(int, int)  # the same of a click

    def __init__(self, text: MessageText, markdown: MarkdownDocument, look: Look) -> None:
        super().__init__(text)
        self._text = text
        self._markdown = markdown
        self._look = look
        self._known = TokenTint()
        self._begin = 0  # of the answer in what the model wrote
        self._tinted: list[int] | None = []  # lengths of the frames that keep their tint; None: nothing is tinted
        self._hovered: tuple[int, int] | None = None
        self._mark = RoundMark(text, markdown, look.colors)
        self._stretch: tuple[int, int] | None = None  # that is marked, in what the model wrote
        text.hovered.connect(self._on_hovered)
        text.pointed.connect(self._on_pointed)

    def set_origins(self, origins: TokenOrigins) -> None:
        """Know where the text comes from."""
        self._known.origins = origins
        self._tint_all()

    def set_probabilities(self, probabilities: TokenProbabilities) -> None:
        """Know how likely the target found the text; of more text it is told again."""
        self._known.probabilities.follow(probabilities)
        if self._look.tint == TINT_CHANCE:
            self._tint()

    def set_look(self, look: Look) -> None:
        """Tint in other colours, or no longer."""
        self._look = look
        self._mark.set_colors(look.colors)
        self._tint_all()

    def mark(self, stretch: tuple[int, int] | None) -> None:
        """Mark these characters of what the model wrote; None for none."""
        self._stretch = stretch
        shown = stretch and (stretch[0] - self._begin, stretch[1] - self._begin)
        self._mark.show(shown if shown and shown[1] > 0 else None)

    @property
    def mark_place(self) -> QRect | None:
        """Where the mark begins in the text's widget; None if there is nothing to be seen of it."""
        return self._mark.place

    def show_written(self, begin: int) -> None:
        """Text was written; `begin`: where the answer begins in what the model wrote."""
        if begin != self._begin:
            self._begin = begin
            self.mark(self._stretch)
        elif self._stretch is not None:
            self._mark.refresh()
        self._tint()

    def origin_at(self, position: int) -> TokenOrigin | None:
        """Where the character at a position of the document comes from, None if that is not known."""
        found = self._source_at(position)
        origins = self._known.origins
        return None if found is None or origins is None else origins.at(found)

    def _source_at(self, position: int) -> int | None:
        """The place in what the model wrote of the character at a position of the document."""
        if position < 0:
            return None
        block = self._text.document().findBlock(position)
        own = self._block_frame_at(position)
        if own is None or not block.text().strip():
            return None
        first = self._text.document().findBlock(own.frame.firstPosition())
        shown, place = "", 0
        while first.isValid() and first.position() <= block.position():
            place = len(shown) + letters_of(first.text(), position - first.position())
            shown += first.text() + "\n"
            first = first.next()
        found = source_place(shown, place, self._markdown.text, own.begin, own.end)
        return None if found is None else self._begin + found

    def _tint_all(self) -> None:
        self._tinted = []
        self._tint()

    def _tint(self) -> None:
        """Go over the frames that are new, or in which formulas came; the open ones are gone over every time."""
        if self._tinted is None:
            return
        count = self._markdown.blocks_written
        known = self._tinted if len(self._tinted) <= count else []
        frames = self._markdown.block_frames()
        lengths = [each.frame.lastPosition() - each.frame.firstPosition() for each in frames]
        for own, length, before in zip(frames, lengths, chain(known, repeat(-1)), strict=False):
            if length != before and not own.frame.frameFormat().hasProperty(CODE):
                self._tint_frame(own)
        self._tinted = lengths[:count] if self._look.tint != TINT_OFF else None

    def _tint_frame(self, own: BlockFrame) -> None:
        document = self._text.document()
        for block, words in words_in(own, document, self._markdown.text):
            block.layout().setFormats(self._formats(block, words) if self._look.tint != TINT_OFF else [])
            document.markContentsDirty(block.position(), block.length())

    def _formats(self, block: QTextBlock, words: list[PlacedWord]) -> list[QTextLayout.FormatRange]:
        code = [(start, start + length) for start, length in code_stretches(block)]
        text, made = block.text(), []
        for start, end, place in words:
            at = positions_of(text, start)
            if any(begin <= at < stop for begin, stop in code):
                continue
            here = place + self._begin
            grounds = self._known.grounds(here, here + end - start, self._look.tint, self._look.colors)
            for begin, stop, ground in grounds:
                piece = QTextLayout.FormatRange()
                piece.start = at + positions_of(text[start:], begin - here)
                piece.length = positions_of(text[start + begin - here :], stop - begin)
                piece.format = ground
                made.append(piece)
        return made

    def _block_frame_at(self, position: int) -> BlockFrame | None:
        for each in self._markdown.block_frames():
            if each.frame.firstPosition() <= position <= each.frame.lastPosition():
                return each
        return None

    def _on_hovered(self, position: int) -> None:
        origin = self.origin_at(position)
        if self._look.tint != TINT_OFF or self._text.toolTip():
            self._text.setToolTip(tip(self._known.words(self._source_at(position), self._look.tint)))
        named = None if origin is None else (origin.request, origin.round)
        if named != self._hovered:
            self._hovered = named
            self.token_hovered.emit(*(named or (0, -1)))

    def _on_pointed(self, position: int) -> None:
        origin = self.origin_at(position)
        if origin is not None:
            self.token_chosen.emit(origin.request, origin.round)


class AnswerOrigins(QObject):
    """Gives origins and probabilities to every section of an answer, also to those that are made later.

    An answer has a body of sections for its text, and another one for its thinking once that was opened.
    """

    token_hovered = Signal(int, int)  # request and number of a round; 0 and -1: of none any more
    token_chosen = Signal(int, int)  # the same of a click

    def __init__(self, look: Look, view: QWidget) -> None:
        super().__init__(view)
        self._view = view
        self._look = look
        self._begins: dict[MarkdownView, int] = {}  # where the text of each body begins in what the model wrote
        self._origins: TokenOrigins | None = None
        self._probabilities: TokenProbabilities | None = None
        self._stretch: tuple[int, int] | None = None
        self._displays: dict[MessageText, OriginDisplay] = {}

    def add_body(self, body: MarkdownView) -> None:
        """Show origins in this text as well."""
        self._begins[body] = 0
        body.section_added.connect(lambda shown: self._add(body, shown))
        for each in body.shown:
            self._add(body, each)

    def remove_body(self, body: MarkdownView) -> None:
        """This text is shown no longer."""
        self._begins.pop(body, None)
        self._forget()

    def set_origins(self, origins: TokenOrigins) -> None:
        """Know where the text comes from."""
        self._origins = origins
        for each in self._shown():
            each.set_origins(origins)

    def set_probabilities(self, probabilities: TokenProbabilities) -> None:
        """Know how likely the target found the text; of more text it is told again."""
        self._probabilities = probabilities
        for each in self._shown():
            each.set_probabilities(probabilities)

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

    def origin_at(self, position: int) -> TokenOrigin | None:
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
        if self._probabilities is not None:
            display.set_probabilities(self._probabilities)
        display.show_written(self._begins[body])
        display.mark(self._stretch)

    def _forget(self) -> None:
        kept = {each.text for body in self._begins for each in body.shown}
        self._displays = {text: display for text, display in self._displays.items() if text in kept}

"""The code in one document: shown at once, and in colours as soon as the kinds of its tokens are known."""

from collections.abc import Iterable
from dataclasses import dataclass

from pygments.styles import get_style_by_name  # type: ignore[import-untyped]
from pygments.token import string_to_tokentype  # type: ignore[import-untyped]
from PySide6.QtGui import QColor, QFont, QTextCharFormat, QTextCursor, QTextDocument, QTextFormat

from app.chat.typesetting.code_kinds import CodeKinds, CodeText
from app.chat.typesetting.layout_cost import Budget

_MOST_STRETCHES = 500  # what changes its colour more often in a few lines stays without

_MOST_AWAITED = 64  # then those that do not stand there any more are looked for
_DRESS = (QTextFormat.Property.ForegroundBrush, QTextFormat.Property.FontWeight, QTextFormat.Property.FontItalic)
_Place = tuple[QTextCursor, CodeText]  # the code, selected


@dataclass(frozen=True, slots=True)
class CodeLook:
    """How a kind of token looks; `color` is empty where it is that of all text."""

    color: str = ""
    is_bold: bool = False
    is_italic: bool = False


class CodeColors:
    """Gives the kinds of tokens the looks of a style of pygments."""

    def __init__(self, style: str) -> None:
        self._style = get_style_by_name(style)
        self._looks: dict[str, CodeLook] = {}

    def stretches(self, code: str, runs: Iterable[tuple[int, str]]) -> list[tuple[CodeLook, int]]:
        """Stretches of one look and their lengths, as far as the runs go; blanks take that of what stands before."""
        found: list[tuple[CodeLook, int]] = []
        place = 0
        for length, kind in runs:
            look = self._look(kind)
            if found and (look == found[-1][0] or code[place : place + length].isspace()):
                found[-1] = (found[-1][0], found[-1][1] + length)
            else:
                found.append((look, length))
            place += length
        return found if len(found) <= _MOST_STRETCHES else [(CodeLook(), place)]

    def _look(self, kind: str) -> CodeLook:
        if kind not in self._looks:
            token = string_to_tokentype(kind.removeprefix("Token").removeprefix("."))
            while token not in self._style._styles and token.parent is not None:  # a kind that a lexer has made up
                token = token.parent
            style = self._style.style_for_token(token)
            color = f"#{style['color']}" if style["color"] else ""
            self._looks[kind] = CodeLook(color, bool(style["bold"]), bool(style["italic"]))
        return self._looks[kind]


class CodePlaces:
    """Writes code into a document. Without `kinds` it stays without colours."""

    def __init__(self, document: QTextDocument, kinds: CodeKinds | None, style: str) -> None:
        self._document = document
        self._kinds = kinds
        self.clear(style)

    @property
    def is_current(self) -> bool:
        """Whether all colours that are known are shown."""
        return not self._ready

    def clear(self, style: str) -> None:
        """The document was emptied; what comes will be in this style of pygments."""
        self._colors = CodeColors(style)
        self._awaited: list[_Place] = []
        self._ready: list[_Place] = []

    def place(self, found: QTextCursor, text: CodeText) -> None:
        """Put code in the place of the selected text, with the colours that are known."""
        plain = found.charFormat()
        found.removeSelectedText()
        begin = found.position()
        runs = self._kinds.runs(text) if self._kinds else ()
        done = 0
        for look, length in self._colors.stretches(text.code, runs):
            found.insertText(text.code[done : done + length], _looking(plain, look))
            done += length
        found.insertText(text.code[done:], plain)
        if self._kinds is not None and not self._kinds.is_settled(text):
            found.setPosition(begin, QTextCursor.MoveMode.KeepAnchor)
            self._await(found, text)

    def take(self, text: CodeText) -> None:
        """The kinds of this are known now; `draw` shows them where they are awaited."""
        self._ready += [each for each in self._awaited if each[1] == text]
        self._awaited = [(place, each) for place, each in self._awaited if each != text and place.hasSelection()]

    def draw(self, budget: Budget) -> None:
        """Colour code until none is left or the time is up."""
        while self._ready and not budget.is_spent:
            place, text = self._ready.pop()
            if place.selectedText().replace("\u2029", "\n") == text.code:  # it still stands there
                self._color(place, text)

    def _await(self, place: QTextCursor, text: CodeText) -> None:
        if len(self._awaited) >= _MOST_AWAITED:
            self._awaited = [each for each in self._awaited if each[0].hasSelection()]
        self._awaited.append((place, text))

    def _color(self, place: QTextCursor, text: CodeText) -> None:
        runs = self._kinds.runs(text) if self._kinds else ()
        cursor = QTextCursor(self._document)
        cursor.setPosition(place.selectionStart())
        cursor.setPosition(cursor.position() + 1, QTextCursor.MoveMode.KeepAnchor)
        plain = _plain(cursor.charFormat())
        end, done = place.selectionStart(), 0
        cursor.beginEditBlock()
        for look, length in self._colors.stretches(text.code, runs):
            cursor.setPosition(end)
            end += len(text.code[done : done + length].encode("utf-16-le", "surrogatepass")) // 2
            done += length
            cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
            cursor.setCharFormat(_looking(plain, look))
        cursor.endEditBlock()


def _looking(plain: QTextCharFormat, look: CodeLook) -> QTextCharFormat:
    dressed = QTextCharFormat(plain)
    if look.color:
        dressed.setForeground(QColor(look.color))
    if look.is_bold:
        dressed.setFontWeight(QFont.Weight.Bold)
    if look.is_italic:
        dressed.setFontItalic(True)
    return dressed


def _plain(dressed: QTextCharFormat) -> QTextCharFormat:
    """The format without what `_looking` puts on."""
    plain = QTextCharFormat(dressed)
    for each in _DRESS:
        plain.clearProperty(each.value)
    return plain

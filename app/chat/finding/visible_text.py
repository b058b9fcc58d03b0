"""The text of a message as it is seen, line by line, without a widget: what is searched.

It is rendered by what the documents are rendered by, so that hit number n of a section is hit number n of the document
that shows it. A formula counts as it was written, whether it is drawn by now or not.
"""

import re
from collections.abc import Iterator
from html import unescape

from app.chat.text.blocks import Block, BlockStream
from app.chat.text.manuscript import BlockSource, Manuscript
from app.chat.text.rendering import BlockRenderer, Rendered, placeholder
from app.chat.typesetting.layout_cost import Budget
from app.ui.colors import LIGHT

Lines = tuple[str, ...]

_BREAKS = "p|li|ul|ol|h[1-6]|table|thead|tbody|tr|td|th|blockquote|hr|br|pre|div"
_BREAK = re.compile(rf"</?(?:{_BREAKS})\b[^>]*>")
_TAG = re.compile(r"<[^>]*>")
_SPACE = re.compile(r"[ \t\n\r\f]+")
_CODE = re.compile(r"(<pre[^>]*>.*?</pre>)", re.DOTALL)
_PLACE = re.compile("\ue002([0-9]+)\ue003")


def visible_lines(rendered: Rendered) -> Lines:
    """What is read of a block, a string for each line that a document begins anew."""
    found: list[str] = []
    for part in _CODE.split(rendered.html):
        if part.startswith("<pre"):
            text = unescape(_TAG.sub("", part))
            text = _PLACE.sub(lambda place: rendered.codes[int(place[1])].code, text)
            found += text.removesuffix("\n").split("\n")
        else:
            found += (_SPACE.sub(" ", unescape(_TAG.sub("", each))).strip() for each in _BREAK.split(part))
    return tuple(_with_formulas(each, rendered) for each in found if each)


def _with_formulas(line: str, rendered: Rendered) -> str:
    for number, latex in enumerate(rendered.formulas):
        line = line.replace(placeholder(number), latex.source)
    return line


class VisibleText:
    """One growing text, cut into the sections that are shown, each with its lines."""

    def __init__(self, stream: type[BlockSource] = BlockStream) -> None:
        """`stream`: what cuts it into blocks; blocks of another one than that of Markdown are read as they are."""
        self._renderer = _RENDERER if stream is BlockStream else None
        self._manuscript = Manuscript(stream=stream)
        self._closed: list[list[Lines]] = []  # of every section, of its blocks that nothing changes any more
        self._read = 0  # sections that are known to their end
        self._open: tuple[object, Lines] = (None, ())

    @property
    def text(self) -> str:
        """All of it, as it was written."""
        return self._manuscript.text

    def follow(self, text: str) -> None:
        """It is this by now; mostly it is what it was, and more."""
        if not text.startswith(self.text):
            self._manuscript.clear()
            self._closed, self._read, self._open = [], 0, (None, ())
        self._manuscript.add(text[len(self.text) :])

    def work(self, budget: Budget) -> bool:
        """Go on reading until nothing is left or the time is up; whether nothing is left."""
        self._manuscript.cut(budget)
        while not self._manuscript.is_behind and self._read < self._manuscript.count:
            section = self._manuscript.section(self._read)
            if len(self._closed) <= self._read:
                self._closed.append([])
            done = self._closed[self._read]
            for block in section.closed[len(done) :]:
                done.append(self._lines(block))
                if budget.is_spent:
                    return False
            if self._read + 1 == self._manuscript.count:
                if self._open[0] is not section.open:
                    self._open = (section.open, tuple(line for block in section.open for line in self._lines(block)))
                return True
            self._read += 1
            self._open = (None, ())
        return not self._manuscript.is_behind

    def sections(self) -> Iterator[Lines]:
        """The lines of every section that was read."""
        for number, blocks in enumerate(self._closed, start=1):
            lines = tuple(line for lines in blocks for line in lines)
            yield lines + self._open[1] if number == len(self._closed) else lines

    def _lines(self, block: Block) -> Lines:
        if self._renderer is None:
            return tuple(block.source.split("\n"))
        return visible_lines(self._renderer.render(block))


_RENDERER = BlockRenderer(LIGHT)  # colours are not read

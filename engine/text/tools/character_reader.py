"""An answer's text as a reader of calls takes it: one character after the other, wherever it was cut on its way.

Readers are generators that wait for characters. So no reader ever sees a piece of text, and what they make of a text
cannot depend on its pieces.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NoReturn, TypeVar

from engine.text.pieces import CallArguments, CallBegun, Content, Piece

T = TypeVar("T")
Reading = Generator[None, str, T]
Write = Callable[[str], None]
LONGEST_NAME = 256  # characters


class Malformed(Exception):  # noqa: N818  # what the text is
    """What is read is no call; caught where readers are chosen."""


class CharacterReader:
    """Hands characters to the readers of calls, and keeps what they make of them until somebody takes it.

    Whitespace beside a call is no content: it is held until it is known what follows.
    """

    def __init__(self, make_id: Callable[[], str]) -> None:
        """`make_id`: a new id for a call to which the model itself gives none."""
        self._make_id = make_id
        self._place = -1
        self._ahead: list[str] = []  # given back, the next one last
        self.is_over = False  # whether the end of the text was met; what was given back may be left
        self._read: deque[str] = deque()  # since the last piece
        self._space = ""
        self._pieces: list[Piece] = []
        self._passed = 0  # characters before what was read since the last piece
        self.said = 0  # characters up to the end of the content so far, without whitespace behind it
        self.places: list[list[int]] = []  # where each call begins and, once content follows it, ends

    @property
    def calls(self) -> int:
        """How many calls have begun."""
        return self._place + 1

    def take(self) -> Reading[str]:
        """The next character; empty at the end of the text, again and again."""
        if self._ahead:
            character = self._ahead.pop()
        elif self.is_over:
            return ""
        else:
            character = yield
            self.is_over = not character
        if character:
            self._read.append(character)
        return character

    def give_back(self, text: str) -> None:
        """Have the text, which was taken last, taken again."""
        for character in reversed(text):
            self._read.pop()
            self._ahead.append(character)

    def skip_space(self) -> Reading[str]:
        """The next character that is no whitespace; empty at the end."""
        while (character := (yield from self.take())).isspace():
            pass
        return character

    def peek(self) -> Reading[str]:
        """The same, which stays to be taken."""
        character = yield from self.skip_space()
        self.give_back(character)
        return character

    def refuse(self, character: str) -> NoReturn:
        """The character that was taken last is not what a call goes on with."""
        self.give_back(character)
        raise Malformed

    def expect(self, mark: str) -> Reading[None]:
        """Take the mark, which whitespace may precede; raises `Malformed` where another text follows."""
        yield from self.peek()
        if not (yield from self.match((mark,))):
            raise Malformed

    def name_until(self, ends: tuple[str, ...]) -> Reading[tuple[str, str]]:
        """A name, and which of the marks came behind it."""
        yield from self.peek()
        name = ""
        while not (end := (yield from self.match(ends))):
            character = yield from self.take()
            name += character
            if not character or character in "<>{}" or len(name) > LONGEST_NAME:
                raise Malformed
        if not name.strip():
            raise Malformed
        return name.strip(), end

    def match(self, marks: Sequence[str]) -> Reading[str]:
        """The mark that comes next; empty where it is none of them, and nothing is taken then."""
        held = ""
        while any(mark.startswith(held) for mark in marks):
            if held in marks:
                return held
            character = yield from self.take()
            held += character
            if not character:
                break
        self.give_back(held)
        return ""

    def copy_until(self, marks: Sequence[str], write: Write) -> Reading[str]:
        """Write the text up to the first of the marks, which is returned; empty where the end came before it.

        No mark may begin another one. What is held back may be the beginning of a mark.
        """
        held = ""
        while character := (yield from self.take()):
            held += character
            while held and not any(mark.startswith(held) for mark in marks):
                write(held[0])
                held = held[1:]
            if held in marks:
                return held
        for character in held:
            write(character)
        return ""

    def say(self, character: str) -> None:
        """The first character since the last piece is content."""
        self._read.popleft()
        self._passed += 1
        self._space += character
        if not character.isspace():
            self._end_call(self._passed - len(self._space))
            self.said = self._passed
            self._pieces.append(Content(self._space))
            self._space = ""

    def say_what_was_read(self) -> None:
        """All that was read since the last piece is content."""
        for character in self._read.copy():
            self.say(character)

    def forget(self) -> None:
        """What was read since the last piece says nothing, such as a mark."""
        self._passed += len(self._read)
        self._read.clear()

    def forget_rest(self) -> None:
        """The end cut this off: neither what was read nor what is left says anything."""
        self.forget()
        self._ahead.clear()

    def begin(self, name: str, own_id: str = "") -> None:
        """A call begins here. `own_id`: what the model calls it, if it does."""
        self._end_call(self._passed)
        self.places.append([max(self.said, self.places[-1][1] if self.places else 0)])
        self.forget()
        self._space = ""
        self._place += 1
        self._pieces.append(CallBegun(self._place, own_id or self._make_id(), name))

    def write(self, text: str) -> None:
        """This is more of the arguments of the call that was begun last."""
        self.forget()
        self._pieces.append(CallArguments(self._place, text))

    def end(self) -> None:
        """Nothing follows: whitespace that was held is content."""
        if self._space:
            self._pieces.append(Content(self._space))
            self._space = ""

    @property
    def is_open(self) -> bool:
        """Whether what was read last is no content, or may be none."""
        return bool(self._read) or self._passed - len(self._space) > self.said

    def _end_call(self, end: int) -> None:
        """The call that was begun last reaches as far as this, if nothing has ended it yet."""
        if self.places and len(self.places[-1]) == 1:
            self.places[-1].append(end)

    def take_pieces(self) -> list[Piece]:
        """The pieces since this was last asked, those of one kind that follow each other as one."""
        pieces, self._pieces = self._pieces, []
        return merged(pieces)


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces with texts of one kind that follow each other joined."""
    found: list[Piece] = []
    for _, run in groupby(pieces, lambda piece: (type(piece), getattr(piece, "place", None))):
        first, *others = run
        if others and not isinstance(first, CallBegun):  # of which each has a place of its own
            texts = [piece.text for piece in others if not isinstance(piece, CallBegun)]
            first = replace(first, text="".join([first.text, *texts]))
        found.append(first)
    return found

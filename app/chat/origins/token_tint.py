"""The ground that lies under the tokens of an answer: whose guess they were, or how likely the target found them."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from PySide6.QtGui import QColor, QTextCharFormat

from app.chat.history.chances import UNKNOWN, Chances, probability
from app.chat.history.token_origins import TokenOrigins
from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.settings.preferences import TINT_CHANCE, TINT_OFF, TINT_ORIGIN
from app.ui.theme import Colors

_STRENGTH = 46  # of 255, of the tint by origin


@dataclass(frozen=True, slots=True)
class Tint:
    """One kind of ground: what it says, a colour, its strength of 255, and whether there is a line below as well."""

    words: str
    color: str
    strength: int
    is_underlined: bool = False

    def format(self) -> QTextCharFormat:
        """As a text wants it."""
        ground, made = QColor(self.color), QTextCharFormat()
        ground.setAlpha(self.strength)
        made.setBackground(ground)
        if self.is_underlined:
            made.setUnderlineStyle(QTextCharFormat.UnderlineStyle.DotLine)
            made.setUnderlineColor(QColor(self.color))
        return made


# From which probability on, and how strongly: what was nearly certain is not worth a look.
_CLASSES = ((0.9, 0, mark("90 % and more, or not known")), (0.5, 34, mark("from 50 %")), (0.2, 72, mark("from 20 %")))
_RARE, _STRONGEST = mark("below 20 %"), 112


def origin_tints(colors: Colors) -> tuple[Tint, Tint]:
    """The draft's tokens, and those that the target added itself."""
    return Tint(tr(_GUESSED), colors.accent, _STRENGTH), Tint(tr(_ADDED), colors.link, _STRENGTH)


def chance_tints(colors: Colors) -> tuple[Tint, ...]:
    """From the likely tokens to the unlikely ones."""
    likely = (Tint(tr(words), colors.error, strength) for _, strength, words in _CLASSES)
    return (*likely, Tint(tr(_RARE), colors.error, _STRONGEST, is_underlined=True))


_GUESSED, _ADDED = mark("guessed by the draft"), mark("added by the target")


class ChancePlaces:
    """Finds the chance of a character; what an answer grows by is added, not counted anew."""

    def __init__(self) -> None:
        self._chances = Chances()
        self._ends = array("L")

    def follow(self, chances: Chances) -> None:
        """Take the newest state of an answer's chances."""
        known = len(self._chances.lengths)
        grew = chances.begin == self._chances.begin and chances.lengths[:known] == self._chances.lengths
        if not grew:
            del self._ends[:]
        begin = self._ends[-1] if self._ends else chances.begin
        new = accumulate(chances.lengths[len(self._ends) :], initial=begin)
        next(new)
        self._ends.extend(new)
        self._chances = chances

    def at(self, place: int) -> int:
        """The level of the character at this place of the answer."""
        index = bisect_right(self._ends, place)
        is_known = self._chances.begin <= place and index < len(self._ends)
        return self._chances.levels[index] if is_known else UNKNOWN

    def between(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """The pieces that cover these characters: begin, end, level."""
        begin = max(begin, self._chances.begin)
        for index in range(bisect_right(self._ends, begin), len(self._ends)):
            if begin >= end:
                return
            stop = min(self._ends[index], end)
            yield begin, stop, self._chances.levels[index]
            begin = stop


class TokenTint:
    """What is known of the tokens of one answer, as grounds and as words."""

    def __init__(self) -> None:
        self.origins: TokenOrigins | None = None
        self.chances = ChancePlaces()

    def grounds(self, begin: int, end: int, kind: str, colors: Colors) -> Iterator[tuple[int, int, QTextCharFormat]]:
        """The stretches of these characters that have a ground: begin, end, what lies there."""
        if kind == TINT_ORIGIN and self.origins is not None:
            tints = [each.format() for each in origin_tints(colors)]
            for start, stop, is_bonus in self.origins.between(begin, end):
                yield start, stop, tints[is_bonus]
        elif kind == TINT_CHANCE:
            tints = [each.format() for each in chance_tints(colors)]
            for start, stop, level in self.chances.between(begin, end):
                if number := _class_of(level):
                    yield start, stop, tints[number]

    def words(self, place: int | None, kind: str) -> str:
        """What a reader is told of the character at a place; nothing where there is no tint, or no token."""
        if kind == TINT_OFF or place is None:
            return ""
        chance = probability(self.chances.at(place))
        origin = self.origins.at(place) if self.origins is not None else None
        said = tr("How likely the target found this is not known.")
        if chance is not None:
            said = tr("The target gave this token {percent}.").format(percent=_percent(chance))
        whose = "" if origin is None else tr(_BONUS) if origin.is_bonus else tr(_ACCEPTED)
        return f"{said}\n{whose}".strip()


_ACCEPTED, _BONUS = mark("The draft had guessed it."), mark("The target added it itself.")


def _class_of(level: int) -> int:
    chance = probability(level)
    if chance is None:
        return 0
    return next((number for number, (least, _, _) in enumerate(_CLASSES) if chance >= least), len(_CLASSES))


def _percent(chance: float) -> str:
    if chance >= 0.995:
        return tr("more than 99 %")
    return tr("less than 0.1 %") if chance < 0.001 else f"{Number(chance * 100):.{1 if chance < 0.1 else 0}f} %"

"""The ground under the tokens of an answer, by who guessed them or how likely they were, and its legend."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QTextCharFormat
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QWidget

from app.chat.history.token_origins import TokenOrigins
from app.chat.history.token_probabilities import UNKNOWN, TokenProbabilities, probability_of
from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.settings.preferences import TINT_CHANCE, TINT_OFF, TINT_ORIGIN
from app.system.plain_text import tip
from app.ui.flow_layout import FlowLayout
from app.ui.theme import Colors

_ORIGIN_STRENGTH = 46  # of 255, of the tint by origin

_SWATCH, _CLOSER = QSize(18, 12), QSize(22, 18)
_MEANING = {
    TINT_ORIGIN: mark("Whose idea every token was; the target has checked them all."),
    TINT_CHANCE: mark(
        "How likely the target found every token that it wrote, before temperature and filters. "
        "Answers of earlier versions have no probabilities."
    ),
}


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
    return Tint(tr(_GUESSED), colors.accent, _ORIGIN_STRENGTH), Tint(tr(_ADDED), colors.link, _ORIGIN_STRENGTH)


def probability_tints(colors: Colors) -> tuple[Tint, ...]:
    """From the likely tokens to the unlikely ones."""
    likely = (Tint(tr(words), colors.error, strength) for _, strength, words in _CLASSES)
    return (*likely, Tint(tr(_RARE), colors.error, _STRONGEST, is_underlined=True))


_GUESSED, _ADDED = mark("guessed by the draft"), mark("added by the target")


class ProbabilityPlaces:
    """Finds the probability of a character; what an answer grows by is added, not counted anew."""

    def __init__(self) -> None:
        self._probabilities = TokenProbabilities()
        self._ends = array("L")

    def follow(self, probabilities: TokenProbabilities) -> None:
        """Take the newest state of an answer's probabilities."""
        known = len(self._probabilities.lengths)
        grew = (
            probabilities.begin == self._probabilities.begin
            and probabilities.lengths[:known] == self._probabilities.lengths
        )
        if not grew:
            del self._ends[:]
        begin = self._ends[-1] if self._ends else probabilities.begin
        new = accumulate(probabilities.lengths[len(self._ends) :], initial=begin)
        next(new)
        self._ends.extend(new)
        self._probabilities = probabilities

    def at(self, place: int) -> int:
        """The level of the character at this place of the answer."""
        index = bisect_right(self._ends, place)
        is_known = self._probabilities.begin <= place and index < len(self._ends)
        return self._probabilities.levels[index] if is_known else UNKNOWN

    def between(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """The pieces that cover these characters: begin, end, level."""
        begin = max(begin, self._probabilities.begin)
        for index in range(bisect_right(self._ends, begin), len(self._ends)):
            if begin >= end:
                return
            stop = min(self._ends[index], end)
            yield begin, stop, self._probabilities.levels[index]
            begin = stop


class TokenTint:
    """What is known of the tokens of one answer, as grounds and as words."""

    def __init__(self) -> None:
        self.origins: TokenOrigins | None = None
        self.probabilities = ProbabilityPlaces()

    def grounds(self, begin: int, end: int, kind: str, colors: Colors) -> Iterator[tuple[int, int, QTextCharFormat]]:
        """The stretches of these characters that have a ground: begin, end, what lies there."""
        if kind == TINT_ORIGIN and self.origins is not None:
            tints = [each.format() for each in origin_tints(colors)]
            for start, stop, is_bonus in self.origins.between(begin, end):
                yield start, stop, tints[is_bonus]
        elif kind == TINT_CHANCE:
            tints = [each.format() for each in probability_tints(colors)]
            for start, stop, level in self.probabilities.between(begin, end):
                if number := _class_of(level):
                    yield start, stop, tints[number]

    def words(self, place: int | None, kind: str) -> str:
        """What a reader is told of the character at a place; nothing where there is no tint, or no token."""
        if kind == TINT_OFF or place is None:
            return ""
        probability = probability_of(self.probabilities.at(place))
        origin = self.origins.at(place) if self.origins is not None else None
        said = tr("How likely the target found this is not known.")
        if probability is not None:
            said = tr("The target gave this token {percent}.").format(percent=_percent(probability))
        whose = "" if origin is None else tr(_BONUS) if origin.is_bonus else tr(_ACCEPTED)
        return f"{said}\n{whose}".strip()


_ACCEPTED, _BONUS = mark("The draft had guessed it."), mark("The target added it itself.")


def _class_of(level: int) -> int:
    probability = probability_of(level)
    if probability is None:
        return 0
    return next((number for number, (least, _, _) in enumerate(_CLASSES) if probability >= least), len(_CLASSES))


def _percent(probability: float) -> str:
    if probability >= 0.995:
        return tr("more than 99 %")
    return (
        tr("less than 0.1 %")
        if probability < 0.001
        else f"{Number(probability * 100):.{1 if probability < 0.1 else 0}f} %"
    )


class Swatch(QWidget):
    """A sample of one background."""

    def __init__(self, tint: Tint, colors: Colors, parent: QWidget) -> None:
        super().__init__(parent)
        self._tint = tint
        self._colors = colors
        self.setFixedSize(_SWATCH)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """As it looks below a token."""
        painter = QPainter(self)
        ground = QColor(self._tint.color)
        ground.setAlpha(self._tint.strength)
        painter.fillRect(self.rect(), ground)
        painter.setPen(QColor(self._colors.border))
        painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        if self._tint.is_underlined:
            painter.setPen(QPen(QColor(self._tint.color), 1, Qt.PenStyle.DotLine))
            painter.drawLine(3, self.height() - 4, self.width() - 4, self.height() - 4)


class TintLegend(QWidget):
    """Explains the tint; hidden while there is none."""

    closed = Signal()

    def __init__(self, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colors = colors
        self._kind = TINT_OFF
        self._kinds = QWidget(self)
        self._row = FlowLayout(self._kinds, gap=10, line_gap=2)
        self.closer = QToolButton(self)
        self.closer.setText("×")
        self.closer.setObjectName("dismiss")
        self.closer.setFixedSize(_CLOSER)
        self.closer.setToolTip(tr("No tint"))
        self.closer.setAccessibleName(tr("No tint"))
        self.closer.clicked.connect(self.closed)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._kinds, 1)
        row.addWidget(self.closer, 0, Qt.AlignmentFlag.AlignTop)
        self._shown: list[QWidget] = []
        self.setAccessibleName(tr("What the tint means"))
        self.hide()

    @property
    def text(self) -> str:
        """Everything it says, for tests and screen readers."""
        labels = [each for shown in self._shown for each in (shown, *shown.findChildren(QLabel))]
        return " · ".join(each.text() for each in labels if isinstance(each, QLabel))

    def show_tint(self, kind: str) -> None:
        """Explain this tint."""
        if kind != self._kind:
            self._kind = kind
            self._build()

    def set_colors(self, colors: Colors) -> None:
        """Draw it in other colours."""
        self._colors = colors
        self._build()

    def _build(self) -> None:
        for each in self._shown:
            self._row.removeWidget(each)
            each.hide()
            each.deleteLater()
        self._shown = []
        self.setVisible(self._kind != TINT_OFF)
        if self._kind == TINT_OFF:
            return
        is_origin = self._kind == TINT_ORIGIN
        self._add(self._label(tr("Tokens") if is_origin else tr("Probability")))
        for tint in origin_tints(self._colors) if is_origin else probability_tints(self._colors):
            self._add(self._entry(tint))
        self.setToolTip(tip(tr(_MEANING[self._kind])))
        self.setAccessibleDescription(self.text)

    def _entry(self, tint: Tint) -> QWidget:
        """A ground and its words, never apart."""
        entry = QWidget(self._kinds)
        row = QHBoxLayout(entry)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        row.addWidget(Swatch(tint, self._colors, entry), 0, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._label(tint.words))
        return entry

    def _label(self, words: str) -> QLabel:
        made = QLabel(words, self._kinds)
        made.setObjectName("figure")
        return made

    def _add(self, widget: QWidget) -> None:
        self._row.addWidget(widget)
        widget.show()
        self._shown.append(widget)

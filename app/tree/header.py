"""The lines above the tree: figures of the round, each defined in its tooltip, and the buttons of the panel."""

from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QLabel, QMenu, QSizePolicy, QToolButton, QWidget

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.system.plain_text import tip
from app.tree.picture.canvas import CHIPS, ICICLE
from app.tree.rounds.snapshot import Snapshot
from app.tree.rounds.text import tokens_in_words
from app.tree.widgets import News, tool_button
from app.ui.flow_layout import flow_of
from app.ui.widgets import fill


@dataclass(frozen=True, slots=True)
class Figure:
    """A few words with a number in them, and what the number means; `short`: fewer words, for little room."""

    text: str
    definition: str
    short: str = ""


def figures(tree: Snapshot, shown: int) -> tuple[Figure, ...]:
    """What to say about a tree of which `shown` drafted nodes are in the picture; the most telling figures first."""
    if not tree.is_verified:
        return (_round(tree), _nodes(tree, shown), *_state(tree))
    if not tree.drafted:
        return (_round(tree), _tokens(tree), _nothing_drafted())
    return (_round(tree), _tokens(tree), _nodes(tree, shown), _depth(tree))


def _state(tree: Snapshot) -> tuple[Figure, ...]:
    """How far a round has come that is not over."""
    if not tree.checking:
        unverified = tr(
            "The draft model has guessed these; the target model's pass, which decides what is accepted, is still to "
            "come."
        )
        return (Figure(tr("not checked yet"), unverified),)
    checked = Figure(
        tr("being checked"),
        tr("The target model's pass is under way, which decides what is accepted of these."),
    )
    further = len(tree.pieces) - tree.checking
    if not further:
        return (checked,)
    ahead = Figure(
        tr("{count} guessed ahead").format(count=f"{Number(further):,}"),
        tr(
            "While the weights of the target model are on their way, the draft model guesses on: nodes with dotted "
            "lines. Those behind the bonus token are where the next round begins."
        ),
    )
    return (checked, ahead)


def _nothing_drafted() -> Figure:
    return Figure(
        tr("nothing drafted"),
        tr("No draft model guessed ahead in this round, so the pass of the target model gave one token."),
    )


def _round(tree: Snapshot) -> Figure:
    return Figure(
        tr("Round {number}").format(number=f"{Number(tree.number):,}"),
        tr(
            "Rounds of this answer so far. In a round the draft model guesses a tree of continuations, "
            "then one pass of the target model checks them all."
        ),
    )


def _tokens(tree: Snapshot) -> Figure:
    one, more = tr("{accepted} + 1 = 1 token"), tr("{accepted} + 1 = {count} tokens")
    short = one if tree.new_tokens == 1 else more
    told = {"accepted": len(tree.accepted) - 1, "count": f"{Number(tree.new_tokens):,}"}
    return Figure(
        tokens_in_words(tree),
        tr(
            "What the answer grew by in this pass of the target model. Accepted: drafted tokens that the target chose "
            "too, one behind the other from the root. Bonus: one more token, the target's own choice where no drafted "
            "token matched it; none where the answer ends with a guess. Without a draft every pass gives just the "
            "bonus token."
        ),
        short.format(**told) if tree.has_bonus else tokens_in_words(tree),
    )


def _nodes(tree: Snapshot, shown: int) -> Figure:
    words = (tr("1 node") if tree.drafted == 1 else tr("{count} nodes")).format(count=f"{Number(tree.drafted):,}")
    hidden = tr(", {count} shown").format(count=f"{Number(shown):,}") if shown < tree.drafted else ""
    return Figure(
        words + hidden,
        tr(
            "Tokens that the draft model guessed in this round; the root is not counted, it is the last token of the "
            "answer so far. Unlikely nodes are folded: +3 at a token says that three are hidden behind it: "
            "click it, or zoom in."
        ),
        words,
    )


def _depth(tree: Snapshot) -> Figure:
    words = tr("depth {depth}").format(depth=tree.depth)
    return Figure(words, tr("Tokens in the longest continuation that was guessed."))


_SEPARATOR = " · "


class Caption(QWidget):
    """Figures in a row; where the width does not do, in fewer words, and where these do not, without the last ones."""

    told = Signal(str)
    """Something is to be read once."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._labels: list[QLabel] = []
        self._figures: tuple[Figure, ...] = ()
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(0)
        self._row.setAlignment(Qt.AlignmentFlag.AlignLeft)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def sizeHint(self) -> QSize:  # noqa: N802
        """A line high, also before there are figures: nothing below it moves when they come."""
        return super().sizeHint().expandedTo(QSize(0, self.fontMetrics().height()))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Any width will do."""
        return QSize(0, super().minimumSizeHint().height())

    def text(self) -> str:
        """The whole line, also what is left out."""
        return _SEPARATOR.join(each.text for each in self._figures)

    def show_figures(self, shown: tuple[Figure, ...]) -> None:
        """Replace the line; an empty tuple clears it."""
        while len(self._labels) < len(shown):
            label = QLabel(self)
            label.setTextFormat(Qt.TextFormat.PlainText)
            self._labels.append(label)
            self._row.addWidget(label)
        self._figures = shown
        self._fit()

    def show_news(self, text: str) -> None:
        """Something to be read once, beside the figures."""
        self.told.emit(text)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Shorten and leave out what does not fit any more."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        if self._set([each.text for each in self._figures]) > self.width():
            self._set([each.short or each.text for each in self._figures])
        used = 0
        for place, label in enumerate(self._labels):
            used += label.sizeHint().width()
            label.setVisible(not place or used <= self.width())

    def _set(self, words: list[str]) -> int:
        """Give the labels these words; returns how wide they are together."""
        for place, label in enumerate(self._labels):
            is_used = place < len(words)
            label.setText((_SEPARATOR if place else "") + words[place] if is_used else "")
            label.setToolTip(tip(self._figures[place].definition) if is_used else "")
        return sum(label.sizeHint().width() for label in self._labels)


class Header(QWidget):
    """Figures, below them the buttons, and news for as long as they are read."""

    way_chosen = Signal(str)
    """`CHIPS` or `ICICLE`."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.caption = Caption(self)
        self.news = News(self)
        self.caption.told.connect(self.news.tell)
        self._ways = {
            CHIPS: tool_button(tr("Chips"), tr("Tokens as chips: to be read. (1)"), self, checkable=True),
            ICICLE: tool_button(
                tr("Icicle"), tr("Tokens as bands, as high as they are likely: the overview. (2)"), self, checkable=True
            ),
        }
        self.fit = tool_button(
            tr("Fit"),
            tr(
                "Show the whole tree (F). Zoom with the wheel or + and −, drag to move, "
                "Home and End show where the accepted path begins and ends."
            ),
            self,
        )
        self.follow = tool_button(
            tr("Follow"),
            tr("Move to the end of the accepted path with every round. Dragging switches it off."),
            self,
            checkable=True,
        )
        self.follow.setChecked(True)
        self.more = tool_button("⋯", tr("Recordings, pictures, texts and explanations"), self)
        self.more.setObjectName("more")  # without an arrow, which would stand under the dots
        self.more.setAccessibleName(tr("More"))
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.menu = QMenu(self)
        self.more.setMenu(self.menu)
        self._lay_out()

    def set_way(self, way: str) -> None:
        """Mark the way that is shown."""
        self._ways[way].setChecked(True)

    def set_tree(self, is_tree: bool) -> None:
        """Whether a tree is shown: what else there may be is seen in one way, and as a whole."""
        for button in (*self._ways.values(), self.fit, self.follow):
            button.setVisible(is_tree)

    def add_action(self, text: str) -> QAction:
        """Add an entry to the menu."""
        return self.menu.addAction(text)

    def _lay_out(self) -> None:
        group = QButtonGroup(self)
        for way, button in self._ways.items():
            group.addButton(button)
            button.clicked.connect(lambda _checked, way=way: self.way_chosen.emit(way))
        buttons = flow_of((*self._ways.values(), None, self.fit, self.follow, self.more), 2, self)
        fill(self, (self.caption, buttons, self.news), 2, 8, 6, 4, 2)

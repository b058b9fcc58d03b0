"""What every figure of the panel means, and what stands in its place while there is nothing to show."""

from dataclasses import dataclass

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.telemetry.curves import MEAN_OF

FEW_ROUNDS = 10
"""Fewer do not say much about a share."""

NOT_MEASURED = mark("Nothing was measured yet.")
"""In the place of every chart over time before the first round."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: its title, how it is measured, and words for when there is none."""

    title: str
    definition: str
    empty: str = NOT_MEASURED

    @property
    def explanation(self) -> str:
        """The definition in the person's language, with its numbers."""
        words = tr(self.definition).format(rounds=MEAN_OF, few=FEW_ROUNDS)
        return f"{words} {tr(_TIME)}" if self in (SPEED, TOKENS_PER_PASS) else words


_TIME = mark("The time axis counts seconds of answering, waiting for questions left out.")

SPEED = Figure(
    mark("Tokens per second"),
    mark(
        "Thin line: tokens that the answer grew by in a round, by the seconds of that round. Thick line: the same over "
        "the last {rounds} rounds together. Reading the question is not counted."
    ),
)
TOKENS_PER_PASS = Figure(
    mark("Tokens per pass"),
    mark(
        "Tokens that the answer grew by in a round, which is one pass of the target model: the accepted drafted tokens "
        "and the bonus token. Thick line: the mean of the last {rounds} rounds. Without speculation it is 1."
    ),
)
TREE_SIZE = Figure(
    mark("Tree size"),
    mark(
        "Nodes that the draft grew for the round, the root not counted. All of them are checked in one pass of the "
        "target."
    ),
)
TREE_DEPTH = Figure(
    mark("Tree depth"),
    mark(
        "Depth: tokens of the longest continuation that was guessed. Accepted: how many drafted tokens the target took "
        "over, as the mean of the last {rounds} rounds. Where both lines meet, a deeper tree would give more."
    ),
)
TIME = Figure(
    mark("Time per round"),
    mark(
        "Where the time of a round went; the parts add up to it. Draft: growing the tree. Compute: the target's pass, "
        "less what follows. Stream wait: the pass stood still because a layer's weights had not arrived, and the draft "
        "had nothing to do either. Hidden draft: the draft worked on while a layer was awaited, so that it cost "
        "nothing. Other: accepting, caches, text. Where rounds are many, the slowest of each group of neighbours is "
        "drawn."
    ),
)
BANDWIDTH = Figure(
    mark("Weights streamed"),
    mark(
        "Bytes of weights that were brought to where they are used in a round, by the seconds of that round; the thick "
        "line is the mean of the last {rounds}. Ceiling: what the way of these layers allows at most, by the rates of "
        "link and disk that were measured on this machine. Near the ceiling, more layers in faster memory would help; "
        "far below it, computation or the draft is slower."
    ),
    mark("Nothing streams: all layers stay where they are computed."),
)
BY_DEPTH = Figure(
    mark("Accepted by depth"),
    mark(
        "Of the rounds whose accepted path led to a node with children at the depth before, the share in which one of "
        "them was accepted as well. Hollow bars: fewer than {few} rounds came so far. Counted since the conversation "
        "was opened. Point at a bar for the counts."
    ),
    mark("Nothing was drafted yet."),
)
CALIBRATION = Figure(
    mark("Draft probability and acceptance"),
    mark(
        "Drafted nodes whose parent was accepted, in ten groups by the probability that the draft gave them. Dots: the "
        "share that the target accepted. On the dashed line the draft is as sure as it is right; below it, it is too "
        "sure. Bars: how many nodes a group has, the largest group as high as the chart. Counted since the "
        "conversation was opened."
    ),
    mark("Nothing was drafted yet."),
)
MEMORY = Figure(
    mark("Where the layers are"),
    mark(
        "Every cell is a decoder layer of the target, in the memory where it is kept, as wide as its bytes; point at "
        "one for its number. Hatched: what else is taken there at most, such as the draft, the context, the room for a "
        "pass. Empty: what might still be taken. Layers that are not where the target computes come anew for every "
        "pass."
    ),
    mark("No model is loaded."),
)

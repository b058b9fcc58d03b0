"""What the application may ask to be told of the rounds beside the text: a part of `engine.protocol.messages`.

Nobody pays for what nobody looks at: as the engine starts it tells none of this.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Watch:
    """What the engine is to tell of its rounds beside the text, from now on; as it starts it tells nothing.

    `verdicts`: every `Round` has its `verdicts`, and `Inspect` is answered. Where rounds are slow: `drafts`, a
    `Drafted` whenever the draft has guessed on; `layers`, a `Passing` at the layers; of either at most 20 a second.
    """

    verdicts: bool = False
    drafts: bool = False
    layers: bool = False


@dataclass(frozen=True, slots=True)
class Inspect:
    """Ask what the target would have said behind a node of a round: the `Round` of this id and index.

    Answered by one `Inspected`, at once, if that is a round with verdicts and not too long ago; otherwise not at all.
    """

    id: int
    index: int
    node: int


@dataclass(frozen=True, slots=True)
class Tree:
    """A speculation tree in compact form; node 0 is the root, the last committed token.

    `tokens` and `parents` are little-endian int32 arrays, `log_probs` float32 (the draft's cumulative
    log-probabilities, 0 at the root); a parent always stands before its children and `parents[0]` is -1.
    `pieces` are the nodes' tokens as text (a lone byte of a longer character shows as U+FFFD). `silent` are the nodes
    whose tokens write nothing: special tokens, and those that end an answer; their pieces are names. None: not known,
    as in rounds that older versions kept.
    """

    tokens: bytes
    parents: bytes
    log_probs: bytes
    pieces: tuple[str, ...]
    silent: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Drafted:
    """The tree of the round `index` as far as it has grown. Only if `Watch` asked for it.

    `checking`: so many of its nodes, the first ones with the root, are what the target verifies at the moment; those
    behind them are guesses for the time after that. 0: the draft is still at work on what is to be verified.
    """

    id: int
    index: int
    tree: Tree
    checking: int = 0


@dataclass(frozen=True, slots=True)
class Passing:
    """A pass of the target that takes long has come to `layer`. Only if `Watch` asked for it.

    `waits`: the layer's weights are not there yet, and nothing is computed. `arriving`: the layers whose weights are on
    their way, the one that is needed first ahead; none where all of them are where they are computed.
    """

    id: int
    layer: int
    waits: bool
    arriving: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TargetLogProbs:
    """What the target thinks of a tree's nodes, and last of the bonus token: each behind its parent.

    `log_probs` is a little-endian float32 array [nodes + 1], `ranks` an int32 one: 1 is the token that the target finds
    likeliest there. They are the model's own, before temperature, filters and penalties; the root has 0 and 0.
    """

    log_probs: bytes
    ranks: bytes


@dataclass(frozen=True, slots=True)
class Inspected:
    """The target's likeliest tokens behind a node, likeliest first: probabilities before temperature and filters."""

    id: int
    index: int
    node: int
    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    pieces: tuple[str, ...]

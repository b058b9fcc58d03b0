"""An answer as a sequence of frames: every tree as it grows, is checked and is cut, with the text so far."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.tree.exports.choices import SAME_TIME, AnimationChoice
from app.tree.picture.moving.growth import stages
from app.tree.rounds.history import Key
from app.tree.rounds.snapshot import Snapshot, partial, snapshot
from engine.protocol.messages import Round

MOST_FRAMES = 3000  # of an animation; of longer answers trees are not shown growing, or not every round is shown
END_MS = 2500  # that the last one stays

_MOST_WAVES = 5  # of the growth of a tree that are shown
_GROWING, _CHECKING = 0.35, 0.25  # of the time of a round; in the rest its outcome is seen
_LEAST_MS = 40  # of a frame: 25 a second
_AFTER_WAVES = 2  # frames of a round beside those: the check, and its outcome


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A tree at a moment. `told` is the answer before the round; `accepted` and `bonus` are what the round added."""

    tree: Snapshot
    told: str
    milliseconds: int
    accepted: str = ""
    bonus: str = ""


def answer_around(count: int, key_of: Callable[[int], Key], place: int) -> range:
    """The places of the rounds that belong to the answer of the one at `place`, of `count` that are kept.

    They follow each other, and their numbers grow. In recordings of several answers, rounds of equal numbers have got
    other requests, below 0.
    """
    first = last = place
    while first > 0 and _follows(key_of(first - 1), key_of(first)):
        first -= 1
    while last + 1 < count and _follows(key_of(last), key_of(last + 1)):
        last += 1
    return range(first, last + 1)


def _follows(before: Key, after: Key) -> bool:
    return before[1] < after[1] and (before[0] == after[0] or min(before[0], after[0]) < 0)


def added(of: Round) -> tuple[str, str]:
    """What a round has added to the answer: the text of the accepted guesses, and that of the bonus token.

    It does not trust the tree, as rounds whose tree cannot be shown have added something, too.
    """
    pieces = [of.tree.pieces[node] for node in of.accepted[1:] if node < len(of.tree.pieces)][: of.new_tokens]
    has_bonus = of.new_tokens > len(pieces)
    return "".join(pieces), of.bonus_piece if has_bonus else ""


def milliseconds(of: Round, choice: AnimationChoice) -> int:
    """How long a round is shown."""
    seconds = choice.round_seconds if choice.pace == SAME_TIME else of.seconds.decode / choice.speed
    return max(_LEAST_MS, round(seconds * 1000))


def waves_of(rounds: int, choice: AnimationChoice) -> int:
    """How many steps of a tree's growth are shown, so that the frames of so many rounds are not too many."""
    if not choice.grows:
        return 0
    return max(0, min(_MOST_WAVES, MOST_FRAMES // max(1, rounds) - _AFTER_WAVES))


def stride_of(rounds: int) -> int:
    """Every how many rounds one is shown."""
    return -(-rounds // MOST_FRAMES)


def frames_of(of: Round, told: str, lasting_ms: int, waves: int) -> list[Frame]:
    """The frames of a round, which last so many milliseconds together, with at most `waves` of its growth.

    Raises `MalformedTreeError`.
    """
    verified = snapshot(of)
    accepted, bonus = added(of)
    waves = min(waves, int(lasting_ms * _GROWING) // _LEAST_MS)
    if not waves or not verified.drafted:
        return [Frame(verified, told, lasting_ms, accepted, bonus)]
    ends = stages(verified.parents.tolist())
    shown = sorted({*ends[:: -(-len(ends) // waves)], ends[-1]})[-waves:]
    frames = [Frame(partial(verified, end), told, int(lasting_ms * _GROWING) // len(shown)) for end in shown]
    whole = partial(verified, len(verified.pieces))
    frames.append(Frame(replace(whole, checking=len(whole.pieces)), told, int(lasting_ms * _CHECKING)))
    rest = lasting_ms - sum(each.milliseconds for each in frames)
    return [*frames, Frame(verified, told, rest, accepted, bonus)]

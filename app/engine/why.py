"""Why an answer was fast, or not, in one sentence: read from its figures alone, so it holds for answers of any day."""

from dataclasses import dataclass
from enum import Enum

from app.engine.steps import plausible
from app.i18n.number_text import Number, share_text, short_time
from app.i18n.translation import tr
from app.i18n.wording import mark
from engine.protocol.messages import Statistics

FEW_PASSES = 8
"""Fewer say nothing. What a pass gives varies about as much as its mean (it is close to geometric), so the mean of
n passes is known to 1 / sqrt(n): a third at 8."""

EASY_RATE, HARD_RATE = 4.0, 2.0
"""Tokens per pass. Where each guess behind an accepted one is right with the probability p, a pass gives
1 + p + p² + … = 1 / (1 - p) tokens: 4 where three of four are right, 2 where one of two is."""

EASY_SHARE, HARD_SHARE = 1 - 1 / EASY_RATE, 1 - 1 / HARD_RATE
"""The same as shares of all drafted tokens that were accepted: for short chains, which never reach those rates."""

LONG_READING_SECONDS = 1.0
"""Nobody asks why a question was slow that was read within a second (Miller 1968: the limit of an unbroken thought)."""


SHORT_SHARE = 0.1
"""Of the passes that memory had no room for as large a tree as was wanted: with fewer, the speed has another cause."""

LITTLE_TO_READ = 100
"""Tokens of a prompt, not read before: a pass or two read so few, whatever the model."""


class CausePlace(Enum):
    """Where telemetry shows a cause."""

    TIME = "time"
    PASSES = "passes"
    BY_DEPTH = "accepted by depth"
    TREE_SIZE = "tree size"
    STREAMED = "weights streamed"


class Cause(Enum):
    """What an answer's speed comes from most."""

    MEMORY = "memory ran out"
    READING = "reading"
    BEGINNING = "slow to begin"
    PLAIN = "no speculation"
    UNGUESSED = "nothing guessed"
    SPARSE = "hardly any guesses"
    EASY = "easy text"
    FAIR = "ordinary text"
    HARD = "hard text"
    DEAR = "tree too dear"
    LINK = "link-bound"
    COMPUTE = "compute-bound"
    OVERHEAD = "overhead"


_OF_THE_TEXT = (Cause.EASY, Cause.FAIR, Cause.HARD)


@dataclass(frozen=True, slots=True)
class Why:
    """A cause in one sentence, what is meant by it, and where telemetry shows it; None where it does not."""

    cause: Cause
    sentence: str
    definition: str
    place: CausePlace | None


@dataclass(frozen=True, slots=True)
class Shares:
    """Parts of the time of decoding, each from 0 to 1. `link`: the pass stood still for weights, drafting or not."""

    draft: float
    link: float
    compute: float
    other: float

    @property
    def are_known(self) -> bool:
        """Engines elsewhere do not tell what their time is spent on."""
        return self.draft + self.link + self.compute + self.other > 0


def shares_of(statistics: Statistics) -> Shares:
    """Where the time of decoding went; all 0 where that is not told."""
    spent = statistics.seconds
    if spent.decode <= 0:
        return Shares(0, 0, 0, 0)
    link = min(spent.stream_wait + spent.hidden_draft, spent.target)
    parts = (spent.draft, link, spent.target - link, spent.other)
    return Shares(*(min(1.0, part / spent.decode) for part in parts))


def why(statistics: Statistics | None) -> Why | None:
    """The one cause of a finished answer's speed; None where its figures are too few to tell."""
    told = plausible(statistics or Statistics())
    cause = Cause.MEMORY if told.short_passes > SHORT_SHARE * told.passes else _cause(told)
    if cause is None:
        return None
    sentence, definition, place = _SAID[cause]
    words = tr(sentence).format(**_figures(told))
    if cause in _OF_THE_TEXT and shares_of(told).are_known:
        words = _with_largest_share(words, shares_of(told))
        place = CausePlace.TIME if cause is Cause.FAIR else place
    return Why(cause, words, tr(definition), place)


def _with_largest_share(words: str, shares: Shares) -> str:
    """What the text allowed, and what took the most time meanwhile."""
    share, sentence = max(
        (shares.draft, tr("{words}; drafting took {share} of the writing time")),
        (shares.link, tr("{words}; waiting for weights took {share} of the writing time")),
        (shares.compute, tr("{words}; computing took {share} of the writing time")),
        (shares.other, tr("{words}; overhead took {share} of the writing time")),
        key=lambda each: each[0],
    )
    return sentence.format(words=words, share=share_text(share))


def _cause(told: Statistics) -> Cause | None:
    spent = told.seconds
    if spent.prefill > max(spent.decode, LONG_READING_SECONDS):
        return Cause.BEGINNING if 0 < told.prompt_tokens - told.cached_tokens < LITTLE_TO_READ else Cause.READING
    if told.passes < FEW_PASSES or not told.new_tokens:
        return None
    if not told.drafted_nodes and told.new_tokens <= told.passes:
        is_told = spent.target > 0 or told.first_token_seconds > 0  # a count that was broken off knows no guesses
        if not (spent.decode > 0 and is_told):
            return None
        return Cause.PLAIN if told.method == "none" else Cause.UNGUESSED
    if 0 < told.drafted_nodes < told.passes:
        return Cause.SPARSE
    return _cause_of_speculation(told, shares_of(told))


def _cause_of_speculation(told: Statistics, shares: Shares) -> Cause:
    """A tree that cannot have paid comes first, then what the text allowed, then what took the most time.

    Drafting and overhead that took the most but may have paid are told of ordinary text: nothing is too dear there.
    """
    if shares.are_known and _certainly_lost(told):
        return Cause.DEAR if shares.draft >= shares.other else Cause.OVERHEAD
    accepted = (told.new_tokens - told.passes) / told.drafted_nodes if told.drafted_nodes else None
    if told.tokens_per_pass >= EASY_RATE or (accepted is not None and accepted >= EASY_SHARE):
        return Cause.EASY
    if told.tokens_per_pass < HARD_RATE and (accepted is None or accepted < HARD_SHARE):
        return Cause.HARD
    if not shares.are_known:
        return Cause.FAIR
    found = ((shares.link, Cause.LINK), (shares.compute, Cause.COMPUTE), (shares.draft, Cause.FAIR))
    return max((*found, (shares.other, Cause.FAIR)), key=lambda each: each[0])[1]


def _certainly_lost(told: Statistics) -> bool:
    """Whether one token per pass would have been as fast; a pass over one takes no longer than one over a tree."""
    return told.tokens_per_pass * told.seconds.target <= told.seconds.decode


def _figures(told: Statistics) -> dict[str, object]:
    """What the sentences may name."""
    shares, spent = shares_of(told), told.seconds
    whole = spent.load + spent.prefill + spent.decode  # as beside the figures, where its parts are shown
    return {
        "rate": Number(told.tokens_per_pass),
        "nodes": Number(told.drafted_nodes / told.passes if told.passes else 0.0),
        "time": short_time(spent.decode / told.passes if told.passes else 0.0),
        "draft": share_text(shares.draft),
        "link": share_text(shares.link),
        "compute": share_text(shares.compute),
        "other": share_text(shares.other),
        "short": share_text(min(1.0, told.short_passes / max(1, told.passes))),
        "reading": share_text(spent.prefill / whole if whole else 0.0),
    }


_SAID: dict[Cause, tuple[str, str, CausePlace | None]] = {
    Cause.MEMORY: (
        mark("Memory ran out: {short} of the passes had smaller trees for that, or none; {rate:.1f} tokens per pass"),
        mark(
            "Trees grow again as soon as there is memory for them. A smaller tree or a shorter context takes less, or "
            "load the model with less memory for its layers."
        ),
        CausePlace.TREE_SIZE,
    ),
    Cause.READING: (
        mark("Much to read: {reading} of the time went into reading the question and what stands before it"),
        mark("Before the first token the models read the conversation, as far as they have not read it before."),
        None,
    ),
    Cause.BEGINNING: (
        mark("Slow to begin: {reading} of the time passed before the first token"),
        mark(
            "There was little to read. The first answer after loading prepares what all passes need, and where weights "
            "come from RAM or disk, a pass brings all of them however short the question is."
        ),
        None,
    ),
    Cause.PLAIN: (
        mark("No speculation: every token took a pass of its own, {time} each"),
        mark("The whole target model ran once for every token."),
        CausePlace.TIME,
    ),
    Cause.UNGUESSED: (
        mark("Nothing was guessed: every token took a pass of its own, {time} each"),
        mark("A tree did not promise to pay, or there was nothing to guess from."),
        CausePlace.TREE_SIZE,
    ),
    Cause.SPARSE: (
        mark("Hardly any guesses: {nodes:.1f} a pass, so {rate:.1f} tokens per pass"),
        mark(
            "On average there was less than one guess in a pass: a tree did not promise to pay, or there was nothing "
            "to guess from."
        ),
        CausePlace.TREE_SIZE,
    ),
    Cause.EASY: (
        mark("Easy text: {rate:.1f} tokens per pass"),
        mark("Behind an accepted token one of the guesses was right at least three times in four."),
        CausePlace.PASSES,
    ),
    Cause.FAIR: (
        mark("Ordinary text: {rate:.1f} tokens per pass"),
        mark("Behind an accepted token one of the guesses was right at least every second time."),
        CausePlace.PASSES,
    ),
    Cause.HARD: (
        mark("Hard text: {rate:.1f} tokens per pass"),
        mark("On average fewer than one guess in a pass was right: the draft does not foresee what comes."),
        CausePlace.BY_DEPTH,
    ),
    Cause.DEAR: (
        mark("Tree too dear: drafting took {draft} of the writing time for {rate:.1f} tokens per pass"),
        mark(
            "One token per pass would have been as fast. A smaller tree or a smaller draft may be faster; the budget "
            "is in Generation settings."
        ),
        CausePlace.TIME,
    ),
    Cause.LINK: (
        mark("Link-bound: for {link} of the writing time the target waited for its weights"),
        mark("Layers that are not where the target computes come anew for every pass. Larger trees cost little here."),
        CausePlace.STREAMED,
    ),
    Cause.COMPUTE: (
        mark("Compute-bound: for {compute} of the writing time the target computed"),
        mark("Its passes are what takes the time, not drafting and not waiting for weights."),
        CausePlace.TIME,
    ),
    Cause.OVERHEAD: (
        mark("Overhead: accepting, caches and text took {other} of the writing time"),
        mark(
            "Together with drafting it took more than the guesses won: one token per pass would have been as fast. "
            "Very small models do that."
        ),
        CausePlace.TIME,
    ),
}

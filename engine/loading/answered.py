"""What whole answers gave: the mean of them is what comes next, as far as chats stay what they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from engine.weights.planning.seen import Given

LEAST_PASSES = 48  # of all answers together, from which their mean counts more than what is computed from its parts
LEAST_ANSWERS = 3
USUAL = 1.3  # times the usual seconds of a pass, from which an answer was disturbed
NEARLY_ALL = 0.1  # of answers on either side are left out of the range that is told


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer in figures. `seconds` of decoding; `drafted` nodes; `place`: where it was written, see `Place`."""

    new_tokens: int
    passes: int
    seconds: float
    drafted: int
    place: str = ""


def given_by(answers: Sequence[Answered]) -> Given | None:
    """The mean over answers that were written in one place; None where they are too few.

    Every pass counts as much as any other. An answer that took far longer by the pass than is usual had to share the
    machine, and counts with no more than that.
    """
    passes = sum(each.passes for each in answers)
    if len(answers) < LEAST_ANSWERS or passes < LEAST_PASSES:
        return None
    most = USUAL * median([each.seconds / each.passes for each in answers for _ in range(each.passes)])
    seconds = [min(each.seconds, most * each.passes) for each in answers]
    rates = sorted(each.new_tokens / one for each, one in zip(answers, seconds, strict=True))
    edge = int(NEARLY_ALL * len(rates))
    return Given(
        answers=len(answers),
        tokens_per_pass=sum(each.new_tokens for each in answers) / passes,
        seconds=sum(seconds) / passes,
        nodes=sum(each.drafted for each in answers) / passes,
        least=rates[edge],
        most=rates[-1 - edge],
    )

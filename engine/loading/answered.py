"""What whole answers gave: the mean of them is what comes next, as far as chats stay what they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, median_low

from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.seen import Given

LEAST_PASSES = 48  # of all answers together, from which their mean counts more than what is computed from its parts
LEAST_ANSWERS = 3
USUAL = 1.3  # times the usual seconds of a pass, from which an answer was disturbed
ALIKE = 9  # answers with trees of about the same size, whose seconds tell what is usual
NEARLY_ALL = 0.1  # of answers on either side are left out of the range that is told


def steadied(now: PassTime, before: Sequence[PassTime]) -> PassTime:
    """Passes as they were taken last, at the pace that was usual: one answer on a busy machine says little.

    `before`: what they took by the answers before. The lower median of the paces counts; those of other sizes say
    nothing.
    """
    paces = [1.0]
    for each in before:
        common = [rows for rows in now.rows if each.rows[0] <= rows <= each.rows[-1]]
        if common:
            paces.append(fmean(each(rows) / now(rows) for rows in common))
    pace = median_low(paces)
    return PassTime(now.rows, tuple(pace * seconds for seconds in now.seconds))


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

    Every pass counts as much as any other. An answer that took far longer by the pass than is usual with such trees had
    to share the machine, and counts with no more than that.
    """
    passes = sum(each.passes for each in answers)
    if len(answers) < LEAST_ANSWERS or passes < LEAST_PASSES:
        return None
    seconds = [min(each.seconds, USUAL * each.passes * _usual_seconds(each, answers)) for each in answers]
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


def _usual_seconds(answer: Answered, answers: Sequence[Answered]) -> float:
    """Of a pass, by those of the answers whose trees were most like this one's."""
    size = answer.drafted / max(1, answer.passes)
    alike = sorted((each for each in answers if each.passes), key=lambda each: abs(each.drafted / each.passes - size))
    return median([each.seconds / each.passes for each in alike[:ALIKE] for _ in range(each.passes)])

"""What a column can show: the versions of an answer, and the same question asked again in another way."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.chat.history.message import Message
from app.comparison.words import how
from app.i18n.translation import tr
from app.settings.generation import METHOD

AGAIN = ""
"""The method of a candidate that is asked as the answer was, by whatever is loaded now."""

ORDER = ("none", "specexec", "sequoia", "auto", "specinfer", "chain", "lookup")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the things to choose from. `message` None: the question is asked again, with this method.

    `key` tells candidates of one answer apart; `title` stands above the column.
    """

    key: str
    words: str
    title: str
    message: Message | None = None
    method: str = AGAIN


def candidates_for(versions: Sequence[Message], shown: int, answerer: str) -> tuple[Candidate, ...]:
    """For an answer of these versions, `shown` the one that is shown; `answerer`: who would write another one now."""
    kept = [_version(each, number, len(versions), each.id == shown) for number, each in enumerate(versions, start=1)]
    names = dict(METHOD.choices)
    asked = [_asked(each, tr(names[each])) for each in ORDER]
    if answerer:
        words = tr("Write again: as before, by {models}").format(models=answerer)
        asked.append(Candidate("again", words, tr("As before, by {models}").format(models=answerer)))
    return (*(each for each in kept if each is not None), *asked)


def _asked(method: str, name: str) -> Candidate:
    return Candidate(f"method:{method}", tr("Write again: {method}").format(method=name), name, method=method)


def _version(message: Message, number: int, count: int, is_shown: bool) -> Candidate | None:
    """A version of the answer; None for one without a word."""
    if not message.text or not message.ending.is_final:
        return None
    if count == 1:
        words = tr("The answer as it is")
    elif is_shown:
        words = tr("The answer as it is, version {number} of {count}").format(number=number, count=count)
    else:
        words = tr("Version {number} of {count}").format(number=number, count=count)
    about = how(message.statistics)
    title = about or tr("Written by hand, or by an engine that does not tell how")
    return Candidate(f"version:{message.id}", f"{words} ({about})" if about else words, title, message)


def first_pair(candidates: Sequence[Candidate], shown: int) -> tuple[Candidate, Candidate]:
    """What to begin with: the answer that is shown; and another version, or else the other way of writing it."""
    versions = [each for each in candidates if each.message is not None]
    left = next(each for each in versions if each.message and each.message.id == shown)
    others = [each for each in versions if each is not left]
    statistics = left.message.statistics if left.message else None
    method = "specexec" if statistics and statistics.is_plain else "none"
    asked = next(each for each in candidates if each.method == method and each.message is None)
    return left, others[-1] if others else asked

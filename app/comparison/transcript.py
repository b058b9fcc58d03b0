"""An answer as a column shows it, and where two of them part."""

from dataclasses import dataclass, replace

from app.chat.history.message import Message
from app.engine.side_run import SideAnswer
from app.engine.steps import plausible
from app.engine.token_times import TokenTimes, spread_evenly
from engine.protocol.messages import Statistics

_HALF = "\N{REPLACEMENT CHARACTER}"  # an answer may have been cut off inside a character


@dataclass(frozen=True, slots=True)
class Transcript:
    """A text, when its tokens were there, and its figures; None where nobody told them, or it still grows.

    `answerer`: the models that wrote it, as far as it is known.
    """

    text: str
    times: TokenTimes
    statistics: Statistics | None = None
    answerer: str = ""

    @property
    def seconds(self) -> float:
        """How long it took to write."""
        told = self.statistics.seconds.decode if self.statistics else 0.0
        return self.times.duration or told

    @property
    def rate(self) -> float:
        """Tokens per second of decoding; 0 where it is not known."""
        return self.statistics.tokens_per_second if self.statistics else 0.0


def of_message(message: Message, times: TokenTimes | None = None) -> Transcript:
    """An answer of the conversation; `times` None: they are not kept, or not read yet."""
    told = plausible(message.statistics) if message.statistics else None
    text = message.text
    return Transcript(text, times or _even_times(text, told), told, message.answerer)


def of_run(answer: SideAnswer, answerer: str) -> Transcript:
    """What was asked for beside the conversation, as far as it is there, behind what it was to begin with."""
    told = plausible(answer.statistics) if answer.statistics else None
    times = answer.times if answer.times.count else _even_times(answer.text, told)
    last = answer.chat[-1] if answer.chat else None
    begun = last.content if last and last.role == "assistant" and answer.text else ""
    return Transcript(begun + answer.text, times.behind(len(begun)), told, answerer)


def aligned(one: Transcript, other: Transcript) -> tuple[Transcript, Transcript]:
    """Both with tokens from the same character on, so that tokens of the same number stand for the same place.

    What an answer that was continued had before counts as the tokens of the other one, as far as the texts agree; the
    rest of it counts as one token.
    """
    return _with_beginning_of(other, one), _with_beginning_of(one, other)


def _with_beginning_of(earlier: Transcript, later: Transcript) -> Transcript:
    times, known = later.times, earlier.times
    if not known.count or known.begin >= times.begin:
        return later
    same = min(common_length(earlier.text, later.text), times.begin)
    ends = tuple(end for end in known.ends if end <= same)
    if not ends or ends[-1] < times.begin:
        ends = (*ends, times.begin)
    return replace(later, times=times.with_given(known.begin, ends))


def _even_times(text: str, told: Statistics | None) -> TokenTimes:
    """Where no tokens are known, a word stands for one."""
    told = told or Statistics()
    tokens = told.new_tokens or len(text.split())
    return spread_evenly(len(text), tokens, told.passes or tokens, told.seconds.decode)


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two texts part: the first character that differs, and the token it belongs to in each of them."""

    character: int
    tokens: tuple[int, int]


def parting(one: Transcript, other: Transcript) -> Parting | None:
    """The first difference; None where the texts are the same."""
    texts = (one.text.rstrip(_HALF), other.text.rstrip(_HALF))
    if texts[0] == texts[1]:
        return None
    place = common_length(*texts)
    return Parting(place, (_token_at(one.times, place), _token_at(other.times, place)))


def _token_at(times: TokenTimes, character: int) -> int:
    """The token that wrote this character; one behind the last where the text ends before it."""
    return times.count if times.count and character >= times.ends[-1] else times.token_at(character)


def common_length(one: str, other: str) -> int:
    """How many characters both begin with."""
    least, most = 0, min(len(one), len(other))
    while least < most:  # comparing slices is a hundred times as fast as comparing characters one by one
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least


@dataclass(frozen=True, slots=True)
class Standing:
    """How far an answer was at a time: tokens that it had written, passes, and tokens per second up to then."""

    tokens: int
    passes: int
    rate: float
    is_through: bool


def standing(transcript: Transcript, seconds: float) -> Standing:
    """Where a transcript stands at this time of the race."""
    times = transcript.times
    tokens, through = times.tokens_by(seconds) - times.given, seconds >= times.duration
    if through:
        passes = transcript.statistics.passes if transcript.statistics else len(times.seconds)
        spent = transcript.seconds
        count = times.count - times.given
        return Standing(count, passes, transcript.rate or (count / spent if spent else 0.0), True)
    return Standing(tokens, times.passes_by(seconds), tokens / seconds if seconds > 0 else 0.0, False)

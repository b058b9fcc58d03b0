"""When tokens were there: from live rounds, from kept ones, from those of older versions, and where nothing is kept."""

from array import array
from dataclasses import replace

from app.chat.archive.round_times import times_of
from app.chat.history.records import RoundPlace
from app.engine.round_packing import pack
from app.engine.token_times import TokenClock, TokenTimes, spread_evenly
from engine.protocol.messages import Round, Seconds
from tests.app.fake_engine import round_of

WORDS = (("A", " lar"), ("ch", " is"), (" tall",))
SPENT = (0.5, 0.25, 1.0)


def rounds() -> list[Round]:
    """Three passes that write 5 tokens."""
    made = []
    for index, (words, seconds) in enumerate(zip(WORDS, SPENT, strict=True)):
        lengths = array("I", map(len, words)).tobytes()
        one = replace(round_of(7, index, words[0]), text="".join(words), lengths=lengths, new_tokens=len(words))
        made.append(replace(one, seconds=Seconds(decode=seconds)))
    return made


def places(begin: int = 0) -> list[RoundPlace]:
    made, end = [], begin
    for number, words in enumerate(WORDS):
        start, end = end, end + sum(map(len, words))
        made.append(RoundPlace(3, 9, number, start, end - len(words[-1]), end))
    return made


def collected(begin: int = 0, rest: int = 0) -> TokenTimes:
    clock = TokenClock(begin)
    for each in rounds():
        clock.add(each)
    return clock.times(begin + len("A larch is tall") + rest)


def test_every_token_knows_its_characters_and_its_time() -> None:
    times = collected()
    assert [times.span(each) for each in range(6)] == [(0, 1), (1, 5), (5, 7), (7, 10), (10, 15), (15, 15)]
    assert [times.token_at(each) for each in (0, 1, 4, 5, 14, 99)] == [0, 1, 1, 2, 4, 4]
    assert [times.seconds_of(each) for each in range(6)] == [0.5, 0.5, 0.75, 0.75, 1.75, 1.75]
    assert [times.tokens_by(each) for each in (0, 0.5, 0.6, 0.75, 9)] == [0, 2, 2, 4, 5]
    assert [times.passes_by(each) for each in (0.4, 0.75, 1.75)] == [0, 2, 3]
    assert times.duration == 1.75


def test_what_was_held_back_is_the_last_tokens() -> None:
    assert collected(rest=3).span(4) == (10, 18)


def test_kept_rounds_say_the_same() -> None:
    kept = [(place, pack(each)) for place, each in zip(places(4), rounds(), strict=True)]
    assert times_of(kept, 19) == collected(4)


def test_an_answer_whose_rounds_are_not_all_kept_has_no_times() -> None:
    kept: list[tuple[RoundPlace, bytes | None]] = [
        (place, pack(each)) for place, each in zip(places(), rounds(), strict=True)
    ]
    assert times_of(kept[1:], 15) is None
    assert times_of([kept[0], kept[2]], 15) is None
    assert times_of([kept[0], (kept[1][0], None), kept[2]], 15) is None
    assert times_of([kept[0], (kept[1][0], b"damaged"), kept[2]], 15) is None
    assert times_of([], 15) is None


def test_a_continued_answer_goes_on_from_number_0() -> None:
    first = [(place, pack(each)) for place, each in zip(places(), rounds(), strict=True)]
    again = [(replace(place, run=10), pack(each)) for place, each in zip(places(15), rounds(), strict=True)]
    times = times_of([*first, *again], 30)
    assert times is not None
    assert (times.count, times.duration, times.ends[-1]) == (10, 3.5, 30)


def test_rounds_of_older_versions_are_read_from_their_pieces() -> None:
    old = replace(round_of(7, 0, "larch"), new_tokens=2, bonus_piece=" is", text="larch is", lengths=b"")
    clock = TokenClock()
    clock.add(old)
    assert clock.times(8).ends == (5, 8)
    assert times_of([(RoundPlace(3, 9, 0, 0, 5, 6), pack(old))], 6) == replace(clock.times(8), ends=(5, 6))


def test_without_rounds_tokens_are_spread_evenly() -> None:
    times = spread_evenly(100, 10, 5, 2.0)
    assert not times.is_measured
    assert (times.ends[0], times.ends[-1], times.duration) == (10, 100, 2.0)
    assert [times.tokens_by(each) for each in (0.1, 0.4, 2.0)] == [0, 2, 10]
    assert spread_evenly(0, 10, 5, 2.0).count == 0
    assert spread_evenly(3, 10, 50, 2.0).ends == (1, 2, 3)

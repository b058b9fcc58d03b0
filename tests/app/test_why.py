"""Why an answer was fast: the cause by tables of figures, and by any figures exactly one that they bear out."""

import math
from dataclasses import replace
from random import Random

import pytest

from app.engine.steps import plausible
from app.engine.why import (
    EASY_RATE,
    EASY_SHARE,
    FEW_PASSES,
    HARD_RATE,
    HARD_SHARE,
    SHORT_SHARE,
    Cause,
    CausePlace,
    shares_of,
    why,
)
from engine.protocol.messages import Seconds, Statistics


def told(tokens: int, passes: int, nodes: int, **seconds: float) -> Statistics:
    return Statistics("specexec", 64, new_tokens=tokens, passes=passes, drafted_nodes=nodes, seconds=Seconds(**seconds))


def plain(tokens: int, **seconds: float) -> Statistics:
    return Statistics("none", new_tokens=tokens, passes=tokens, seconds=Seconds(**seconds))


TARGET = {"draft": 1.0, "target": 8.0, "other": 1.0, "decode": 10.0}
TABLE = (
    (told(0, 0, 0), None),
    (told(7, 7, 0, target=1.0, decode=1.0), None),
    (told(40, 5, 300, **TARGET), None),
    (told(40, 5, 300, prefill=30.0, **TARGET), Cause.READING),
    (replace(told(40, 5, 300, prefill=30.0, **TARGET), prompt_tokens=900), Cause.READING),
    (replace(told(40, 5, 300, prefill=30.0, **TARGET), prompt_tokens=12), Cause.BEGINNING),
    (replace(told(40, 5, 300, prefill=30.0, **TARGET), prompt_tokens=900, cached_tokens=890), Cause.BEGINNING),
    (told(3, 3, 0, prefill=0.9, target=0.1, decode=0.1), None),
    (plain(50, target=9.0, other=1.0, decode=10.0), Cause.PLAIN),
    (told(50, 50, 0, target=9.0, other=1.0, decode=10.0), Cause.UNGUESSED),  # no tree promised to pay
    (told(50, 50, 0, decode=10.0), None),  # the engine died: nobody told how much was guessed
    (told(60, 50, 20, **TARGET), Cause.SPARSE),
    (told(200, 40, 2560, **TARGET), Cause.EASY),
    (told(52, 40, 2560, **TARGET), Cause.HARD),
    (told(52, 40, 2560, draft=5.0, target=4.0, other=1.0, decode=10.0), Cause.DEAR),
    (told(120, 40, 2560, draft=5.0, target=4.0, other=1.0, decode=10.0), Cause.FAIR),  # it may have paid all the same
    (told(120, 40, 2560, draft=1.0, target=4.0, other=5.0, decode=10.0), Cause.FAIR),
    (told(52, 40, 2560, draft=1.0, target=4.0, other=5.0, decode=10.0), Cause.OVERHEAD),
    (told(120, 40, 2560, hidden_draft=2.0, stream_wait=3.0, **TARGET), Cause.LINK),
    (told(120, 40, 2560, **TARGET), Cause.COMPUTE),
    (told(72, 40, 40, **TARGET), Cause.EASY),  # a chain of one: 32 of 40 guesses were right
    (told(62, 40, 40, **TARGET), Cause.COMPUTE),  # 22 of 40 were: neither easy nor hard
    (told(120, 40, 120, decode=10.0), Cause.FAIR),  # an engine elsewhere, which tells no parts
    (replace(told(52, 40, 12, prefill=30.0, **TARGET), short_passes=30), Cause.MEMORY),
    (replace(told(52, 40, 2560, **TARGET), short_passes=3), Cause.HARD),
    (told(102, 12, 0, decode=2.0), Cause.EASY),  # kept by a version that counted no nodes
)


@pytest.mark.parametrize(("statistics", "cause"), TABLE)
def test_the_cause_of_an_answer(statistics: Statistics, cause: Cause | None) -> None:
    found = why(statistics)
    assert (found.cause if found else None) is cause


def test_it_says_the_figures_it_goes_by() -> None:
    assert why(None) is None
    found = why(told(120, 40, 2560, hidden_draft=2.0, stream_wait=3.0, **TARGET))
    assert found is not None
    assert (found.sentence, found.place) == (
        "Link-bound: for 50% of the writing time the target waited for its weights",
        CausePlace.STREAMED,
    )
    easy = why(told(200, 40, 2560, **TARGET))
    assert easy is not None
    assert easy.sentence == "Easy text: 5.0 tokens per pass; computing took 80% of the writing time"
    slow = why(plain(50, target=9.0, other=1.0, decode=10.0))
    assert slow is not None
    assert slow.sentence == "No speculation: every token took a pass of its own, 200 ms each"
    fair = why(told(120, 40, 2560, draft=5.0, target=4.0, other=1.0, decode=10.0))
    assert fair is not None
    assert fair.sentence == "Ordinary text: 3.0 tokens per pass; drafting took 50% of the writing time"
    assert fair.place is CausePlace.TIME
    reading = why(told(40, 5, 300, prefill=30.0, load=20.0, **TARGET))
    assert reading is not None
    assert "50% of the time" in reading.sentence, "as beside the figures, which tell of loading too"
    short = why(replace(told(50, 40, 12, **TARGET), short_passes=30))
    assert short is not None
    assert short.sentence.startswith("Memory ran out: 75% of the passes had smaller trees for that, or none; 1.2 ")


def any_figures(random: Random) -> Statistics:
    """Also what no engine would tell."""
    strange = (0.0, -1.0, math.inf, math.nan, 1e300)
    passes = random.choice((0, 1, 7, 8, 9, 50, 400))
    nodes = random.choice((0, passes // 2, passes, 3 * passes, 64 * passes, -4))
    tokens = random.choice((0, passes, random.randint(0, 12 * passes + 1)))
    names = ("prefill", "draft", "target", "other", "decode", "hidden_draft", "stream_wait")
    parts = {each: random.choice(strange) if random.random() < 0.05 else random.random() ** 3 * 9 for each in names}
    parts["target"] *= random.choice((1, 20))
    if random.random() < 0.7:  # as an engine adds them up
        parts["decode"] = parts["draft"] + parts["target"] + parts["other"]
    told_of = replace(told(tokens, passes, nodes, **parts), short_passes=max(0, random.randint(-30, 3)))
    return replace(told_of, method=random.choice(("none", "specexec")), prompt_tokens=random.choice((0, 20, 5000)))


def test_any_figures_have_at_most_one_cause_and_bear_it_out() -> None:
    random = Random(7)
    met = set()
    for _ in range(1500):
        statistics = any_figures(random)
        found = why(statistics)
        if found is None:
            continue
        met.add(found.cause)
        assert "{" not in found.sentence
        assert "nan" not in found.sentence
        _bear_out(found.cause, plausible(statistics))
    assert met == set(Cause)


def _bear_out(cause: Cause, statistics: Statistics) -> None:
    shares, spent, rate = shares_of(statistics), statistics.seconds, statistics.tokens_per_pass
    right = (statistics.new_tokens - statistics.passes) / statistics.drafted_nodes if statistics.drafted_nodes else 0.0
    has_lost = rate * spent.target <= spent.decode
    largest = max(shares.draft, shares.link, shares.compute, shares.other)
    if cause not in (Cause.MEMORY, Cause.READING, Cause.BEGINNING):
        assert statistics.passes >= FEW_PASSES
    holds = {
        Cause.MEMORY: statistics.short_passes > SHORT_SHARE * statistics.passes,
        Cause.READING: not spent.prefill <= spent.decode,
        Cause.BEGINNING: not spent.prefill <= spent.decode and statistics.prompt_tokens > 0,
        Cause.PLAIN: rate <= 1,
        Cause.SPARSE: 0 < statistics.drafted_nodes < statistics.passes,
        Cause.EASY: rate >= EASY_RATE or right >= EASY_SHARE,
        Cause.UNGUESSED: rate <= 1 and statistics.method != "none",
        Cause.FAIR: not shares.are_known or largest in (shares.draft, shares.other),
        Cause.HARD: rate < HARD_RATE and right < HARD_SHARE,
        Cause.LINK: shares.link == largest,
        Cause.COMPUTE: shares.compute == largest,
        Cause.DEAR: shares.draft >= shares.other and has_lost,
        Cause.OVERHEAD: shares.other >= shares.draft and has_lost,
    }
    assert all(0 <= each <= 1 for each in (shares.draft, shares.link, shares.compute, shares.other))
    assert holds[cause], statistics

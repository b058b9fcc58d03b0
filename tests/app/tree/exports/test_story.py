"""The frames of an answer: which rounds belong to it, how long each is shown, and what stands beside it."""

from dataclasses import replace

import pytest

from app.tree.exports.animations.story import (
    MOST_FRAMES,
    added,
    answer_around,
    frames_of,
    milliseconds,
    stride_of,
    waves_of,
)
from app.tree.exports.choices import SAME_TIME, AnimationChoice
from engine.protocol.messages import Seconds
from tests.app.tree.exports.rounds import HARD
from tests.app.tree.trees import random_round

TRUE = AnimationChoice()


def test_rounds_of_an_answer_follow_each_other() -> None:
    keys = [(1, 0), (1, 1), (2, 0), (2, 1), (2, 5), (3, 0), (-7, 1), (-8, 0)]

    def around(place: int) -> list[int]:
        return list(answer_around(len(keys), keys.__getitem__, place))

    assert around(1) == [0, 1]
    assert around(3) == [2, 3, 4]
    assert around(5) == around(6) == [5, 6]
    assert around(7) == [7]


def test_what_a_round_adds_ends_where_the_answer_ends() -> None:
    accepted, bonus = added(HARD)
    assert accepted.endswith(" 🌳")
    assert bonus == " وبركاته"
    assert added(replace(HARD, new_tokens=2)) == (" <&> \"quoted'", "")


def test_frames_of_a_round_last_as_long_as_the_round() -> None:
    of = replace(random_round(64, seed=3), seconds=Seconds(decode=1.0))
    assert milliseconds(of, TRUE) == 1000
    assert milliseconds(of, replace(TRUE, speed=4.0)) == 250
    assert milliseconds(of, replace(TRUE, pace=SAME_TIME, round_seconds=0.7)) == 700
    frames = frames_of(of, "so far", 1000, 5)
    assert sum(each.milliseconds for each in frames) == 1000
    assert 3 <= len(frames) <= 7
    sizes = [each.tree.drafted for each in frames]
    assert sizes == sorted(sizes)
    assert frames[-2].tree.checking == 65
    assert frames[-1].tree.has_bonus
    assert [each.accepted + each.bonus for each in frames[:-1]] == [""] * (len(frames) - 1)
    assert frames[-1].accepted + frames[-1].bonus == "".join(added(of))
    assert len(frames_of(of, "", 60, 5)) == 1, "there is no time to grow"
    assert len(frames_of(random_round(0), "", 1000, 5)) == 1


@pytest.mark.parametrize("rounds", [1, 20, 700, 1000, 3000, 10_000])
def test_there_are_never_too_many_frames(rounds: int) -> None:
    per_round = waves_of(rounds, TRUE) + 2 if waves_of(rounds, TRUE) else 1
    assert per_round * -(-rounds // stride_of(rounds)) <= MOST_FRAMES
    assert waves_of(20, TRUE) == 5
    assert waves_of(20, replace(TRUE, grows=False)) == 0

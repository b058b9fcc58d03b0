"""Drafts: the useless ones say why, the best one is recommended, and what is here already comes first."""

from app.library.pairing.drafts import Candidate, Origin, choose_drafts

GIGA = 10**9
TARGET = Candidate("org/large", "large", 32 * GIGA, 64 * GIGA, "v1")


def draft(name: str, parameters: float, vocabulary: str = "v1", origin: Origin = Origin.HUB) -> Candidate:
    return Candidate(f"org/{name}", name, int(parameters * GIGA), int(2 * parameters * GIGA), vocabulary, origin)


def test_those_that_do_not_work_say_why_and_come_last() -> None:
    choices = choose_drafts(
        TARGET,
        [TARGET, draft("bigger", 70), draft("stranger", 1.5, "v2"), draft("wide", 6), draft("good", 1.5)],
        room_bytes=10 * GIGA,
    )
    assert choices[0].candidate.name == "good"
    said = {choice.candidate.name: choice.reason for choice in choices if not choice.usable}
    assert said == {
        "large": "It is the target itself.",
        "bigger": "It is not smaller than the target.",
        "stranger": "It has another vocabulary than the target.",
        "wide": "It does not fit beside the target.",
    }
    assert [choice.recommended for choice in choices] == [True, False, False, False, False]


def test_the_recommended_one_is_about_fifteen_times_smaller() -> None:
    choices = choose_drafts(TARGET, [draft("tiny", 0.1), draft("small", 2), draft("half", 16), draft("medium", 4)])
    assert [choice.candidate.name for choice in choices] == ["small", "medium", "tiny", "half"]
    assert choices[0].recommended
    assert "16 times smaller" in choices[0].reason
    assert "about as long as it saves" in choices[3].reason
    assert "often be wrong" in choices[2].reason


def test_what_is_here_comes_before_what_must_be_downloaded() -> None:
    here, there = draft("here", 3.5, origin=Origin.LOCAL), draft("there", 2)
    assert choose_drafts(TARGET, [there, here])[0].candidate is here


def test_what_is_not_known_is_not_recommended_and_not_refused() -> None:
    (choice,) = choose_drafts(TARGET, [draft("unread", 2, "")])
    assert choice.usable
    assert choice.to_check
    assert not choice.recommended
    (sizeless,) = choose_drafts(TARGET, [Candidate("/models/x", "x", 0, 0, "v1")])
    assert sizeless.usable
    assert not sizeless.recommended


def test_a_draft_that_would_not_pay_is_not_recommended() -> None:
    assert not any(choice.recommended for choice in choose_drafts(TARGET, [draft("half", 16)]))
    assert choose_drafts(TARGET, []) == ()

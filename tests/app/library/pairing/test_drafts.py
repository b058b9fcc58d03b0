"""Drafts: the useless ones say why, the best one is recommended, and what is here already comes first."""

from dataclasses import replace

from app.library.local.heads import HeadFacts
from app.library.pairing.drafts import Candidate, Origin, choose_drafts
from app.library.pairing.vocabulary import Vocabulary
from engine.protocol.options import OWN_HEADS

GIGA = 10**9
OWN, RELATED, FOREIGN = (
    Vocabulary(name, frozenset(range(begin, begin + 100))) for name, begin in (("v1", 0), ("v2", 17), ("v3", 97))
)
TARGET = Candidate("org/large", "large", 32 * GIGA, 64 * GIGA, OWN)


def draft(name: str, parameters: float, vocabulary: Vocabulary | None = OWN, origin: Origin = Origin.HUB) -> Candidate:
    return Candidate(f"org/{name}", name, int(parameters * GIGA), int(2 * parameters * GIGA), vocabulary, origin)


def test_those_that_do_not_work_say_why_and_come_last() -> None:
    choices = choose_drafts(TARGET, [TARGET, draft("bigger", 70), draft("stranger", 1.5, FOREIGN), draft("good", 1.5)])
    assert choices[0].candidate.name == "good"
    said = {choice.candidate.name: choice.reason for choice in choices if not choice.usable}
    assert said == {
        "large": "It is the target itself.",
        "bigger": "It is not smaller than the target.",
        "stranger": "It has another vocabulary: only about 3 % of the target's tokens are in it.",
    }
    assert [choice.recommended for choice in choices] == [True, False, False, False]


def test_one_that_is_damaged_is_never_recommended() -> None:
    damaged = replace(draft("damaged", 2, origin=Origin.LOCAL), fault="It is cut off.")
    choices = choose_drafts(TARGET, [damaged, draft("half", 8)])
    assert [choice.candidate.name for choice in choices] == ["half", "damaged"]
    assert (choices[1].usable, choices[1].recommended, choices[1].reason) == (False, False, "It is cut off.")
    head = replace(damaged, heads=HeadFacts(4096, 1000, is_head=True))
    target = replace(TARGET, heads=HeadFacts(4096, 1000))
    assert not choose_drafts(target, [head])[0].usable


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
    (choice,) = choose_drafts(TARGET, [draft("unread", 2, None)])
    assert choice.usable
    assert choice.to_check
    assert not choice.recommended
    (sizeless,) = choose_drafts(TARGET, [Candidate("/models/x", "x", 0, 0, OWN)])
    assert sizeless.usable
    assert not sizeless.recommended


def test_a_draft_that_would_not_pay_is_not_recommended() -> None:
    assert not any(choice.recommended for choice in choose_drafts(TARGET, [draft("half", 16)]))
    assert choose_drafts(TARGET, []) == ()


def test_others_with_common_tokens_follow_those_of_the_same_vocabulary() -> None:
    little = Vocabulary("v4", frozenset(range(60, 160)))
    choices = choose_drafts(
        TARGET, [draft("few", 2, little), draft("unread", 2, None), draft("related", 2, RELATED), draft("half", 16)]
    )
    assert [choice.candidate.name for choice in choices] == ["half", "related", "few", "unread"]
    same, related, few, _ = choices
    assert (same.common, related.common, few.common) == (1.0, 0.83, 0.4)
    assert related.usable
    assert related.reason == "It has about 83 % of the target's tokens, and is 16 times smaller."
    assert "exactly the target's" in related.hint
    assert same.hint == ""
    assert not any(choice.recommended for choice in choices), "it is for a person to choose"
    (sizeless,) = choose_drafts(TARGET, [Candidate("/models/x", "x", 0, 0, RELATED)])
    assert sizeless.reason == "It has another vocabulary, with about 83 % of the target's tokens."


def test_its_own_heads_are_taken_where_no_good_draft_of_its_vocabulary_is_here() -> None:
    target = replace(TARGET, heads=HeadFacts(4096, 1000, brings_heads=True))
    here, there, half = draft("here", 3.5, origin=Origin.LOCAL), draft("there", 2), draft("half", 16)

    def order(*drafts: Candidate) -> list[str]:
        choices = choose_drafts(target, drafts)
        assert [choice.recommended for choice in choices] == [True, *[False] * len(drafts)]
        return [choice.candidate.source for choice in choices]

    assert order() == [OWN_HEADS]
    assert order(there, half) == [OWN_HEADS, "org/there", "org/half"], "nothing to download comes before a download"
    assert order(here, there) == ["org/here", OWN_HEADS, "org/there"]
    stranger = draft("related", 2, RELATED, Origin.LOCAL)
    assert order(stranger, replace(half, origin=Origin.LOCAL)) == [OWN_HEADS, "org/half", "org/related"]
    own = choose_drafts(target, [here])[1]
    assert own.candidate.origin is Origin.LOCAL, "there is nothing to download"
    assert "exactly the model's" in own.hint


def test_a_head_from_a_folder_drafts_for_the_model_that_it_fits() -> None:
    made_for_it = Candidate("/heads/one", "one", 0, 0, heads=HeadFacts(4096, 1000, is_head=True))
    made_for_another = replace(made_for_it, source="/heads/two", heads=HeadFacts(2048, 1000, is_head=True))
    target = replace(TARGET, heads=HeadFacts(4096, 1000))
    choices = choose_drafts(target, [made_for_another, draft("there", 2), made_for_it])
    assert [choice.candidate.source for choice in choices] == ["/heads/one", "org/there", "/heads/two"]
    assert [choice.usable for choice in choices] == [True, True, False]
    assert [choice.recommended for choice in choices] == [True, False, False]
    assert choices[2].reason == "It is a head that was made for a model of another size."
    (unknown,) = choose_drafts(TARGET, [made_for_it])
    assert (unknown.usable, unknown.to_check, unknown.recommended) == (True, True, False)
    away = replace(made_for_it, origin=Origin.HUB)
    assert choose_drafts(target, [away, draft("there", 2)])[0].candidate.source == "org/there"
    with_own = replace(target, heads=HeadFacts(4096, 1000, brings_heads=True))
    assert [choice.candidate.source for choice in choose_drafts(with_own, [made_for_it])] == [OWN_HEADS, "/heads/one"]

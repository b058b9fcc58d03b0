"""The generator of training dialogues: its facts are right, its names stay, and its lists do not repeat."""

import importlib
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "packaging" / "demo_models"
SIGNS = {"plus": "+", "minus": "-", "times": "*", "divided by": "/", "x": "*"}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the generator, which is run by path and not installed."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module


def calculate(left: int, sign: str, right: int) -> int:
    results = {"+": left + right, "-": left - right, "*": left * right, "/": left // max(right, 1)}
    return results[SIGNS.get(sign, sign)]


def test_a_deck_deals_every_card_before_any_comes_again(load: Any) -> None:
    deck = load("dialogues.language").Deck("abcde", random.Random(3))
    assert Counter(deck.deal() for _ in range(15)) == dict.fromkeys("abcde", 3)


def test_alternatives_are_chosen_and_code_is_left_alone(load: Any) -> None:
    expand = load("dialogues.language").expand
    assert expand("[a|a] {x} {y} [1, 2]", random.Random(0), {"x": "b"}) == "a b {y} [1, 2]"


def test_every_sum_is_right_and_comes_equally_often(load: Any) -> None:
    numbers = load("dialogues.numbers")
    talk, facts = numbers.Numbers(random.Random(0)), len(numbers.all_sums())
    seen: Counter[tuple[int, str, int]] = Counter()
    while seen.total() < 3 * facts:
        for _, answer in talk.sums():
            found = re.fullmatch(r"(\d+) (\D+) (\d+) (?:is|=) (\d+)\.?", answer)
            assert found, answer
            left, sign, right, result = int(found[1]), found[2], int(found[3]), int(found[4])
            assert calculate(left, sign, right) == result, answer
            seen[left, SIGNS.get(sign, sign), right] += 1
    assert len(seen) == facts
    assert set(seen.values()) <= {3, 4}


def test_comparisons_of_numbers_are_right(load: Any) -> None:
    talk = load("dialogues.numbers").Numbers(random.Random(1))
    for _ in range(500):
        answer = talk.compare()[0][1]
        found = re.search(r"(\d+) is (\w+) than (\d+)", answer)
        assert found, answer
        assert (int(found[1]) > int(found[3])) == (found[2] in ("bigger", "larger", "greater")), answer


def test_lists_have_the_asked_length_and_no_word_twice(load: Any) -> None:
    vocabulary = load("dialogues.vocabulary").Vocabulary(random.Random(2))
    numbers = load("dialogues.language").NUMBERS
    for _ in range(500):
        answer = vocabulary.lists()[0][1]
        head, body = answer.split(":", 1)
        words = re.findall(r"^(?:- |\d+\. )(.+)$", body, re.M) or re.split(r", | and ", body.strip().rstrip("."))
        assert len(set(words)) == len(words) == numbers.index(head.split()[2]), answer


def test_stories_keep_the_name_that_was_asked_for(load: Any) -> None:
    stories = load("dialogues.stories").Stories(random.Random(4))
    named = 0
    for _ in range(600):
        question, story = stories.talk()[0]
        found = re.search(r" (?:named|called) (\w+)", question, re.I)
        if found:
            named += 1
            hero = re.search(r"named (\w+)\.|^(\w+) was ", story)
            assert hero, story
            assert (hero[1] or hero[2]).lower() == found[1].lower()
    assert named > 50


def test_pronouns_of_the_hero_follow_the_name(load: Any) -> None:
    language = load("dialogues.language")
    she = set(language.read_blocks("names.txt")["she"].split("\n"))
    stories = load("dialogues.stories").Stories(random.Random(5))
    for _ in range(300):
        story = stories.talk()[0][1]
        hero = re.search(r"named (\w+)\.|^(\w+) was ", story)
        assert hero, story
        first = re.search(r"\b(she|he|her|his)\b", story.split("\n\n")[0], re.I)
        if first:
            assert ((hero[1] or hero[2]) in she) == (first[1].lower() in ("she", "her")), story


def test_no_template_marks_are_left_in_dialogues(load: Any) -> None:
    source = load("dialogues.conversation").Conversations(6)
    for _ in range(3000):
        for question, answer in source.next().turns:
            text = re.sub(r"```.*?```", "", question + answer, flags=re.S)
            assert not re.search(r"[{}|]|  ", text), (question, answer)
            assert question
            assert answer


def test_the_same_seed_gives_the_same_dialogues(load: Any) -> None:
    conversations = load("dialogues.conversation").Conversations
    first, second = conversations(7), conversations(7)
    assert [first.next() for _ in range(50)] == [second.next() for _ in range(50)]

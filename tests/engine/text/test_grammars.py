"""Constraints of answers: which tokens may follow a text, where reasoning comes first, and what is refused."""

import json
import random
import re
from collections.abc import Iterator, Sequence
from unittest.mock import Mock

import pytest

from engine.errors import InputError
from engine.protocol.options import MOST_CONSTRAINT, Constraint, GenerateOptions
from engine.text.grammars import trial
from engine.text.grammars.constrained_answer import check_constraint, state_of_answer
from engine.text.grammars.grammar import ANYTHING, AnswerState, Grammar, GrammarState
from engine.text.grammars.reasoning_first import Choosing, ChoosingInText, Masks, ThinkingInText
from engine.text.grammars.vocabulary import GrammarVocabulary
from engine.text.prompt import Prompt
from engine.text.tokenizer import Tokenizer
from tests.campaigns.extent import choose
from tests.engine.text.tiny_tokenizers import BUILDERS, library_tokenizer

JSON = Constraint("json")
WORD = Constraint("regex", "[a-c]{1,3}")


class Nobody:
    """A tokenizer that is of no help."""

    def encode_onward(self, text: str) -> list[int]:
        raise ValueError(text)


NOBODY = Nobody()
SPELLED = dict(enumerate([b"a", b"b", b"c", b"ab", b"bc", b"abc", b"a", b"cd", b"\xc3", b"\xa4", b"\n"]))
SPECIAL = {20: "<end>", 21: "<|call|>"}


def grammar(constraint: Constraint) -> Grammar:
    return Grammar(constraint, GrammarVocabulary(SPELLED, SPECIAL, [20], NOBODY))


def allowed(state: AnswerState) -> list[int]:
    mask = state.allowed()
    assert mask is not None
    return [token for token in range(8 * len(mask)) if mask[token // 8] >> token % 8 & 1]


def after(state: AnswerState, tokens: Sequence[int]) -> AnswerState:
    for token in tokens:
        state = state.follow(token)
    return state


def paths(length: int) -> Iterator[tuple[int, ...]]:
    numbers = random.Random(1)
    return (tuple(numbers.choice([*range(8), 20]) for _ in range(numbers.randint(0, length))) for _ in range(600))


def test_a_mask_depends_on_the_path_alone() -> None:
    """Whatever was looked at before: the matcher goes back and forth between paths, and over some that cannot be."""
    one, words = grammar(WORD), dict[str, bytes | None]()
    for path in paths(4):
        state = after(one.root, path)
        text = b"".join(SPELLED.get(token, b"") for token in path).decode()
        if 20 in path:
            assert (state is ANYTHING) or path.index(20) == len(path)
        elif re.fullmatch("[a-c]{0,3}", text):
            fits = [
                token for token, more in SPELLED.items() if re.fullmatch("[a-c]{1,3}", text + more.decode("latin1"))
            ]
            assert allowed(state) == [*fits, *([20] if text else [])]
            assert words.setdefault(text, state.allowed()) == state.allowed()
        else:
            assert state.allowed() is None
            assert not state.is_possible
    assert len(words) > 20, "too few of the texts were looked at"


def test_what_was_beside_the_answer_is_forgotten_and_found_again() -> None:
    root = grammar(WORD).root
    here = after(root, [0, 1])
    beside = allowed(root.follow(2))
    allowed(here)
    here.settle()
    assert isinstance(here, GrammarState)
    assert root.follow(0) is here.parent
    assert allowed(root.follow(2)) == beside


def test_a_character_may_be_broken_between_tokens() -> None:
    root = grammar(Constraint("regex", "(ä|ab)c")).root
    assert allowed(root) == [0, 3, 5, 6, 8]
    assert allowed(root.follow(8)) == [9]
    assert allowed(after(root, [8, 9, 2])) == [20]


def test_special_tokens_by_name_and_by_number() -> None:
    for named in ("<|call|>", "<[21]>"):
        root = grammar(Constraint("lark", f'start: {named} %json {{"const": "x"}} | "ab"')).root
        assert 21 in allowed(root)
        assert 21 not in allowed(root.follow(0))


def test_a_pattern_may_have_its_anchors() -> None:
    assert allowed(grammar(Constraint("regex", "^(a|bc)$")).root) == [0, 1, 4, 6]


def test_a_grammar_of_llama_cpp_and_one_of_lark() -> None:
    for text in ('root ::= word "c"\nword ::= [ab]+', 'start: word "c"\nword: /[ab]+/'):
        assert allowed(grammar(Constraint("gbnf", text)).root) == [0, 1, 3, 4, 5, 6]


REFUSED = [
    Constraint("json_schema", '{"type": "nothing"}'),
    Constraint("json_schema", "[1"),
    Constraint("regex", "a("),
    Constraint("lark", "start: <|nobody|>"),
    Constraint("gbnf", 'root ::= other "a"'),
]


def test_what_cannot_be_used_is_refused_with_the_reason() -> None:
    for constraint in REFUSED:
        with pytest.raises(InputError, match=r"cannot be used: .+"):
            grammar(constraint)


def test_what_the_library_advises_programs_is_not_passed_on() -> None:
    either = {"oneOf": [{"type": "string", "pattern": "a+"}, {"type": "string", "pattern": "a*"}]}
    with pytest.raises(InputError) as refused:
        grammar(Constraint("json_schema", json.dumps(either)))
    assert refused.value.message == "The constraint of the answer cannot be used: oneOf constraints are not supported."


def test_what_takes_too_much_is_refused_before_the_engine_compiles_it() -> None:
    """Each of the rules needs the next one: as deep as that the library overflows its stack."""
    deep = "\n".join(f'r{number}: "a" r{number + 1}?' for number in range(5000))
    with pytest.raises(InputError, match="too complex"):
        grammar(Constraint("lark", f'start: r0\n{deep}\nr5000: "b"'))


def test_a_trial_that_does_not_end_is_not_held_against_the_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may have been busy."""
    constraint = Constraint("regex", "abca")
    with monkeypatch.context() as patch:
        patch.setattr(trial, "SECONDS", 0.0)
        with pytest.raises(InputError, match="too complex"):
            grammar(constraint)
    assert grammar(constraint).root.is_possible


def test_the_size_of_a_constraint_is_bounded() -> None:
    GenerateOptions(constraint=JSON).check()
    with pytest.raises(InputError, match="size of the constraint"):
        GenerateOptions(constraint=Constraint("regex", "a" * (MOST_CONSTRAINT + 1))).check()


def write(tokenizer: Tokenizer, state: AnswerState, text: str) -> AnswerState:
    """Behind a text, whose every token may follow the one before."""
    for token in tokenizer.encode_onward(text):
        mask = state.allowed()
        assert mask is None or mask[token // 8] >> token % 8 & 1, f"{tokenizer.piece(token)!r} in {text!r}"
        state = state.follow(token)
    return state


def refuses(tokenizer: Tokenizer, state: AnswerState, text: str) -> bool:
    mask, token = state.allowed(), tokenizer.encode_onward(text)[0]
    return mask is not None and not mask[token // 8] >> token % 8 & 1


def test_the_embedded_model_s_own_tokens_write_json(embedded: Tokenizer) -> None:
    schema = {"type": "object", "properties": {"näme": {"const": "<|end|>"}}, "required": ["näme"]}
    root = state_of_answer(embedded, Prompt((5, 6)), Constraint("json_schema", json.dumps(schema)))
    vocabulary = embedded.grammar_vocabulary
    assert b"".join(vocabulary.spelled[token] for token in vocabulary.encode(b"<|end|>")) == b"<|end|>"
    state = root
    for token in vocabulary.encode('{"näme":"<|end|>"}'.encode()):
        state = state.follow(token)
    assert state.is_possible
    assert embedded.eos_ids >= set(allowed(state))
    assert not refuses(embedded, root, "{")
    assert refuses(embedded, root, "[")


def opened(template: str | None = None, control: tuple[str, ...] = (), kind: str = "byte level") -> Tokenizer:
    """A tokenizer of its own; `</s>` ends its answers."""
    return Tokenizer(library_tokenizer(kind, template, control))


TEXT_MARKS = "{{ messages }}{% if think %}<think>{% endif %}</think>"
CONTROL_MARKS = "<|START_THINKING|>", "<|END_THINKING|>", "<|end|>"
OF_CHANNELS = "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>"
BOOLEAN = Constraint("regex", "true|false")


def prompt_of(tokenizer: Tokenizer, text: str, begun: str = "", *, thinks: bool = False) -> Prompt:
    asked, answer = tokenizer.encode(text), tokenizer.encode_onward(begun)
    return Prompt((*asked, *answer), begun=len(answer), thinks=thinks)


@pytest.mark.parametrize(
    ("template", "control", "begin", "end"),
    [(TEXT_MARKS, (), "<think>", "</think>"), ("", CONTROL_MARKS, CONTROL_MARKS[0], CONTROL_MARKS[1])],
)
def test_reasoning_is_free_and_the_constraint_begins_behind_it(
    template: str, control: tuple[str, ...], begin: str, end: str
) -> None:
    tokenizer = opened(template or None, control)

    def state_of(asked: str, begun: str = "", thinks: bool = False) -> AnswerState:
        return state_of_answer(tokenizer, prompt_of(tokenizer, asked, begun, thinks=thinks), BOOLEAN)

    asked, again = state_of("Well?"), state_of("Well?")
    assert isinstance(asked, Choosing | ChoosingInText)
    assert isinstance(again, Choosing | ChoosingInText)
    assert asked.masks is again.masks, "made once, as that takes a look at every token"
    assert refuses(tokenizer, write(tokenizer, asked, "tr"), "a"), "a model need not reason"
    assert refuses(tokenizer, asked, "no")
    for thinking in (
        write(tokenizer, asked, begin),
        state_of(f"Well?{begin}\n"),
        state_of(f"Well?{begin}", thinks=True),
        state_of("Well?", f"{begin}So far"),
    ):
        assert thinking.allowed() is None
        behind = write(tokenizer, thinking, f"Hmm. <th </thi {end}")
        assert refuses(tokenizer, behind, "no")
        for gap in ("", "\n", "\n\n"):
            done = write(tokenizer, write(tokenizer, behind, gap), "true")
            assert set(allowed(done)) <= tokenizer.eos_ids
    assert refuses(tokenizer, state_of(f"Well?{begin}\n{end}\n"), begin), "the prompt has closed it"
    with pytest.raises(InputError, match="to be continued"):
        state_of("Well?", "no")


def test_an_answer_in_channels_begins_in_that_of_answers() -> None:
    tokenizer = opened("{{ messages }}", OF_CHANNELS)
    state = state_of_answer(tokenizer, prompt_of(tokenizer, "Well?<|start|>assistant"), BOOLEAN)
    thought = write(tokenizer, state, "<|channel|>analysis<|message|>anything<|end|><|start|>assistant")
    for each in (state, thought):
        assert each.allowed() is None
        for header in ("final", "final <|constrain|>json", "final<|constrain|>json"):
            assert refuses(tokenizer, write(tokenizer, each, f"<|channel|>{header}<|message|>"), "no")
    begun = prompt_of(tokenizer, "Well?<|start|>assistant<|channel|>final<|message|>", "tru")
    assert not refuses(tokenizer, state_of_answer(tokenizer, begun, BOOLEAN), "e")


def test_a_constraint_that_was_checked_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server checks constraints beside the engine's work."""
    tokenizer, constraint = opened(), Constraint("regex", "checked")
    check_constraint(tokenizer, constraint)
    monkeypatch.setattr("engine.text.grammars.trial.subprocess.Popen", Mock(side_effect=AssertionError("tried again")))
    assert state_of_answer(tokenizer, prompt_of(tokenizer, "Well?"), constraint).is_possible
    with pytest.raises(AssertionError, match="tried again"):
        check_constraint(tokenizer, Constraint("regex", "not checked"))


def test_a_model_without_an_end_cannot_keep_to_a_constraint() -> None:
    tokenizer = opened()
    tokenizer.eos_ids = frozenset()
    with pytest.raises(InputError, match="no token that ends"):
        state_of_answer(tokenizer, Prompt((1,)), JSON)


def test_what_a_token_writes_behind_the_reasoning_s_end_belongs_to_the_answer() -> None:
    vocabulary = GrammarVocabulary({**SPELLED, 11: b"</", 12: b">\n\na", 13: b">d"}, SPECIAL, [20], NOBODY)
    inside = ThinkingInText(Masks(vocabulary), b"</>", Grammar(WORD, vocabulary).root)
    begun = after(inside, [0, 11, 11, 12])
    assert begun.is_possible
    assert allowed(begun) == [0, 1, 2, 3, 4, 6, 20]
    assert not after(inside, [11, 13]).is_possible
    assert inside.follow(0).allowed() is None
    assert set(SPELLED) | {11, 12} == set(allowed(inside.follow(11))) & {*SPELLED, 11, 12, 13}


@pytest.mark.parametrize("kind", BUILDERS)
def test_every_kind_of_tokenizer_writes_only_what_it_may(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any walk along allowed tokens, also over characters that several tokens make, ends in a text of the pattern."""
    monkeypatch.setattr("engine.text.grammars.grammar.try_out", lambda *_: None)
    tokenizer, numbers, pattern = opened(kind=kind), random.Random(3), "([a-zäß 猫]{2,4},){1,2}(one|two)"
    root = Grammar(Constraint("regex", pattern), tokenizer.grammar_vocabulary).root
    lead = tokenizer.encode("a")
    for _ in range(choose(2, 50)):
        state: AnswerState = root
        said: list[int] = []
        while not said or said[-1] not in tokenizer.eos_ids:
            said.append(numbers.choice(allowed(state)))
            state = state.follow(said[-1])
        text = tokenizer.decode([*lead, *said])[len(tokenizer.decode(lead)) :]
        assert re.fullmatch(pattern, text)


class Failed:
    """A matcher for which the grammar has become too complex."""

    def rollback(self, tokens: int) -> bool:
        return False

    def try_consume_tokens(self, tokens: Sequence[int]) -> int:
        return 0

    def is_error(self) -> bool:
        return True

    def get_error(self) -> str:
        return "too many items"


def test_a_matcher_that_fails_on_its_way_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    one = grammar(WORD)
    monkeypatch.setattr(one, "_matcher", Failed())
    assert not one.root.follow(0).is_possible
    monkeypatch.setattr(one, "_matcher", Failed())
    state = one.root.follow(1)
    assert allowed(state) == [20]
    with pytest.raises(InputError, match="too many items"):
        state.settle()
    assert allowed(after(one.root, [3, 1])) == [20]
    assert allowed(one.root.follow(0)) == [0, 1, 2, 3, 4, 6, 20]

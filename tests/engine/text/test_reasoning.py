"""A model's reasoning is told from its answer by the marks of its own tokenizer and template."""

import pytest

from engine.protocol.messages import ChatMessage
from engine.protocol.reasoning import CHANNELS, COMMON, MARKS
from engine.text.prompt import Prompt, text_of_answer, write_prompt
from engine.text.tokenizer import Tokenizer
from tests.engine.text.templates import CHATML, LLAMA_3, Family
from tests.engine.text.test_chat import tokenizer_of, visible
from tests.engine.text.tiny_tokenizers import TEXTS

QUESTION = ChatMessage("user", "Hello!")

# In the manner of gpt-oss: every message names its channel; earlier reasoning is left out.
HARMONY = Family(
    "byte level",
    ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|return|>"),
    "{% for m in messages %}{{ '<|start|>' + m.role + ('<|channel|>final' if m.role == 'assistant' else '') }}"
    "{% if '<|channel|>' in m.content %}{{ raise_exception('channels are not for the content') }}{% endif %}"
    "{{ '<|message|>' + m.content + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}",
)
TURNS = "{{% for m in messages %}}{{{{ '<|' + m.role[0] + '|>' + m.content + '<|e|>' }}}}{{% endfor %}}{{{{ '{}' }}}}"
ROLES = ("<|u|>", "<|a|>", "<|s|>", "<|e|>")
BRACKETS = Family("byte level", (*ROLES, "[THINK]", "[/THINK]"), TURNS.format("<|a|>"))
OPENED_BRACKETS = Family("byte level", (*ROLES, "[THINK]", "[/THINK]"), TURNS.format("<|a|>[THINK]"))
COMMAND = Family("byte level", (*ROLES, "<|START_THINKING|>", "<|END_THINKING|>"), TURNS.format("<|a|>"))
ONE_CHANNEL = Family("sentencepiece without prefix", (*ROLES, "<|channel>", "<channel|>"), TURNS.format("<|a|>"))
# The marks are words like others, as those of Qwen and DeepSeek; the second one opens the reasoning itself.
WORDS = Family("byte level", ROLES, TURNS.format("<|a|>").replace("m.content", "m.content.split('</think>')[-1]"))
OPENED = Family("byte level", ROLES, TURNS.format("<|a|><think>\\n"))
OPENED_OTHERWISE = Family("unigram", ROLES, TURNS.format("<|a|><reasoning>\\n"))

# What the model writes, in its own tokens, and what becomes of it.
WRITTEN = {
    "channels": (
        HARMONY,
        "<|channel|>analysis<|message|>hm, so<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
    ),
    "brackets": (BRACKETS, "[THINK]hm, so[/THINK]Yes."),
    "brackets that the prompt opens": (OPENED_BRACKETS, "hm, so[/THINK]Yes."),
    "response tokens": (COMMAND, "<|START_THINKING|>hm, so<|END_THINKING|>Yes."),
    "one channel": (ONE_CHANNEL, "<|channel>thought\nhm, so<channel|>Yes."),
    "words": (WORDS, "<think>hm, so</think>Yes."),
}


def said(tokenizer: Tokenizer, prompt: Prompt, tokens: list[int]) -> str:
    """The text of an answer of these tokens."""
    stream = text_of_answer(tokenizer, prompt, ())
    return "".join(map(stream.push, tokens)) + stream.flush()


def new_prompt(tokenizer: Tokenizer, *answer: str) -> Prompt:
    return write_prompt(tokenizer, [QUESTION, *(ChatMessage("assistant", each) for each in answer)])


@pytest.mark.parametrize(("family", "written"), WRITTEN.values(), ids=WRITTEN)
def test_reasoning_stands_between_marks_that_are_text(family: Family, written: str) -> None:
    tokenizer = tokenizer_of(family)
    assert said(tokenizer, new_prompt(tokenizer), tokenizer.encode(written)) == "<think>hm, so</think>Yes."


@pytest.mark.parametrize(("family", "written"), WRITTEN.values(), ids=WRITTEN)
def test_an_answer_cut_off_anywhere_goes_on_in_the_model_s_own_tokens(family: Family, written: str) -> None:
    tokenizer = tokenizer_of(family)
    first = new_prompt(tokenizer)
    tokens = tokenizer.encode(written.removesuffix("<|return|>"))
    whole = said(tokenizer, first, tokens)
    for cut in range(1, len(tokens)):
        text = said(tokenizer, first, tokens[:cut])
        if text in ("", "<think>") or text.endswith("\N{REPLACEMENT CHARACTER}"):
            continue
        again = new_prompt(tokenizer, text)
        shown = visible(tokenizer, list(first.tokens) + tokens[:cut])
        in_header = "<|start|>" in shown and "<|message|>" not in shown.rpartition("<|start|>")[2]
        if tokens[cut - 1] not in tokenizer.signs and not in_header and not shown.endswith("so<|end|>"):
            assert visible(tokenizer, list(again.tokens)) == shown
            assert text + said(tokenizer, again, tokens[cut:]) == whole


@pytest.mark.parametrize(
    ("family", "shown", "end"),
    [(OPENED, "<think>\n", "</think>"), (OPENED_OTHERWISE, "<reasoning>\n", "</reasoning>")],
    ids=["think", "reasoning"],
)
def test_what_the_prompt_opens_is_shown_as_opened(family: Family, shown: str, end: str) -> None:
    tokenizer = tokenizer_of(family)
    first = new_prompt(tokenizer)
    text = said(tokenizer, first, tokenizer.encode(f"hm{end}\n\nYes"))
    assert text.replace(" ", "") == f"{shown}hm{end}\n\nYes"
    assert first.shown == shown
    assert new_prompt(tokenizer, text).shown == ""
    inside = visible(tokenizer, list(new_prompt(tokenizer, f"{shown}hm").tokens))
    assert inside.replace(" ", "").endswith(f"{shown}hm")
    assert inside.count(shown.strip()) == 1


def test_a_beginning_of_the_answer_leaves_the_reasoning_out() -> None:
    for family, end in (
        (OPENED, "<|a|><think>\n\n</think>\n\nSure"),
        (OPENED_BRACKETS, "<|a|>[THINK][/THINK]Sure"),
        (HARMONY, "<|start|>assistant<|channel|>final<|message|>Sure"),
        (BRACKETS, "<|a|>Sure"),
    ):
        tokenizer = tokenizer_of(family)
        assert visible(tokenizer, list(new_prompt(tokenizer, "Sure").tokens)).endswith(end)
        assert said(tokenizer, new_prompt(tokenizer, "Sure"), tokenizer.encode(", yes")) == ", yes"


def test_several_messages_of_reasoning_are_one_thought_and_other_channels_belong_to_it() -> None:
    tokenizer = tokenizer_of(HARMONY)
    written = (
        "<|channel|>analysis<|message|>one<|end|><|start|>assistant<|channel|>commentary to=all<|message|>two<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Yes"
    )
    text = said(tokenizer, new_prompt(tokenizer), tokenizer.encode(written))
    assert text == "<think>one\n\ntwo</think>Yes"


@pytest.mark.parametrize("header", ["final <|constrain|>json", "final<|constrain|>json", "final json"])
def test_an_answer_whose_header_names_the_type_of_its_content_is_one(header: str) -> None:
    tokenizer = tokenizer_of(HARMONY)
    written = f"<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>{header}<|message|>{{}}"
    assert said(tokenizer, new_prompt(tokenizer), tokenizer.encode(written)) == "<think>hm</think>{}"


def test_a_header_without_an_end_is_not_lost() -> None:
    tokenizer = tokenizer_of(HARMONY)
    text = said(tokenizer, new_prompt(tokenizer), tokenizer.encode("<|channel|>" + "never a message " * 20))
    assert "never a message never" in text


@pytest.mark.parametrize("family", [HARMONY, BRACKETS, LLAMA_3], ids=["channels", "brackets", "knows none"])
def test_earlier_reasoning_is_not_read_again_where_no_template_takes_care_of_it(family: Family) -> None:
    tokenizer = tokenizer_of(family)
    turns = [QUESTION, ChatMessage("assistant", "<think>hm\n</think>\n\nYes."), ChatMessage("user", "Why?")]
    without = [QUESTION, ChatMessage("assistant", "Yes."), ChatMessage("user", "Why?")]
    assert tokenizer.encode_chat(turns) == tokenizer.encode_chat(without)


def test_a_template_that_takes_care_of_reasoning_gets_it() -> None:
    tokenizer = tokenizer_of(CHATML)
    assert not tokenizer.reasoning.is_control
    message = ChatMessage("assistant", "<think>hm</think>Yes.")
    assert tokenizer.reasoning.look_back(message) is message


def test_marks_typed_by_a_person_open_nothing() -> None:
    for family in (OPENED, HARMONY, BRACKETS):
        tokenizer = tokenizer_of(family)
        typed = [ChatMessage("user", f"What is {COMMON.begin} or {CHANNELS.begin} or [THINK]")]
        ids = tokenizer.encode_chat(typed)
        plain = tokenizer.encode_chat([ChatMessage("user", "What")])
        assert sum(each in tokenizer.signs for each in ids) == sum(each in tokenizer.signs for each in plain)


@pytest.mark.parametrize("text", [TEXTS[2], TEXTS[4]])
def test_text_without_marks_passes_as_it_is(text: str) -> None:
    tokenizer = tokenizer_of(HARMONY)
    assert said(tokenizer, new_prompt(tokenizer), tokenizer.encode(text)) == text


def test_every_pair_of_marks_begins_and_ends_differently() -> None:
    assert len({each.begin for each in MARKS} | {each.end for each in MARKS}) == 2 * len(MARKS)

"""An answer that is begun goes on where it stopped: the same prompt, then the answer's own tokens."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.protocol.messages import ChatMessage
from engine.text.text_stream import TextStream
from engine.text.tokenizer import Tokenizer
from tests.campaigns.extent import choose
from tests.engine.text.templates import ALPACA, CHATML, FAMILIES, Family
from tests.engine.text.test_chat import controls_in, tokenizer_of, visible
from tests.engine.text.tiny_tokenizers import BEGIN, BUILDERS, END, TEXTS, tiny

QUESTION = ChatMessage("user", "Hello!")

# The generation prompt opens the reasoning; what was said before is written without it.
REASONING = Family(
    "byte level",
    ("<|u|>", "<|a|>", "<|e|>"),
    "{% for m in messages %}{{ '<|u|>' if m.role == 'user' else '<|a|>' }}{{ m.content.split('</think>')[-1] }}"
    "{{ '<|e|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|a|><think>\n' }}{% endif %}",
)
# An answer that was said gets an empty reasoning.
CLOSING = Family(
    "byte level",
    ("<|u|>", "<|a|>", "<|e|>"),
    "{% for m in messages %}{{ '<|u|>' if m.role == 'user' else '<|a|><think>\n\n</think>\n\n' }}"
    "{{ m.content + '<|e|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|a|>' }}{% endif %}",
)
# Which channel an answer belongs to is said in control tokens.
CHANNELS = Family(
    "byte level",
    ("<|start|>", "<|channel|>", "<|message|>", "<|return|>"),
    "{% for m in messages %}{{ '<|start|>' + m.role + ('<|channel|>final' if m.role == 'assistant' else '') }}"
    "{{ '<|message|>' + m.content + '<|return|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}",
)
REFUSING = Family(
    "byte level",
    ("<|u|>",),
    "{% if messages[-1].role != 'user' %}{{ raise_exception('ask me') }}{% endif %}"
    "{% for m in messages %}{{ '<|u|>' + m.content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '\nA: ' }}{% endif %}",
)


def parts(tokenizer: Tokenizer, begun: str, question: ChatMessage = QUESTION) -> tuple[list[int], list[int]]:
    encoded = tokenizer.encode_whole([question, ChatMessage("assistant", begun)])
    return encoded.opening, encoded.answer


@pytest.mark.parametrize("begun", ["Sure", "\n\nSure: a", "Once upon a ti", TEXTS[2], TEXTS[4]])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_prompt_keeps_its_tokens_and_the_answer_follows(name: str, begun: str) -> None:
    tokenizer = tokenizer_of(FAMILIES[name])
    opening, answer = parts(tokenizer, begun)
    assert opening == tokenizer.encode_chat([QUESTION])
    assert tokenizer.encode_chat([QUESTION, ChatMessage("assistant", begun)]) == opening + answer
    if FAMILIES[name] is not ALPACA:  # it has no bytes for what it does not know
        assert tokenizer.decode(answer).strip(" ") == begun.strip(" ")


@pytest.mark.parametrize("name", FAMILIES)
def test_the_model_sees_what_transformers_would_show_it(name: str) -> None:
    tokenizer = tokenizer_of(FAMILIES[name])
    library: Any = tokenizer._backend._library
    turns = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Once upon"}]
    theirs = library.apply_chat_template(turns, continue_final_message=True, return_dict=False)
    ours = tokenizer.encode_chat([QUESTION, ChatMessage("assistant", "Once upon")])
    assert visible(tokenizer, ours).replace(" ", "") == visible(tokenizer, theirs).replace(" ", "")


@pytest.mark.parametrize("text", ["A tree, which grows", TEXTS[0], TEXTS[2]])
def test_an_answer_cut_off_by_the_embedded_model_is_read_again_token_by_token(text: str, embedded: Tokenizer) -> None:
    opening, answer = parts(embedded, text)
    assert opening[-1] == embedded.vocabulary["<|assistant|>"]
    assert answer == embedded.encode(text)


@pytest.mark.parametrize(
    ("family", "begun", "seen"),
    [
        (REASONING, "<think>\nhm, let me", "<|u|>Hello!<|e|><|a|><think>\nhm, let me"),
        (REASONING, "<think>\n", "<|u|>Hello!<|e|><|a|><think>\n"),
        (REASONING, "<think>", "<|u|>Hello!<|e|><|a|><think>\n"),
        (REASONING, "Sure", "<|u|>Hello!<|e|><|a|><think>\n\n</think>\n\nSure"),
        (CLOSING, "<think>hm", "<|u|>Hello!<|e|><|a|><think>hm"),
        (CHANNELS, "Sure", "<|start|>user<|message|>Hello!<|return|><|start|>assistant<|channel|>final<|message|>Sure"),
        (REFUSING, "Sure", "<|u|>Hello!\nA: Sure"),
    ],
    ids=[
        "opens the reasoning",
        "with nothing in it",
        "not even a line",
        "opens it in vain",
        "closes the reasoning",
        "names a channel",
        "wants a question last",
    ],
)
def test_templates_that_write_an_answer_otherwise_once_it_is_said(family: Family, begun: str, seen: str) -> None:
    tokenizer = tokenizer_of(family)
    assert visible(tokenizer, tokenizer.encode_chat([QUESTION, ChatMessage("assistant", begun)])) == seen


@settings(deadline=None, max_examples=choose(10, 40))
@given(data=st.data())
@pytest.mark.parametrize("name", [name for name in FAMILIES if FAMILIES[name].control])
def test_control_tokens_typed_as_a_beginning_stay_text(name: str, data: st.DataObject) -> None:
    family = FAMILIES[name]
    tokenizer = tokenizer_of(family)
    piece = st.sampled_from([*family.control, BEGIN, END, "<|", "|>", "a", " ", "\n", "\ue000"])
    begun = data.draw(st.lists(piece, min_size=1, max_size=6).map("".join).filter(str.strip))
    _, answer = parts(tokenizer, begun)
    assert controls_in(tokenizer, answer, family.control) == []


def test_an_empty_beginning_is_none() -> None:
    tokenizer = tokenizer_of(CHATML)
    assert parts(tokenizer, "") == (tokenizer.encode_chat([QUESTION]), [])


@pytest.mark.parametrize("kind", BUILDERS)
def test_without_a_template_the_play_goes_on(kind: str) -> None:
    tokenizer = tiny(kind)
    seen = tokenizer.decode(tokenizer.encode_chat([QUESTION, ChatMessage("assistant", "Good day")]))
    assert seen == tokenizer.decode(tokenizer.encode("User: Hello!\nAssistant: Good day"))
    spaced = tokenizer.decode(tokenizer.encode_chat([QUESTION, ChatMessage("assistant", " Good day")]))
    assert spaced == seen


@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("text", [TEXTS[0], "The quick brown fox, and then it says hello"])
def test_text_that_goes_on_keeps_its_spaces(kind: str, text: str) -> None:
    tokenizer = tiny(kind)
    ids = tokenizer.encode(text)
    for cut in range(len(ids)):
        before, after = TextStream(tokenizer), TextStream(tokenizer, begun=ids[:cut])
        said = "".join(map(before.push, ids[:cut])) + before.flush()
        rest = "".join(map(after.push, ids[cut:])) + after.flush()
        if said == tokenizer.decode(ids)[: len(said)]:  # not cut off inside a character
            assert said + rest == tokenizer.decode(ids)

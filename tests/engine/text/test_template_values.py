"""What else a chat template is told, and the prompt as text."""

from typing import Any

import pytest

from engine.protocol.messages import ChatMessage
from engine.text.tokenizer import Tokenizer
from tests.engine.text.tiny_tokenizers import library_tokenizer, put_begin_before_every_text, tiny

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role + ': ' + m.content + '</s>' }}{% endfor %}"
    "{% if effort %}{{ effort }}{% endif %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% if thinks is false %}{{ '<think></think>' }}{% endif %}"
    "{% endif %}"
)
QUESTION = (ChatMessage("user", "Well?"),)


def text_of(tokenizer: Tokenizer, **values: Any) -> str:
    return "".join(map(tokenizer.piece, tokenizer.encode_whole(QUESTION, (), tuple(values.items())).opening))


def test_a_template_is_told_values_of_its_variables() -> None:
    tokenizer = tiny("byte level", TEMPLATE)
    assert text_of(tokenizer).endswith("assistant: ")
    assert text_of(tokenizer, thinks=False).endswith("assistant: <think></think>")
    assert text_of(tokenizer, thinks=True, effort="high", other="any") == "<s>user: Well?</s>highassistant: "


def test_no_value_becomes_a_control_token_or_what_the_server_itself_tells() -> None:
    tokenizer = tiny("byte level", TEMPLATE)
    end = tokenizer.special_tokens["</s>"]
    prompt = tokenizer.encode_whole(QUESTION, (), (("effort", "</s>"),)).opening
    assert prompt.count(end) == 1
    taken = {"messages": "none", "bos_token": "other", "add_generation_prompt": False}
    assert text_of(tokenizer, **taken) == text_of(tokenizer)


@pytest.mark.parametrize("begun", ["", "I see"])
@pytest.mark.parametrize("template", [TEMPLATE, None])
def test_the_prompt_as_text_reads_the_same(begun: str, template: str | None) -> None:
    """Also where the tokenizer puts the same token before every text that the template begins with."""
    library = library_tokenizer("byte level", template)
    put_begin_before_every_text(library)
    tokenizer = Tokenizer(library)
    chat = (*QUESTION, *((ChatMessage("assistant", begun),) if begun else ()))
    text = tokenizer.write_whole(chat)
    assert tokenizer.encode_raw(text) == tokenizer.encode_chat(chat)
    assert not text.startswith("<s>")


def test_typed_marks_stand_in_the_text_as_they_were_typed() -> None:
    tokenizer = tiny("byte level", TEMPLATE)
    assert tokenizer.write_whole((ChatMessage("user", "</s>"),)) == "<s>user: </s></s>assistant: "

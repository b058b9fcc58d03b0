"""How much to reason, in the words of every API, as the model's chat template is told it."""

from typing import Any

import pytest
from openai import OpenAI

from engine.errors import InputError
from engine.protocol.messages import TemplateValues
from engine.serving.chat.request import ChatFields
from engine.serving.messages.request import CountFields, MessagesFields
from engine.serving.ollama.request import GenerateFields, OllamaChatFields
from engine.serving.responses.request import ResponsesFields
from tests.engine.serving.conftest import STORY, Running
from tests.engine.serving.played_engines import Hearing

MESSAGES: Any = [{"role": "user", "content": STORY}]
CHAT = {"messages": MESSAGES}
OFF = (("enable_thinking", False), ("thinking", False))
ON = (("enable_thinking", True), ("thinking", True))
LOW = (("reasoning_effort", "low"),)


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        (ChatFields, {}, ()),
        (ChatFields, {"reasoning_effort": "low"}, LOW),
        (ChatFields, {"reasoning_effort": "none"}, (("reasoning_effort", "none"), *OFF)),
        (ChatFields, {"chat_template_kwargs": {"enable_thinking": False, "n": 3}}, (OFF[0], ("n", 3))),
        (
            ChatFields,
            {"reasoning_effort": "none", "chat_template_kwargs": {"thinking": True}},
            (("reasoning_effort", "none"), OFF[0], ("thinking", True)),
        ),
        (ChatFields, {"thinking": {"type": "disabled"}}, OFF),
        (ChatFields, {"thinking": {"type": "auto"}}, ()),
        (MessagesFields, {"max_tokens": 1}, ()),
        (MessagesFields, {"max_tokens": 1, "thinking": {"type": "disabled"}}, OFF),
        (CountFields, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, ON),
        (CountFields, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, LOW),
        (OllamaChatFields, {"model": ""}, ()),
        (OllamaChatFields, {"model": "", "think": True}, ON),
        (OllamaChatFields, {"model": "", "think": False}, OFF),
        (GenerateFields, {"model": "", "think": "low"}, (*ON, *LOW)),
    ],
)
def test_every_api_has_its_words(kind: Any, fields: dict[str, Any], expected: TemplateValues) -> None:
    assert kind.model_validate({**CHAT, **fields}).template_values == expected


def test_responses_have_an_effort() -> None:
    assert ResponsesFields.model_validate({"input": "Hi", "reasoning": {"effort": "low"}}).template_values == LOW
    assert ResponsesFields.model_validate({"input": "Hi"}).template_values == ()


def test_what_the_server_itself_tells_a_template_is_not_the_client_s() -> None:
    for name in ("messages", "tools", "self"):
        with pytest.raises(InputError, match=name):
            _ = ChatFields.model_validate({**CHAT, "chat_template_kwargs": {name: "x"}}).template_values


def test_the_engine_hears_it(running: Running, client: OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    hearing = Hearing(monkeypatch)

    def heard() -> TemplateValues:
        return hearing.asked[-1].template_values

    asked: dict[str, Any] = {"model": "", "messages": MESSAGES, "max_tokens": 1, "reasoning_effort": "low"}
    client.chat.completions.create(**asked, extra_body={"chat_template_kwargs": {"thinking": False}})
    assert heard() == (*LOW, OFF[1])
    client.responses.create(model="", input=STORY, max_output_tokens=1, reasoning={"effort": "low"})
    assert heard() == LOW
    for path, fields in (
        ("/v1/messages", {"max_tokens": 1, "thinking": {"type": "disabled"}, **CHAT}),
        ("/v1/messages/count_tokens", {"thinking": {"type": "disabled"}, **CHAT}),
        ("/api/chat", {"think": False, "stream": False, "options": {"num_predict": 1}, **CHAT}),
        ("/api/generate", {"think": False, "stream": False, "options": {"num_predict": 1}, "prompt": STORY}),
    ):
        client.post(f"{running.address}{path}", body={"model": "", **fields}, cast_to=object)
        assert heard() == OFF, path

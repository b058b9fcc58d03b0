"""Pictures, told in any API, are the same to the engine; what would have to be fetched, or is none, is refused."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import anthropic
import httpx2 as httpx
import ollama
import openai
import pytest
from anthropic import Anthropic
from hypothesis import given
from hypothesis import strategies as st
from openai import OpenAI

from engine import data_urls
from engine.engine import Engine
from engine.errors import InputError
from engine.protocol.messages import ChatMessage, Generate
from engine.protocol.pictures import MOST_PICTURES, Picture
from engine.protocol.reasoning import COMMON
from engine.serving import pictures, question
from engine.serving.guard.errors import ApiError
from engine.serving.ollama.request import GenerateFields
from engine.serving.ollama.turns import TurnField
from engine.serving.ollama.turns import chat_of as ollama_chat_of
from engine.serving.pictures import SentPicture, require_pictures_read
from engine.text.prompt import Prompt
from tests.engine.serving.conftest import PATIENCE_SECONDS, STORY, Running
from tests.engine.serving.test_conversation import of_chat, of_items, of_messages

RED, BLUE = b"\x89PNG red", b"\x89PNG blue!"
CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
Tell = Callable[..., tuple[ChatMessage, ...]]


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def url_of(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64_of(data)}"


def in_chat(data: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url_of(data), "detail": "low"}}


def in_items(data: bytes) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url_of(data), "detail": "auto"}


def in_messages(data: bytes) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": base64_of(data)}}


def of_ollama(*messages: object) -> tuple[ChatMessage, ...]:
    return ollama_chat_of([TurnField.model_validate(each) for each in messages], COMMON)


# ---- what is read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tell", "text", "picture", "between"),
    [
        (of_chat, "text", in_chat, ""),
        (of_items, "input_text", in_items, "\n\n"),
        (of_messages, "text", in_messages, "\n\n"),
    ],
)
def test_pictures_stand_where_they_were_sent(
    tell: Tell, text: str, picture: Callable[[bytes], dict[str, Any]], between: str
) -> None:
    said = [{"type": text, "text": part} for part in ("What is ", "this?")]
    first = {"role": "user", "content": [picture(BLUE), said[0], picture(RED), picture(BLUE), said[1]]}
    (turn,) = tell(first, {"role": "user", "content": [picture(RED)]}, {"role": "user", "content": "Well?"})
    text = f"What is {between}this?"
    assert turn.content == f"{text}\n\nWell?"
    assert turn.pictures == (Picture(BLUE, 0), Picture(RED, 8), Picture(BLUE, 8), Picture(RED, len(text)))


def test_tools_give_pictures_back() -> None:
    shown = {"type": "text", "text": "Here:"}
    item = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    use = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [shown, in_messages(RED)]}
    expected = ChatMessage("tool", "Here:", tool_call_id="c", name="look", pictures=(Picture(RED, 5),))
    assert (
        expected
        == of_chat(
            {"role": "assistant", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c", "content": [shown, in_chat(RED)]},
        )[1]
    )
    output = [{"type": "input_text", "text": "Here:"}, in_items(RED)]
    assert expected == of_items(item, {"type": "function_call_output", "call_id": "c", "output": output})[1]
    called = {"role": "assistant", "content": [use]}
    assert expected == of_messages(called, {"role": "user", "content": [result]})[1]
    (_, failed) = of_messages(called, {"role": "user", "content": [{**result, "is_error": True}]})
    assert failed.content == "Error: Here:"
    assert failed.pictures == (Picture(RED, 12),)
    call = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": {}}}]}
    seen = of_ollama(call, {"role": "tool", "tool_call_id": "c", "content": "Here:", "images": [base64_of(RED)]})[1]
    assert seen == replace(expected, pictures=(Picture(RED, 0),))


def test_ollama_s_pictures_stand_before_the_text() -> None:
    sent = [base64_of(BLUE), base64_of(RED)]
    expected = ChatMessage("user", "What?", pictures=(Picture(BLUE), Picture(RED)))
    assert of_ollama({"role": "user", "content": "What?", "images": sent}) == (expected,)
    asked = GenerateFields.model_validate({"model": "", "system": "Be brief.", "prompt": "What?", "images": sent})
    assert asked.chat(COMMON) == (ChatMessage("system", "Be brief."), expected)
    assert GenerateFields.model_validate({"model": "", "images": sent}).is_question


def test_a_url_may_stand_alone_and_say_anything_of_its_type() -> None:
    for url in (url_of(RED), url_of(RED, "IMAGE/webp;name=a.webp"), url_of(RED, "").replace("data", "DATA")):
        (turn,) = of_chat({"role": "user", "content": [{"type": "image_url", "image_url": url}]})
        assert turn.pictures == (Picture(RED),)


@given(data=st.binary(min_size=1, max_size=70), step=st.sampled_from([4, 12, 64]))
def test_base64_is_read_in_steps(data: bytes, step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_urls, "STEP", step)
        assert SentPicture(f"x,{base64_of(data)}", 2, 7).read() == Picture(data, 7)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "A",
        "AAA",
        "AAAA\n",
        " AAAA",
        "AA=A",
        "AA==AAAA",
        "AAAAA===",
        "AAA=AAA=",
        "AA-_",
        "AAA%3D",
        "ÄÄÄÄ",
        "AAAA=",
        "=",
    ],
)
@pytest.mark.parametrize("step", [4, 1 << 20])
def test_what_is_no_base64_is_refused(sent: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_urls, "STEP", step)
    with pytest.raises(InputError, match="not sent as base64"):
        SentPicture(sent).read()
    with pytest.raises(InputError, match="not sent as base64"):
        of_messages({"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": sent}}]})


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/admin", "https://example.org/a.png", "file:///etc/passwd", "/etc/passwd", "a.png", "",
        "data:image/png,abc", "data:image/png;base64", f"data:{'x' * 300};base64,AAAA", base64_of(RED), "ftp://a/b",
    ],
)  # fmt: skip
def test_nothing_is_fetched(url: str) -> None:
    for part in ({"type": "image_url", "image_url": {"url": url}}, {"type": "image_url", "image_url": url}):
        with pytest.raises(InputError, match="not fetched") as refused:
            of_chat({"role": "user", "content": [part]})
        assert "data: URL" in str(refused.value)
    with pytest.raises(InputError, match="not fetched"):
        of_items({"role": "user", "content": [{"type": "input_image", "image_url": url}]})


@pytest.mark.parametrize(
    "source", [{"type": "url", "url": "https://example.org/a.png"}, {"type": "file", "file_id": "f"}]
)
def test_sources_elsewhere_are_refused(source: dict[str, str]) -> None:
    shown = {"type": "image", "source": source}
    for content in ([shown], [{"type": "tool_result", "tool_use_id": "c", "content": [shown]}]):
        with pytest.raises(InputError, match="type base64"):
            of_messages({"role": "user", "content": content})


def test_stored_pictures_are_refused() -> None:
    with pytest.raises(InputError, match="stores nothing"):
        of_items({"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]})


def test_pictures_in_the_words_of_another_api_are_refused_with_this_one_s() -> None:
    told = {of_chat: "image_url", of_items: "input_image", of_messages: "image"}
    for tell, own in told.items():
        for other in set(told.values()) - {own}:
            with pytest.raises(InputError, match=f"'{other}'.* Send them as {own}"):
                tell({"role": "user", "content": [{"type": other}]})
    with pytest.raises(InputError, match="cannot stand here"):
        of_chat({"role": "assistant", "content": [in_chat(RED)]})


@pytest.mark.parametrize("role", ["system", "assistant"])
def test_only_users_and_tools_show_pictures(role: str) -> None:
    with pytest.raises(InputError, match="by the user"):
        of_messages({"role": role, "content": [in_messages(RED)]})
    with pytest.raises(InputError, match="by the user"):
        of_items({"role": role, "content": [in_items(RED)]})
    with pytest.raises(InputError, match="by the user"):
        of_ollama({"role": role, "content": "a", "images": [base64_of(RED)]})


def test_there_are_not_too_many() -> None:
    most = [{"role": "user", "content": [in_chat(RED)] * (MOST_PICTURES // 2)}] * 2
    assert len(of_chat(*most)[0].pictures) == MOST_PICTURES
    with pytest.raises(InputError, match=f"more than {MOST_PICTURES}"):
        of_chat(*most, {"role": "user", "content": [{"type": "image_url", "image_url": "data:;base64,no"}]})


def test_a_picture_is_not_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any of it is decoded: it is no base64 either."""
    monkeypatch.setattr(pictures, "MOST_BASE64", 8)
    assert of_messages({"role": "user", "content": [in_messages(b"123456")]})
    for tell, part in (
        (of_chat, {"type": "image_url", "image_url": "data:;base64,?????????"}),
        (of_items, {"type": "input_image", "image_url": "data:;base64,?????????"}),
        (of_messages, {"type": "image", "source": {"type": "base64", "data": "?????????"}}),
    ):
        with pytest.raises(ApiError, match="more than 32 MiB") as refused:
            tell({"role": "user", "content": [part]})
        assert (refused.value.status, refused.value.code) == (413, "request_too_large")


def test_base64_in_objects_is_text(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture in the arguments of a call is none: the model would read all of its characters."""
    monkeypatch.setattr(question, "MOST_TEXT", 1000)
    use = {"type": "tool_use", "id": "c", "name": "look", "input": {"data": "A" * 1000}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "done"}
    said = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    tools = [{"name": "look", "input_schema": {"data": "A" * 1000}}]
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        for asked in ({"messages": said}, {"messages": [{"role": "user", "content": "Hi"}], "tools": tools}):
            refused = http.post(path, json={"max_tokens": 2, **asked})
            assert (refused.status_code, refused.json()["error"]["type"]) == (413, "request_too_large")
    shown = [{"role": "user", "content": "Hi " * 400}]
    assert http.post("/apply-template", json={"messages": shown}).status_code == 413


def test_why_a_model_reads_none_is_told() -> None:
    chat = (ChatMessage("user", "What?", pictures=(Picture(RED),)),)
    blind = cast(Engine, SimpleNamespace(reads_pictures=False, no_pictures="It has no eyes."))
    with pytest.raises(InputError, match=r"^It has no eyes\. Send text alone"):
        require_pictures_read(blind, chat)
    require_pictures_read(blind, (ChatMessage("user", "What?"),))
    require_pictures_read(cast(Engine, SimpleNamespace(reads_pictures=True)), chat)


# ---- as clients see it -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def http(running: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.address, timeout=PATIENCE_SECONDS) as client:
        yield client


@pytest.fixture(scope="module")
def claude(running: Running) -> Iterator[Anthropic]:
    with running.claude() as client:
        yield client


@pytest.fixture(scope="module")
def llama(running: Running) -> Iterator[ollama.Client]:
    with running.llama() as client:
        yield client


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ChatMessage, ...]]:
    """What a model is asked that reads pictures: the embedded one, which is shown the text alone."""
    asked, prompt_of = list[tuple[ChatMessage, ...]](), Engine.prompt_of

    def see(engine: Engine, request: Generate) -> Prompt:
        asked.append(request.chat)
        return prompt_of(engine, replace(request, chat=tuple(replace(turn, pictures=()) for turn in request.chat)))

    monkeypatch.setattr(Engine, "reads_pictures", True)
    monkeypatch.setattr(Engine, "write_pictures", lambda _engine, _pictures: ())
    monkeypatch.setattr(Engine, "prompt_of", see)
    return asked


QUESTION = ChatMessage("user", STORY, pictures=(Picture(RED, 0),))


@pytest.mark.parametrize("stream", [False, True])
def test_every_client_shows_pictures(
    running: Running, client: OpenAI, claude: Anthropic, llama: ollama.Client, stream: Any,
    seen: list[tuple[ChatMessage, ...]],
) -> None:  # fmt: skip
    ask: Any = client.chat.completions.create
    told = ask(
        model="",
        messages=[{"role": "user", "content": [in_chat(RED), {"type": "text", "text": STORY}]}],
        max_tokens=2,
        stream=stream,
    )
    list(told)
    parts: Any = [in_items(RED), {"type": "input_text", "text": STORY}]
    list(
        client.responses.create(
            model="", input=[{"role": "user", "content": parts}], max_output_tokens=2, stream=stream
        )
    )
    blocks: Any = [in_messages(RED), {"type": "text", "text": STORY}]
    list(claude.messages.create(model="", max_tokens=2, messages=[{"role": "user", "content": blocks}], stream=stream))
    list(
        llama.chat(
            model="default",
            messages=[ollama.Message(role="user", content=STORY, images=[ollama.Image(value=RED)])],
            options={"num_predict": 2},
            stream=stream,
        )
    )
    list(llama.generate(model="default", prompt=STORY, images=[RED], options={"num_predict": 2}, stream=stream))
    assert seen == [(QUESTION,)] * 5


def test_who_shows_pictures_to_a_model_that_reads_none_is_told(
    client: OpenAI, claude: Anthropic, llama: ollama.Client, http: httpx.Client
) -> None:
    shown: Any = [{"role": "user", "content": [in_chat(RED)]}]
    with pytest.raises(openai.BadRequestError, match="a model loaded that reads pictures") as refused:
        client.chat.completions.create(model="", messages=shown)
    assert refused.value.code == "invalid_value"
    items: Any = [{"role": "user", "content": [in_items(RED)]}]
    with pytest.raises(openai.BadRequestError, match="a model loaded that reads pictures"):
        client.responses.create(model="", input=items)
    blocks: Any = [{"role": "user", "content": [in_messages(RED)]}]
    with pytest.raises(anthropic.BadRequestError, match="a model loaded that reads pictures"):
        claude.messages.create(model="", max_tokens=2, messages=blocks)
    with pytest.raises(anthropic.BadRequestError, match="a model loaded that reads pictures"):
        claude.messages.count_tokens(model="", messages=blocks)
    with pytest.raises(ollama.ResponseError, match="a model loaded that reads pictures"):
        llama.generate(model="default", prompt=STORY, images=[RED])
    with pytest.raises(ollama.ResponseError, match="a model loaded that reads pictures"):
        llama.chat(model="default", messages=[ollama.Message(role="user", images=[ollama.Image(value=RED)])])
    refused_text = http.post("/apply-template", json={"messages": shown})
    assert refused_text.status_code == 400
    assert "cannot show pictures" in refused_text.json()["error"]["message"]


def test_too_much_is_told_in_each_api_s_form(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST_BASE64", 8)
    openai_s = http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": [in_chat(RED)]}]})
    asked = {"max_tokens": 2, "messages": [{"role": "user", "content": [in_messages(RED)]}]}
    anthropic_s = http.post("/v1/messages", json=asked)
    sent = {"role": "user", "content": "", "images": [base64_of(RED)]}
    ollama_s = http.post("/api/chat", json={"model": "", "messages": [sent]})
    assert [each.status_code for each in (openai_s, anthropic_s, ollama_s)] == [413] * 3
    assert openai_s.json()["error"]["code"] == anthropic_s.json()["error"]["type"] == "request_too_large"
    assert ollama_s.json()["error"].startswith("A picture has more than 32 MiB.")


def test_tokens_of_pictures_are_counted_by_the_engine(claude: Anthropic, seen: list[tuple[ChatMessage, ...]]) -> None:
    blocks: Any = [in_messages(RED), {"type": "text", "text": STORY}]
    assert claude.messages.count_tokens(model="", messages=[{"role": "user", "content": blocks}]).input_tokens
    assert seen == [(QUESTION,)]


@pytest.mark.parametrize("reads", [False, True])
def test_clients_are_told_whether_the_model_reads_pictures(
    http: httpx.Client, reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "reads_pictures", reads)
    assert ("vision" in http.post("/api/show", json={"model": ""}).json()["capabilities"]) == reads
    for path in ("/api/tags", "/api/ps"):
        assert ("vision" in http.get(path).json()["models"][0]["capabilities"]) == reads
    assert http.get("/props").json()["modalities"]["vision"] == reads
    assert http.get("/api/v0/models").json()["data"][0]["type"] == ("vlm" if reads else "llm")
    assert http.get("/api/v1/models").json()["models"][0]["capabilities"]["vision"] == reads
    modalities = http.get("/v1/models").json()["data"][0]["architecture"]
    assert modalities == {"input_modalities": ["text", "image"] if reads else ["text"], "output_modalities": ["text"]}

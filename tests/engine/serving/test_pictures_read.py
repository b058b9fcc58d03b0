"""Pictures that clients send, read by a model: the engine's own text, and clear words where there is none."""

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import anthropic
import httpx2 as httpx
import ollama
import openai
import pytest
from anthropic import Anthropic

from engine.__main__ import main
from engine.model.pictures.encoder import PictureEncoder
from engine.protocol.messages import ChatMessage
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.serving import answers
from tests.engine.picture_models import picture, save_picture_model
from tests.engine.serving.conftest import PATIENCE_SECONDS, Running, serving

WORDS, LENGTH = "What is it?", 6
SHOWN, OTHER = picture(0), picture(1)
CHAT = (ChatMessage("user", WORDS, pictures=(SHOWN,)),)
FEW = GenerateOptions(max_new_tokens=LENGTH)
DATA = base64.b64encode(SHOWN.data).decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    save_picture_model("qwen3_vl", folder)
    return folder


@pytest.fixture(scope="module")
def seeing(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    cache = str(tmp_path_factory.mktemp("cache"))
    options = LoadOptions(target=str(folder), draft="none", device="cpu", context_tokens=400, cache_dir=cache)
    with serving(options) as running:
        yield running


@pytest.fixture(scope="module")
def claude(seeing: Running) -> Iterator[Anthropic]:
    with seeing.claude() as client:
        yield client


@pytest.fixture(scope="module")
def llama(seeing: Running) -> Iterator[ollama.Client]:
    with seeing.llama() as client:
        yield client


def in_chat(data: str) -> list[Any]:
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    return [{"role": "user", "content": [shown, {"type": "text", "text": WORDS}]}]


def in_messages(data: str) -> list[Any]:
    shown = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    return [{"role": "user", "content": [shown, {"type": "text", "text": WORDS}]}]


def test_every_client_reads_what_the_engine_writes(seeing: Running, claude: Anthropic, llama: ollama.Client) -> None:
    expected = seeing.text_of(CHAT, FEW)
    assert expected != seeing.text_of((ChatMessage("user", WORDS, pictures=(OTHER,)),), FEW), "it sees them"
    with seeing.openai() as client:
        told = client.chat.completions.create(model="", messages=in_chat(DATA), max_tokens=LENGTH, temperature=0)
        assert told.choices[0].message.content == expected
        items: Any = [
            {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}"},
            {"type": "input_text", "text": WORDS},
        ]
        response = client.responses.create(
            model="", input=[{"role": "user", "content": items}], max_output_tokens=LENGTH, temperature=0
        )
        assert response.output_text == expected
    cold = {"temperature": 0}
    message = claude.messages.create(model="", messages=in_messages(DATA), max_tokens=LENGTH, extra_body=cold)
    assert message.content[0].type == "text"
    assert message.content[0].text == expected
    greedy = {"num_predict": LENGTH, "temperature": 0}
    shown = ollama.Message(role="user", content=WORDS, images=[ollama.Image(value=SHOWN.data)])
    assert llama.chat(model="default", messages=[shown], options=greedy).message.content == expected
    generated = llama.generate(model="default", prompt=WORDS, images=[SHOWN.data], options=greedy)
    assert generated.response == expected


def test_tools_show_pictures_if_the_template_does(seeing: Running) -> None:
    called = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "c", "content": in_chat(DATA)[0]["content"]}
    asked = [{"role": "user", "content": "Look."}, {"role": "assistant", "tool_calls": [called]}, result]
    with httpx.Client(base_url=seeing.address, timeout=PATIENCE_SECONDS) as http:
        told = http.post("/v1/chat/completions", json={"messages": asked, "max_tokens": LENGTH})
    assert told.status_code == 200, told.text
    assert told.json()["usage"]["prompt_tokens"] > pictures_tokens(seeing)


def pictures_tokens(seeing: Running) -> int:
    """What one picture takes of a prompt."""
    plain = (ChatMessage("user", WORDS),)
    return len(seeing.engine.prompt(CHAT).tokens) - len(seeing.engine.prompt(plain).tokens)


def test_tokens_of_pictures_are_counted(seeing: Running, claude: Anthropic) -> None:
    counted = claude.messages.count_tokens(model="", messages=in_messages(DATA))
    assert counted.input_tokens == len(seeing.engine.prompt(CHAT).tokens)
    assert pictures_tokens(seeing) > 1


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_no_picture_is_a_clear_400_before_its_turn(
    seeing: Running, claude: Anthropic, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    junk = base64.b64encode(b"%PDF-1.7").decode()
    monkeypatch.setattr(seeing.desk, "put", Mock(side_effect=AssertionError("it waits for its turn")))
    with seeing.openai() as client, pytest.raises(openai.BadRequestError, match="picture") as refused:
        client.chat.completions.create(model="", messages=in_chat(junk), max_tokens=LENGTH, stream=stream)
    assert refused.value.code == "invalid_value"
    with pytest.raises(anthropic.BadRequestError, match="picture"):
        claude.messages.count_tokens(model="", messages=in_messages(junk))


def test_a_terminal_shows_them_as_well(
    seeing: Running, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "it.png").write_bytes(SHOWN.data)
    (tmp_path / "chat.json").write_text(json.dumps(in_chat(DATA)))
    its = ["--target", str(folder), "--draft", "none", "--device", "cpu", "--context", "400", "--json"]
    by_prompt = ["--prompt", WORDS, "--image", str(tmp_path / "it.png")]
    for asked in (by_prompt, ["--messages", str(tmp_path / "chat.json")]):
        assert main(["generate", *asked, "--max-new-tokens", str(LENGTH), *its]) == 0
        assert json.loads(capsys.readouterr().out)["text"] == seeing.text_of(CHAT, FEW)


def test_looking_at_a_picture_is_bridged_by_signs_of_life(seeing: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "SECONDS_ALIVE", 0.02)
    go_on, encoded = threading.Event(), PictureEncoder._encoded

    def slow(*arguments: Any) -> Any:
        assert go_on.wait(PATIENCE_SECONDS)
        return encoded(*arguments)

    monkeypatch.setattr(PictureEncoder, "_encoded", slow)
    new = base64.b64encode(picture(5).data).decode()
    with seeing.openai() as client:
        raw = client.chat.completions.with_streaming_response
        body: Any = {"messages": in_chat(new), "max_tokens": 2, "stream": True}
        with raw.create(model="", **body) as response:
            lines = (line for line in response.iter_lines() if line)
            try:
                assert [next(lines), next(lines)] == [": 0 ahead", ": 0 ahead"]
            finally:
                go_on.set()
            assert [line for line in lines if line.startswith("data: ")][-1] == "data: [DONE]"

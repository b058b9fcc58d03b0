"""`/v1/models`, and the tokens of texts."""

from typing import Any

import httpx2
import openai
import pytest
from anthropic import Anthropic
from openai import OpenAI

from engine.protocol.options import LoadOptions
from engine.serving.endpoints.tokens import TokenPiece
from engine.serving.guard.errors import ApiError
from engine.serving.model_names import require_served, served_name
from tests.engine.serving.conftest import Running


def test_the_loaded_pair_is_listed(running: Running, client: OpenAI) -> None:
    (listed,) = client.models.list().data
    assert listed.id == running.engine.name
    assert listed.owned_by == "coppice"
    assert listed.model_extra
    assert listed.model_extra["max_model_len"] == listed.model_extra["meta"]["n_ctx"] == running.engine.context_tokens
    assert listed.model_extra["meta"]["draft"] == running.engine.describe(0, 0.0).draft.name  # type: ignore[union-attr]
    assert (listed.model_extra["meta"]["n_ctx_train"], listed.model_extra["meta"]["n_vocab"]) == (2048, 4096)
    assert client.models.retrieve(listed.id) == listed
    with pytest.raises(openai.NotFoundError, match="another/one"):
        client.models.retrieve("another/one")


def test_anthropic_s_client_lists_it_too(running: Running) -> None:
    with Anthropic(base_url=running.address, api_key="none", max_retries=0) as client:
        (listed,) = client.models.list()
        assert (listed.id, listed.display_name, listed.type) == (running.engine.name, running.engine.name, "model")
        assert client.models.retrieve(listed.id).created_at.year == 1970


class Named:
    """An engine by its name and what it was loaded from."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.options = name, LoadOptions(target=source)


@pytest.mark.parametrize(
    ("name", "source", "served"),
    [
        ("Qwen3-8B", "Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("demo-target", "embedded", "demo-target"),
        ("Qwen3-8B", "/home/me/models/Qwen3-8B", "Qwen3-8B"),
        ("model.gguf", "./models/model.gguf", "model.gguf"),
    ],
)
def test_names_are_stable_and_no_paths(name: str, source: str, served: str) -> None:
    engine: Any = Named(name, source)
    assert served_name(engine) == served
    assert {require_served(engine, each) for each in (name, source, served, "", "default", None)} == {served}
    with pytest.raises(ApiError) as raised:
        require_served(engine, "gpt-99")
    assert raised.value.status == 404
    assert require_served(engine, "gpt-99", ("gpt-98", "gpt-99")) == served
    assert require_served(engine, "gpt-99", ("*",)) == served
    with pytest.raises(ApiError):
        require_served(engine, "gpt-9", ("gpt-99",))


def post(running: Running, path: str, body: dict[str, Any]) -> Any:
    return httpx2.post(f"{running.address}{path}", json=body).raise_for_status().json()


def test_texts_become_tokens_and_tokens_texts(running: Running) -> None:
    tokenizer, text = running.engine.tokenizer, "A dragon, a jötunn and a 🌳"
    tokens = post(running, "/tokenize", {"content": text})["tokens"]
    assert tokens == tokenizer.encode(text)
    assert post(running, "/tokenize", {"content": text, "add_special": True})["tokens"] == tokenizer.encode_raw(text)
    pieces = post(running, "/tokenize", {"content": "A dragon", "with_pieces": True})["tokens"]
    assert "".join(each["piece"] for each in pieces) == "A dragon"
    assert post(running, "/detokenize", {"tokens": tokens}) == {"content": text}
    assert post(running, "/detokenize", {"tokens": []}) == {"content": ""}
    end = next(iter(running.engine.end_tokens))
    assert post(running, "/detokenize", {"tokens": [*tokens, end, 10**9]})["content"] == text + tokenizer.piece(end)


def test_a_long_text_is_told_without_an_object_for_each_token(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request of 8 MiB has eight million tokens: with an object for each the answer would take 6 GB."""
    made = list[int]()

    class Counted(TokenPiece):
        def model_post_init(self, _context: object) -> None:
            made.append(self.id)

    monkeypatch.setattr("engine.serving.endpoints.tokens.TokenPiece", Counted)
    text = 'A dragon, a jötunn and a 🌳\n"' * 500
    pieces = post(running, "/tokenize", {"content": text, "with_pieces": True})["tokens"]
    assert [each["id"] for each in pieces] == running.engine.tokenizer.encode(text)
    assert sorted(made) == sorted({each["id"] for each in pieces})

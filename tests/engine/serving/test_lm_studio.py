"""LM Studio's own addresses, as its documents have them."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest

from engine.protocol.messages import Finished, Statistics
from engine.protocol.options import GenerateOptions
from engine.serving.lm_studio.resource import AnsweringModel, StopReason, figures_of
from tests.engine.serving.conftest import PATIENCE_SECONDS, STORY, Running
from tests.engine.serving.test_ollama import CHAT

ASKED = {"messages": [{"role": "user", "content": STORY}], "temperature": 0, "max_tokens": 12}
PATHS = {"/api/v0/chat/completions": ASKED, "/api/v0/completions": {"prompt": "Once", "temperature": 0}}


@pytest.fixture(scope="module")
def http(running: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.address, timeout=PATIENCE_SECONDS) as client:
        yield client


def ask(http: httpx.Client, path: str, **fields: Any) -> Any:
    response = http.post(path, json={**PATHS[path], **fields})
    assert response.status_code == 200, response.text
    return response.json()


def test_the_loaded_model_is_listed_with_its_context(running: Running, http: httpx.Client) -> None:
    listed = http.get("/api/v0/models").json()
    (model,) = listed["data"]
    target = running.engine.describe(0, seconds=0.0).target
    assert listed["object"] == "list"
    assert {name: model[name] for name in ("id", "object", "type", "publisher", "arch", "quantization")} == {
        "id": running.engine.name, "object": "model", "type": "llm", "publisher": "", "arch": target.family,
        "quantization": target.weights,
    }  # fmt: skip
    assert (model["state"], model["compatibility_type"]) == ("loaded", "gguf"), "Zed reads no list with another type"
    assert model["loaded_context_length"] == running.engine.context_tokens
    assert model["max_context_length"] == 2048, "what its config.json says"
    assert model["capabilities"] == [], "its template knows no tools"
    assert http.get(f"/api/v0/models/{model['id']}").json() == model
    missing = http.get("/api/v0/models/llama3")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")


def test_the_later_form_says_the_same(running: Running, http: httpx.Client) -> None:
    (model,) = http.get("/api/v1/models").json()["models"]
    earlier, target = http.get("/api/v0/models").json()["data"][0], running.engine.describe(0, seconds=0.0).target
    assert (model["key"], model["architecture"]) == (earlier["id"], earlier["arch"])
    assert model["max_context_length"] == earlier["max_context_length"]
    assert model["format"] is None, "neither GGUF nor MLX"
    length = {"context_length": running.engine.context_tokens}
    assert model["loaded_instances"] == [{"id": model["key"], "config": length}]
    assert model["size_bytes"] == target.bytes
    assert model["params_string"] == f"{target.parameters / 1e6:.1f}M"
    assert model["quantization"]["bits_per_weight"] == pytest.approx(8 * target.bytes / target.parameters, abs=0.01)
    assert model["capabilities"] == {"vision": False, "trained_for_tool_use": False}
    loaded = http.post("/api/v1/models/load", json={"model": model["key"], "context_length": 8192}).json()
    assert (loaded["instance_id"], loaded["load_config"]) == (model["key"], length)
    assert http.post("/api/v1/models/load", json={"model": "llama3"}).status_code == 404


def test_nothing_is_listed_before_a_model_is_loaded(
    running: Running, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.desk, "engine", None)
    assert http.get("/api/v0/models").json()["data"] == []
    assert http.get("/api/v1/models").json() == {"models": []}


@pytest.mark.parametrize("path", PATHS)
def test_completions_are_openai_s_with_figures(running: Running, http: httpx.Client, path: str) -> None:
    theirs = http.post(path.replace("/api/v0", "/v1"), json=PATHS[path]).json()
    whole = ask(http, path)
    assert whole["choices"] == theirs["choices"]
    assert set(whole) == {*theirs, "stats", "model_info", "runtime"}
    stats = whole["stats"]
    assert stats["tokens_per_second"] == pytest.approx(whole["timings"]["predicted_per_second"])
    assert stats["generation_time"] == pytest.approx(whole["timings"]["predicted_ms"] / 1000)
    assert stats["time_to_first_token"] > 0
    assert stats["stop_reason"] == "maxPredictedTokensReached"
    assert whole["model_info"]["context_length"] == running.engine.context_tokens
    assert whole["runtime"]["name"] == "coppice"


@pytest.mark.parametrize("path", PATHS)
def test_the_last_chunk_of_a_stream_has_the_figures(http: httpx.Client, path: str) -> None:
    with http.stream("POST", path, json={**PATHS[path], "stream": True}) as response:
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    *chunks, last = map(json.loads, lines)
    assert not any("stats" in chunk for chunk in chunks)
    assert last["stats"]["stop_reason"] == "maxPredictedTokensReached"
    assert last["choices"][0]["finish_reason"] == "length"


def test_a_stop_string_is_told_as_such(running: Running, http: httpx.Client) -> None:
    word = running.text_of(CHAT, GenerateOptions(max_new_tokens=12)).split()[2]
    assert ask(http, "/api/v0/chat/completions", stop=[word])["stats"]["stop_reason"] == "stopStringFound"


@pytest.mark.parametrize(
    ("finished", "has_called", "reason"),
    [
        (Finished(1, "stop"), False, "eosFound"),
        (Finished(1, "stop"), True, "toolCalls"),
        (Finished(1, "stop", stop="x"), True, "stopStringFound"),
        (
            Finished(1, "length", statistics=Statistics(prompt_tokens=90, new_tokens=9)),
            True,
            "maxPredictedTokensReached",
        ),
        (Finished(1, "length", statistics=Statistics(prompt_tokens=90, new_tokens=10)), False, "contextLengthReached"),
    ],
)
def test_why_an_answer_ended(finished: Finished, has_called: bool, reason: StopReason) -> None:
    model = AnsweringModel(arch="llama", quant="Q4_K", format="gguf", context_length=100)
    assert figures_of(model, finished, has_called).stats.stop_reason == reason

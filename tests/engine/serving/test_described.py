"""Requests made from the server's own description: whatever is sent, the answer is one that the description knows."""

import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from engine.text.infill_marks import InfillMarks
from tests.campaigns.extent import choose
from tests.engine.serving.conftest import PATIENCE_SECONDS, Running
from tests.engine.serving.short_answers import short_answers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the libraries that it stands on
    from schemathesis import checks
    from schemathesis.core.result import Ok
    from schemathesis.generation import GenerationMode
    from schemathesis.openapi import from_url
    from schemathesis.specs.openapi import checks as openapi_checks

    # Imported by `from_url` otherwise: amid a test, where another thread that ends its `catch_warnings` brings back the
    # filters which make an error of what this library warns of and means to silence.
    importlib.import_module("requests")

EXAMPLES = choose(3, 60)  # of each operation, as it is described and otherwise
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
INPUT = {"input": "Hi"}
PLAIN: dict[str, dict[str, Any]] = {
    "GET /api/ps": {},
    "GET /api/tags": {},
    "GET /api/v0/models": {},
    "GET /api/v0/models/{name}": {},
    "GET /api/v1/models": {},
    "GET /api/version": {},
    "GET /health": {},
    "GET /metrics": {},
    "GET /props": {},
    "GET /slots": {},
    "GET /v1/models": {},
    "GET /v1/models/{name}": {},
    "POST /api/chat": {"model": "", **CHAT},
    "POST /api/generate": {"model": "", "prompt": "Hi"},
    "POST /api/show": {"model": ""},
    "POST /api/v0/chat/completions": CHAT,
    "POST /api/v0/completions": {"prompt": "Hi"},
    "POST /api/v1/models/load": {"model": ""},
    "POST /apply-template": CHAT,
    "POST /completion": {"prompt": "Hi", "n_probs": 2},
    "POST /completions": {"prompt": ["Hi", [1, "Hi"]]},
    "POST /detokenize": {"tokens": [1, 2]},
    "POST /infill": {"input_prefix": "Hi", "input_suffix": ""},
    "POST /tokenize": {"content": "Hi", "with_pieces": True},
    "POST /v1/chat/completions": {**CHAT, "logprobs": True, "top_logprobs": 2},
    "POST /v1/completions": {"prompt": "Hi", "logprobs": 2},
    "POST /v1/messages": {**CHAT, "max_tokens": 2},
    "POST /v1/messages/count_tokens": CHAT,
    "POST /v1/responses": INPUT,
}
"""Of each operation a request that is answered."""
STREAMS = {"text/event-stream", "application/x-ndjson"}
CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
]


@pytest.fixture(scope="module", autouse=True)
def few_tokens(running: Running) -> Iterator[None]:
    """Answers end after two, whatever is asked for, also for what is in a gap."""
    with short_answers(2), pytest.MonkeyPatch.context() as patch:
        patch.setattr(running.engine.tokenizer, "infill", InfillMarks(3, 4, 5, None, None, False, frozenset((3, 4))))
        yield


@pytest.fixture(scope="module")
def operations(running: Running) -> dict[str, Any]:
    """What the server says that it can be asked, by method and path."""
    described = from_url(f"{running.address}/openapi.json")
    found = [each.ok() for each in described.get_all_operations() if isinstance(each, Ok)]
    return {operation.label: operation for operation in found}


def test_everything_that_is_described_is_tried(operations: dict[str, Any]) -> None:
    assert set(operations) == set(PLAIN)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
@pytest.mark.parametrize("name", PLAIN)
def test_every_answer_is_as_described(
    running: Running, operations: dict[str, Any], name: str, mode: GenerationMode
) -> None:
    """No 5xx, no status, type or body that the description does not have; and what is no request is refused."""
    operation = operations[name]
    if mode == GenerationMode.NEGATIVE and not operation.body:
        pytest.skip("nothing to get wrong")

    @settings(
        max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(operation.as_strategy(generation_mode=mode))
    def holds(case: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            response = case.call(base_url=running.address, timeout=PATIENCE_SECONDS)
            case.validate_response(response, checks=CHECKS)
        assert mode == GenerationMode.POSITIVE or response.status_code == 400

    holds()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_request_is_answered_as_described(
    running: Running, operations: dict[str, Any], name: str, stream: bool
) -> None:
    operation, body = operations[name], PLAIN[name]
    if stream and not STREAMS.intersection(operation.definition.raw["responses"]["200"]["content"]):
        pytest.skip("there is no stream")
    case = operation.Case(
        path_parameters={"name": running.engine.name} if "{name}" in name else {},
        **({"body": {**body, "stream": stream}, "media_type": "application/json"} if body else {}),
    )
    response = case.call(base_url=running.address, timeout=PATIENCE_SECONDS)
    case.validate_response(response, checks=CHECKS)
    assert response.status_code == 200
    assert bool(STREAMS.intersection(response.headers["content-type"][0].split("; "))) == stream

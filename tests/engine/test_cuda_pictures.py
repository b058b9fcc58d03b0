"""Pictures on a GPU: encoded there, or in host memory where the GPU has no room for the encoder."""

from collections.abc import Iterator

import pytest

from engine import accelerator
from tests.engine.exact_products import exact_products
from tests.engine.test_pictures import CHAT, KINDS, answered, expected, folder_of, loaded

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _exact() -> Iterator[None]:
    with exact_products():
        yield


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draft", ["none", "same"])
def test_answers_are_those_of_transformers(kind: str, draft: str) -> None:
    """A draft has graphs, which know no pictures; behind these it computes without."""
    target = folder_of(kind)
    its = loaded(target, target if draft == "same" else "none", device="cuda", weights="float32")
    try:
        assert answered(its, its.prompt(CHAT))[0] == expected(kind)[1]
    finally:
        its.close()


def test_a_full_gpu_leaves_encoding_to_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    its = loaded(folder_of("qwen3_vl"), device="cuda", weights="float32")
    try:
        prompt = its.prompt(CHAT)
        monkeypatch.setattr(accelerator, "free_bytes", lambda _device: 0)
        assert answered(its, prompt)[0] == expected("qwen3_vl")[1]
    finally:
        its.close()

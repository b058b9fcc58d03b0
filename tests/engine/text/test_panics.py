"""A library written in Rust that panics, and a pattern of a model that never ends."""

import threading
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import transformers
from tokenizers import models, pre_tokenizers

from engine.errors import ENDING, ModelError, Panic, no_panic
from engine.text.tokenizer import Tokenizer
from engine.text.tokenizer_files import load_tokenizer
from engine.weights.store.layer_file import read_layout

CATASTROPHIC = tokenizers.Regex("(a+)+$")
FATAL = "a" * 40 + "b"


class Cry(BaseException):
    """As pyo3's own, which Python cannot make."""


def nasty_library(name: str = "") -> Any:
    """A tokenizer whose pattern gives up on some texts: the library panics then."""
    built = tokenizers.Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    built.pre_tokenizer = pre_tokenizers.Split(CATASTROPHIC, "isolated")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=built, unk_token="?", name_or_path=name)


def test_a_panic_is_an_error_that_names_the_tokenizer() -> None:
    tokenizer = Tokenizer(nasty_library("/models/nasty-1b"))
    with pytest.raises(ModelError, match=r"^The tokenizer of 'nasty-1b' failed: Onig: Regex search error") as caught:
        tokenizer.encode(FATAL)
    assert caught.value.hint
    assert tokenizer.encode("a") == [0], "one text that fails is no reason to refuse another"


def test_other_threads_go_on_while_a_pattern_is_tried() -> None:
    tokenizer, beats, over = Tokenizer(nasty_library()), [0], threading.Event()

    def beat() -> None:
        while not over.wait(0.002):
            beats[0] += 1

    def beats_of_a_try() -> int:
        before = beats[0]
        with pytest.raises(ModelError, match="The tokenizer of this model failed"):
            tokenizer.encode(FATAL)
        return beats[0] - before

    thread = threading.Thread(target=beat)
    thread.start()
    try:  # on a busy machine the other thread may get no processor in the 0.1 s that a try takes
        assert any(beats_of_a_try() > 5 for _ in range(50)), "nothing else runs for as long as the pattern is tried"
    finally:
        over.set()
        thread.join()


def test_a_panic_while_a_tokenizer_is_opened_refuses_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")

    def panic(*_: Any, **__: Any) -> None:
        raise Cry("no entry found for key")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", panic)
    with pytest.raises(ModelError, match="cannot be opened: no entry found for key"):
        load_tokenizer(tmp_path)


def test_a_panic_over_a_prepared_layer_refuses_the_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "layer").write_bytes(bytes(8))

    def panic(*_: Any) -> None:
        raise Cry("slice index out of range")

    monkeypatch.setattr("engine.weights.store.layer_file.safe_open", panic)
    with pytest.raises(ModelError, match="no layer that was prepared: slice index out of range"):
        read_layout(tmp_path / "layer")


@pytest.mark.parametrize("error", [*ENDING, ValueError])
def test_what_is_no_panic_stays_what_it_is(error: type[BaseException]) -> None:
    with pytest.raises(error), no_panic():
        raise error
    with pytest.raises(Panic, match=r"^Cry$"), no_panic():
        raise Cry

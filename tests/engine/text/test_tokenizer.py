"""Tokens and text, both ways, on every build of tokenizer; and folders whose tokenizer cannot be used."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ModelError
from engine.text import tokenizer_files
from engine.text.backend import BYTE_OF_TOKEN
from engine.text.tokenizer import Tokenizer
from tests.campaigns.extent import choose
from tests.engine.model.broken_folders import with_other_tokenizer
from tests.engine.text.conftest import EMBEDDED
from tests.engine.text.tiny_tokenizers import BUILDERS, END, TEXTS, tiny
from tests.links import make_pipe

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The embedded model without its weights."""
    return shutil.copytree(EMBEDDED, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))


# ---- tokens to text -------------------------------------------------------------------------------------------------


def library_decode(tokenizer: Tokenizer, ids: list[int]) -> str:
    library: Any = tokenizer._backend._library
    return str(library.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


@settings(deadline=None, max_examples=choose(20, 100))
@given(data=st.data())
@pytest.mark.parametrize("kind", BUILDERS)
def test_tokens_are_decoded_as_the_library_does(kind: str, data: st.DataObject) -> None:
    """Byte tokens aside, which may form no character: there, the library gives up on more than is wrong."""
    tokenizer = tiny(kind)
    ordinary = [token for name, token in tokenizer.vocabulary.items() if name not in BYTE_OF_TOKEN]
    texts = st.lists(st.sampled_from(TEXTS), min_size=1).map(lambda texts: tokenizer.encode("".join(texts)))
    ids = data.draw(st.one_of(st.lists(st.sampled_from(ordinary)), texts))
    assert tokenizer.decode(ids) == library_decode(tokenizer, ids)


@pytest.mark.parametrize("kind", BUILDERS)
def test_text_is_encoded_as_the_library_does(kind: str) -> None:
    library: Any = tiny(kind)._backend._library
    for text in (*TEXTS, "", " ", "\n"):
        assert tiny(kind).encode(text) == library.encode(text, add_special_tokens=False)


@given(content=st.binary(max_size=24))
def test_byte_tokens_are_decoded_as_utf8_with_replacements(content: bytes) -> None:
    tokenizer = tiny("sentencepiece without prefix")
    ids = [tokenizer.vocabulary[f"<0x{byte:02X}>"] for byte in content]
    assert tokenizer.decode(ids) == content.decode("utf-8", errors="replace")


def test_ids_that_write_nothing(embedded: Tokenizer) -> None:
    size = len(embedded.vocabulary)
    for token in (*embedded.eos_ids, size, size + 100, -1):
        assert not embedded.writes_text(token)
        assert embedded.decode([token]) == ""
        assert embedded.is_silent(token)
    assert embedded.writes_text(embedded.encode("a")[0])
    assert not embedded.is_silent(embedded.encode("a")[0])


@pytest.mark.parametrize("kind", BUILDERS)
def test_pieces_look_as_they_do_inside_a_text(kind: str) -> None:
    tokenizer = tiny(kind)
    for text in ("The lazy dog", "then  it says"):
        ids = tokenizer.encode(text)
        assert "".join(map(tokenizer.piece, ids)).removeprefix(" ") == tokenizer.decode(ids)
    assert tokenizer.piece(tokenizer.vocabulary[END]) == END
    assert tokenizer.piece(tokenizer.vocabulary["<think>"]) == "<think>"
    assert tokenizer.piece(10**6) == "[1000000]"


@pytest.mark.parametrize("kind", ["byte level", "sentencepiece without prefix"])
def test_a_piece_of_a_character_is_a_replacement(kind: str) -> None:
    tokenizer = tiny(kind)
    for token in tokenizer.encode("🙂"):
        assert tokenizer.piece(token) == tokenizer.piece(token) == REPLACEMENT


# ---- vocabularies ---------------------------------------------------------------------------------------------------


def test_the_embedded_pair_shares_one_tokenizer(embedded: Tokenizer) -> None:
    draft = Tokenizer.open(EMBEDDED.parent / "demo-draft")
    assert draft.same_as(embedded)
    assert draft is not embedded
    assert embedded.vocabulary["<|end|>"] == 2


def test_vocabularies_are_compared_and_not_names(embedded: Tokenizer, folder: Path) -> None:
    with_other_tokenizer(folder)
    assert not Tokenizer.open(folder).same_as(embedded)
    assert not tiny("byte level").same_as(tiny("unigram"))


@pytest.mark.parametrize(
    ("generation", "config", "expected"),
    [
        ({}, {}, {2}),
        ({"eos_token_id": 3}, {"eos_token_id": 4}, {2, 3, 4}),
        ({"eos_token_id": [5, 6]}, {"eos_token_id": [6, 7]}, {2, 5, 6, 7}),
        ({"eos_token_id": None}, {"text_config": {"eos_token_id": [8]}}, {2, 8}),
        ({"eos_token_id": ["x", -1, True, 1.5]}, {"eos_token_id": None}, {2}),
        (None, None, {2}),
    ],
)
def test_end_tokens_are_gathered_from_every_file(
    generation: Any, config: Any, expected: set[int], folder: Path
) -> None:
    for name, content in (("generation_config.json", generation), ("config.json", config)):
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_text(json.dumps({"model_type": "llama"} | content))
    assert Tokenizer.open(folder).eos_ids == expected


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "\xff"])
def test_a_damaged_generation_config_is_refused(content: str, folder: Path) -> None:
    (folder / "generation_config.json").write_text(content, "latin-1")
    assert "generation_config.json cannot be read as JSON" in refusal(folder)


# ---- folders that cannot be used ------------------------------------------------------------------------------------


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        Tokenizer.open(folder)
    message = str(caught.value)
    assert str(folder) in message
    assert caught.value.hint
    assert message.isprintable()
    return message


def edit_tokenizer(edit: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def breaker(folder: Path) -> None:
        tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        edit(tokenizer)
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")

    return breaker


def make_folder(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").mkdir()


def turn_into_pipe(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    make_pipe(folder / "tokenizer.json")


def bring_code(folder: Path) -> None:
    """A tokenizer that is a program of its own; it would leave a file behind if it ran."""
    settings = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "own.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\nclass Own: pass\n")


BAD_REGEX = {"type": "Split", "pattern": {"Regex": "((("}, "behavior": "Isolated", "invert": False}

LONGER = {"type": "Replace", "pattern": {"String": "e"}, "content": "ee"}
ANYWHERE = {"type": "Replace", "pattern": {"Regex": ""}, "content": "x" * 1000}
# Not twenty of the first, which would take all memory if they ran.
SEQUENCE = {"type": "Sequence", "normalizers": [LONGER] * 9}
SWELLING: dict[str, dict[str, Any]] = {
    "letters": {"normalizer": SEQUENCE},
    "sequences": {
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [LONGER] * 9}]}
    },
    "an expression": {"normalizer": ANYWHERE},
    "a beginning": {"normalizer": {"type": "Prepend", "prepend": "x" * 1000}},
    "bytes": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "ByteLevel"}] * 9}},
    "decoded": {"decoder": {"type": "Sequence", "decoders": [LONGER] * 9}},
}

BREAKERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda folder: (folder / "tokenizer.json").unlink(), "holds no tokenizer"),
    "a folder": (make_folder, "not an ordinary file"),
    "a pipe": (turn_into_pipe, "not an ordinary file"),
    "empty": (lambda folder: (folder / "tokenizer.json").write_text(""), "cannot be opened"),
    "cut off": (lambda folder: os.truncate(folder / "tokenizer.json", 5000), "cannot be opened"),
    "noise": (lambda folder: (folder / "tokenizer.json").write_bytes(bytes(range(256))), "cannot be opened"),
    "something else": (lambda folder: (folder / "tokenizer.json").write_text('{"a": 1}'), "cannot be opened"),
    "nested deeply": (lambda folder: (folder / "tokenizer.json").write_text("[" * 100_000), "cannot be opened"),
    "merges of nothing": (edit_tokenizer(lambda t: t["model"]["merges"].append(["qqz", "zzq"])), "cannot be opened"),
    "no expression": (edit_tokenizer(lambda t: t.update(pre_tokenizer=BAD_REGEX)), "cannot be opened"),
    "no vocabulary": (edit_tokenizer(lambda t: t["model"].update(vocab={}, merges=[])), "empty vocabulary"),
    "bad settings": (lambda folder: (folder / "tokenizer_config.json").write_text("["), "cannot be opened"),
    "listed settings": (lambda folder: (folder / "tokenizer_config.json").write_text("[]"), "cannot be opened"),
    "own code": (bring_code, "code are not run"),
}


@pytest.mark.parametrize("name", BREAKERS)
def test_a_broken_tokenizer_is_refused_in_a_sentence(name: str, folder: Path) -> None:
    breaker, words = BREAKERS[name]
    breaker(folder)
    assert words in refusal(folder)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("what", SWELLING)
def test_a_tokenizer_that_lets_texts_swell_is_not_run(what: str, folder: Path) -> None:
    edit_tokenizer(lambda tokenizer: tokenizer.update(SWELLING[what]))(folder)
    assert "grow beyond measure" in refusal(folder)


@pytest.mark.parametrize("mark", [":", ","])
def test_a_tokenizer_of_more_parts_than_any_is_not_parsed(mark: str, folder: Path) -> None:
    (folder / "tokenizer.json").write_text(mark * (tokenizer_files.MOST_COMMAS + 1))
    assert "too many tokens" in refusal(folder)


def test_a_tokenizer_too_large_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_files, "MAX_TOKENIZER_BYTES", 1000)
    assert "tokenizer.json is larger than" in refusal(folder)


def test_truncation_and_padding_in_the_file_do_not_touch_a_prompt(folder: Path, embedded: Tokenizer) -> None:
    truncation = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    padding = {"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None,
               "pad_id": 0, "pad_type_id": 0, "pad_token": "<|pad|>"}  # fmt: skip
    edit_tokenizer(lambda tokenizer: tokenizer.update(truncation=truncation, padding=padding))(folder)
    assert Tokenizer.open(folder).encode(TEXTS[0]) == embedded.encode(TEXTS[0])

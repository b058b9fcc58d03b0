"""Tokenizers out of the metadata of GGUF files: the same tokens as those of the model folders they were made of."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from engine.errors import ModelError
from engine.protocol.messages import ChatMessage
from engine.text.gguf_tokenizer import (
    ALSO_CALLED,
    AS_GPT2,
    AS_GPT2_BY_DIGIT,
    CONTROL,
    NORMAL,
    SPLITS,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    WHOLE_WORDS,
    read_vocabulary,
)
from engine.text.tokenizer import Tokenizer
from tests.campaigns.extent import choose
from tests.engine.text.conftest import EMBEDDED
from tests.engine.text.tiny_tokenizers import BEGIN, END, TEXTS, library_tokenizer

TEMPLATE = "{% for m in messages %}{{ m.content }}</s>{% endfor %}"
KINDS = {
    "byte level": {"ggml.model": "gpt2", "ggml.pre": "gpt-2"},
    "sentencepiece with prefix": {"general.architecture": "phi3", "ggml.model": "llama"},
    "sentencepiece without prefix": {"general.architecture": "gemma2", "ggml.model": "llama"},
}


def metadata_of(library: Any, **entries: object) -> dict[str, object]:
    """What llama.cpp's converter writes of a tokenizer."""
    state = json.loads(library.backend_tokenizer.to_str())
    added = {entry["content"]: entry for entry in state["added_tokens"]}
    ids = {**state["model"]["vocab"], **{token: entry["id"] for token, entry in added.items()}}
    tokens = sorted(ids, key=ids.__getitem__)
    types = {token: CONTROL if entry["special"] else USER_DEFINED for token, entry in added.items()}
    found = {
        "ggml.tokens": (*tokens, "[PAD9]"),
        "ggml.token_type": (*(types.get(token, NORMAL) for token in tokens), UNUSED),
        "ggml.merges": tuple(" ".join(pair) for pair in state["model"]["merges"]),
        "ggml.add_bos_token": False,
        "chat_template": library.chat_template,
        **{f"ggml.{key}_token_id": ids[token] for key, token in (("bos", BEGIN), ("eos", END)) if token in ids},
        **entries,
    }
    if "<unk>" in ids:
        found["ggml.unknown_token_id"] = ids["<unk>"]
    return {key if key.startswith("general.") else f"tokenizer.{key}": value for key, value in found.items()}


def made(kind: str, **entries: object) -> Tokenizer:
    return Tokenizer.from_gguf(metadata_of(library_tokenizer(kind, TEMPLATE), **KINDS[kind], **entries), "tiny")


PAIRS = {kind: (made(kind), Tokenizer(library_tokenizer(kind, TEMPLATE))) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_tokenizer_of_the_folder(kind: str) -> None:
    found, expected = PAIRS[kind]
    assert found.same_as(expected)
    assert found.eos_ids == expected.eos_ids
    for text in TEXTS:
        ids = expected.encode(text)
        assert found.encode(text) == ids
        assert found.decode(ids) == expected.decode(ids)
    chat = [ChatMessage("user", "Hello <think></s>")]
    assert found.encode_chat(chat) == expected.encode_chat(chat)


@settings(deadline=None, max_examples=choose(30, 1000))
@given(st.text(max_size=60) | st.lists(st.sampled_from([*TEXTS, "<think>", "</s>", " ", "\n"])).map("".join))
def test_any_text_has_the_same_tokens(text: str) -> None:
    for found, expected in PAIRS.values():
        assert found.encode(text) == expected.encode(text)


def test_the_embedded_tokenizer() -> None:
    """Digits by themselves, then words as GPT-2 has them: llama.cpp calls it after SmolLM."""
    expected = Tokenizer.open(EMBEDDED)
    library: Any = expected._backend._library
    ids = {"ggml.bos_token_id": 1, "ggml.eos_token_id": 2}
    found = Tokenizer.from_gguf(metadata_of(library, **{"ggml.model": "gpt2", "ggml.pre": "smollm", **ids}), "embedded")
    assert found.same_as(expected)
    assert found.eos_ids == expected.eos_ids
    assert found.chat_stop == expected.chat_stop
    for text in (*TEXTS, "1234 x² ½ ٣٤ and 5"):
        assert found.encode(text) == expected.encode(text)
        assert found.encode_raw(text) == expected.encode_raw(text)


def test_the_begin_token_is_put_where_the_file_says() -> None:
    begin = PAIRS["byte level"][0].vocabulary[BEGIN]
    assert made("byte level", **{"ggml.add_bos_token": True}).encode_raw("hello")[0] == begin
    assert made("byte level").encode_raw("hello") == made("byte level").encode("hello")


def test_merges_follow_from_scores_or_places() -> None:
    """Files of SentencePiece models have no merges: the best score, or for Gemma the first place, is joined first."""
    tokens = ("<unk>", "▁", "a", "b", "c", "ab", "bc", "▁a", "▁ab")
    base: dict[str, object] = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": (UNKNOWN, *(NORMAL,) * 8),
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": False,
    }
    scores = {"bc": -1.0, "ab": -2.0, "▁a": -3.0, "▁ab": -4.0}
    scored = {**base, "tokenizer.ggml.scores": tuple(scores.get(token, -9.0) for token in tokens)}

    def words(metadata: Mapping[str, object]) -> list[str]:
        return [tokens[token] for token in Tokenizer.from_gguf(metadata, "x").encode("abc")]

    assert words(scored) == ["a", "bc"]
    assert words({**scored, "general.architecture": "gemma3"}) == ["ab", "c"]


def test_runs_of_spaces_of_the_model_s_own_are_whole() -> None:
    """Gemma's files write them as spaces, and no words take any of them away."""
    tokens = ("<unk>", "▁", "a", "b", "▁a", "▁b", "  ", "    ", "▁▁▁")
    metadata: dict[str, object] = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": (UNKNOWN, *(NORMAL,) * 5, USER_DEFINED, USER_DEFINED, USER_DEFINED),
        "tokenizer.ggml.unknown_token_id": 0,
        "general.architecture": "gemma3",
    }
    found = Tokenizer.from_gguf(metadata, "x")
    assert [tokens[token] for token in found.encode("b    a  b a")] == ["b", "    ", "a", "  ", "b", "▁a"]
    assert found.decode(found.encode("b    a  b a")) == "b    a  b a"


def test_whole_words_win_where_the_rule_says_so() -> None:
    """Llama 3's vocabulary has words that no merges make."""
    library = library_tokenizer("byte level", TEMPLATE)
    metadata = metadata_of(library, **{"ggml.model": "gpt2"})
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, tuple)
    metadata["tokenizer.ggml.tokens"] = (*tokens[:-1], "qzq")
    metadata["tokenizer.ggml.token_type"] = (NORMAL,) * len(tokens)
    whole = Tokenizer.from_gguf({**metadata, "tokenizer.ggml.pre": "llama-bpe"}, "x")
    merged = Tokenizer.from_gguf({**metadata, "tokenizer.ggml.pre": "qwen2"}, "x")
    assert whole.encode("qzq") == [len(tokens) - 1]
    assert len(merged.encode("qzq")) == 3


@pytest.mark.parametrize(
    ("control", "ends"),
    [
        (("<|im_end|>",), {"</s>", "<|im_end|>"}),
        (("<|end|>",), {"</s>", "<|end|>"}),
        (("<|end|>", "<|return|>", "<|call|>"), {"</s>", "<|return|>", "<|call|>"}),
    ],
)
def test_tokens_that_end_an_answer(control: tuple[str, ...], ends: set[str]) -> None:
    library = library_tokenizer("byte level", TEMPLATE, control)
    vocabulary = read_vocabulary(metadata_of(library, **KINDS["byte level"]), "x")
    assert {vocabulary.tokens[token] for token in vocabulary.end_tokens} == ends


def test_a_list_of_tokens_that_end_an_answer_counts() -> None:
    metadata = metadata_of(library_tokenizer("byte level", TEMPLATE), **KINDS["byte level"])
    usual = read_vocabulary(metadata, "x").end_tokens
    listed = read_vocabulary({**metadata, "tokenizer.ggml.eos_token_ids": (7, 1 << 30, -1)}, "x")
    assert listed.end_tokens == usual | {7}


@pytest.mark.parametrize("kind", [UNUSED, USER_DEFINED])
def test_fillers_are_no_tokens(kind: int) -> None:
    """llama.cpp's converter says that they are not used, Ollama's that they are the model's own."""
    metadata = metadata_of(library_tokenizer("byte level", TEMPLATE), **KINDS["byte level"])
    types = metadata["tokenizer.ggml.token_type"]
    assert isinstance(types, tuple)
    found = Tokenizer.from_gguf({**metadata, "tokenizer.ggml.token_type": (*types[:-1], kind)}, "x")
    assert found.same_as(PAIRS["byte level"][1])
    assert found.encode("[PAD9]") == PAIRS["byte level"][1].encode("[PAD9]")


WORDS = {
    "bloom": ["It's", " 12345", " café", " 你好abc", " x", "!", "abc", " (", "a", ")\n\n", " z", "  "],
    "chameleon": [
        "It", "'", "s", " ", "1", "2", "3", "4", "5", " café", " 你好abc", " x", "!", "abc", " ", "(", "a", ")", "\n",
        "\n", " z", "  ",
    ],
    "deepseek-v3": [
        "It", "'s", " ", "123", "45", " café", " ", "你好", "abc", " x", "!abc", " (", "a", ")\n\n", " z", "  "
    ],
    "kimi-k2": ["It's", " ", "123", "45", " café", " ", "你好", "abc", " x", "!abc", " (", "a", ")\n\n", " z", "  "],
    "falcon": [
        "It", "'", "s", " ", "123", "45", " café", " 你好abc", " x", "!", "abc", " ", "(", "a", ")", "\n\n", " z", "  "
    ],
    "bailingmoe": [
        "It", "'s", " ", "1", "2", "3", "4", "5", " café", " 你好abc", " x", "!abc", " (", "a", ")\n\n", " z", "  "
    ],
    "laguna": [
        "It", "'s", " ", "1", "2", "3", "4", "5", " café", " 你好abc", " x", "!abc", " (", "a", ")", "\n\n", " z", "  "
    ],
    "jais-2": ["It", "'s", " ", "123", "45", " café", " 你好abc", " x", "!abc", " (", "a", ")\n\n", " z", "  "],
    "exaone-moe": [
        "It", "'s", " ", "1", "2", "3", "4", "5", " café 你好abc x", "!abc", " (", "a", ")\n", "\n", " z", "  "
    ],
    "tiny_aya": ["It's", " ", "12", "345", " café", " 你好abc", " x", "!abc", " (", "a", ")\n\n", " z", "  "],
    "deepseek-llm": [
        "It", "'", "s", " ", "12345", " caf", "é", " ", "你好", "abc", " x", "!", "abc", " (", "a", ")", "\n", "\n",
        " z", "  ",
    ],
    "deepseek-coder": [
        "It", "'", "s", " ", "1", "2", "3", "4", "5", " café", " ", "你好", "abc", " x", "!", "abc", " (", "a", ")",
        "\n", "\n", " z", "  ",
    ],
    "seed-coder": [
        "It", "'s", " ", "1", "2", "3", "4", "5", " café", " 你好abc", " x", "!abc", " (", "a", ")", "\n\n", " z", "  "
    ],
}  # fmt: skip


@pytest.mark.parametrize("rule", WORDS)
def test_text_is_split_as_the_published_tokenizers_do(rule: str) -> None:
    library = library_tokenizer("byte level", TEMPLATE)
    made_of = Tokenizer.from_gguf(metadata_of(library, **{"ggml.model": "gpt2", "ggml.pre": rule}), "x")
    fast: Any = made_of._backend._library
    text = "It's 12345 café 你好abc x!abc (a)\n\n z  "
    pieces = fast.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text)
    assert [text[begin:end] for _, (begin, end) in pieces] == WORDS[rule]


def test_gemma_4_has_a_kind_of_its_own() -> None:
    entries = {"general.architecture": "gemma4", "ggml.model": "gemma4"}
    expected = PAIRS["sentencepiece without prefix"][1]
    library = library_tokenizer("sentencepiece without prefix", TEMPLATE)
    found = Tokenizer.from_gguf(metadata_of(library, **entries), "tiny")
    assert found.same_as(expected)
    for text in TEXTS:
        assert found.encode(text) == expected.encode(text)


def test_every_rule_by_a_name_is_a_rule() -> None:
    known = AS_GPT2 | AS_GPT2_BY_DIGIT | GGUF_PRE_TOKENIZER_SPLITS.keys() | SPLITS.keys()
    assert not SPLITS.keys() & GGUF_PRE_TOKENIZER_SPLITS.keys()
    assert known >= WHOLE_WORDS
    assert known >= set(ALSO_CALLED.values())
    assert not known & ALSO_CALLED.keys()
    assert not AS_GPT2 & AS_GPT2_BY_DIGIT


FAULTS: dict[str, tuple[dict[str, object], str]] = {
    "a rule of no known name": ({"ggml.pre": "my-own"}, "its rule 'my-own' for splitting text is not known"),
    "no rule": ({"ggml.pre": 7}, "its rule '' for splitting"),
    "a kind of no known name": ({"ggml.model": "rwkv"}, "its kind 'rwkv' is not known"),
    "no tokens": ({"ggml.tokens": ()}, "of different lengths"),
    "fewer types than tokens": ({"ggml.token_type": (1, 2)}, "of different lengths"),
    "tokens that are numbers": ({"ggml.tokens": (1, 2)}, "its entry tokens is of a wrong type"),
    "a million tokens": ({"ggml.tokens": ("a",) * ((1 << 20) + 1)}, "it has too many tokens"),
    "a token without end": ({"ggml.tokens": ("a" * (1 << 24), "b")}, "it has too many tokens"),
    "a long token to be made of others": (
        {"ggml.model": "llama", "ggml.tokens": ("a" * 300, "b"), "ggml.token_type": (1, 1), "ggml.merges": ()},
        "tokens of more than 256 characters",
    ),
    "no merges": ({"ggml.merges": ()}, "its merges cannot be read"),
    "a merge of three": ({"ggml.merges": ("a b c",)}, "its merges cannot be read"),
    "a merge of unknown tokens": ({"ggml.merges": ("never there",)}, "cannot be used: "),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_used_is_refused_in_a_sentence(fault: str) -> None:
    entries, words = FAULTS[fault]
    metadata = metadata_of(library_tokenizer("byte level", TEMPLATE), **{**KINDS["byte level"], **entries})
    with pytest.raises(ModelError, match=f"The tokenizer of 'tiny'.*{words}"):
        Tokenizer.from_gguf(metadata, "tiny")


def test_token_ids_outside_of_the_vocabulary_count_as_none() -> None:
    metadata = metadata_of(library_tokenizer("byte level"), **KINDS["byte level"])
    metadata |= {"tokenizer.ggml.eos_token_id": 1 << 40, "tokenizer.ggml.bos_token_id": -5}
    assert read_vocabulary(metadata, "x").special == {"unk": metadata["tokenizer.ggml.unknown_token_id"]}

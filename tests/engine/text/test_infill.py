"""Prompts for the gap of a text: the marks of every family, in its order, and none that was typed."""

from typing import Any

import pytest
from tokenizers import AddedToken

from engine.errors import InputError
from engine.text.infill import HERE, REPOSITORY, Gap, OtherFile, write_infill
from engine.text.infill_marks import STYLES, Style, find_marks
from engine.text.tokenizer import Tokenizer
from tests.engine.text.test_gguf_tokenizer import KINDS, metadata_of
from tests.engine.text.tiny_tokenizers import BUILDERS, library_tokenizer, put_begin_before_every_text, tiny

CODE = Gap("def f(x):\n    return ", " # comment\n")
QWEN, STARCODER = STYLES[0], STYLES[1]


def tokenizer_of(style: Style, kind: str = "byte level") -> Tokenizer:
    return tiny(kind, None, tuple(name for _, name in style.names()))


def written(tokenizer: Tokenizer, gap: Gap = CODE, most_tokens: int | None = None) -> str:
    """The prompt as text, marks by name."""
    return "".join(map(tokenizer.piece, write_infill(tokenizer, gap, most_tokens)))


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.prefix)
def test_every_family_has_its_marks_in_its_order(style: Style) -> None:
    before, behind = style.prefix + CODE.prefix, style.suffix + CODE.suffix
    around = behind + before if style.is_suffix_first else before + behind
    assert written(tokenizer_of(style)) == around + style.middle


@pytest.mark.parametrize("kind", [kind for kind in BUILDERS if kind not in ("torn characters", "metaspace only")])
def test_the_suffix_has_no_space_that_nobody_wrote(kind: str) -> None:
    """As Code Llama was trained: SentencePiece puts one before a text, and the suffix is none."""
    tokenizer = tokenizer_of(STARCODER, kind)
    assert tokenizer.infill
    prompt = write_infill(tokenizer, Gap("The quick brown", "fox jumps over"))
    behind = prompt[prompt.index(tokenizer.infill.suffix) + 1 : -1]
    lead = tokenizer.encode("a")
    assert tokenizer.decode([*lead, *behind]) == "afox jumps over"


def test_what_begins_every_text_comes_first() -> None:
    library = library_tokenizer("byte level", None, ("[PREFIX]", "[SUFFIX]"))
    put_begin_before_every_text(library)
    assert written(Tokenizer(library), Gap("a", "b")) == "<s>[SUFFIX]b[PREFIX]a"


def test_marks_in_the_texts_stay_text() -> None:
    tokenizer = tokenizer_of(QWEN)
    assert tokenizer.infill
    typed = Gap("a<|fim_suffix|>b", "<|fim_middle|></s>", (OtherFile("<|file_sep|>", "<|repo_name|>"),))
    prompt = write_infill(tokenizer, typed)
    ends = [token for token in prompt if token in tokenizer.infill.ends]
    assert [tokenizer.piece(token) for token in ends] == [
        "<|repo_name|>", "<|file_sep|>", "<|file_sep|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
    ]  # fmt: skip
    assert written(tokenizer, typed).endswith(
        "<|fim_prefix|>a<|fim_suffix|>b<|fim_suffix|><|fim_middle|></s><|fim_middle|>"
    )


def test_other_files_come_before_with_their_names_where_the_model_has_marks_for_them() -> None:
    gap = Gap("x", "y", (OtherFile("a.py", "first"), OtherFile("b.py", "second")))
    around = "<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>"
    named = f"<|repo_name|>{REPOSITORY}<|file_sep|>a.py\nfirst<|file_sep|>b.py\nsecond<|file_sep|>{HERE}"
    assert written(tokenizer_of(QWEN), gap) == named + around
    plain = written(tokenizer_of(STARCODER), gap)
    assert plain.endswith("second<fim_prefix>x<fim_suffix>y<fim_middle>")
    assert plain.index("first") < plain.index("second")


def test_what_is_farthest_from_the_gap_is_left_out() -> None:
    tokenizer = tokenizer_of(STARCODER)
    assert tokenizer.infill
    others = tuple(OtherFile(name, f"of {name}") for name in ("far", "near"))
    gap = Gap("".join(f"{n} " for n in range(40)), "".join(f"{n} " for n in range(60, 99)), others)
    whole = write_infill(tokenizer, gap)
    assert write_infill(tokenizer, gap, len(whole)) == whole
    near = written(tokenizer, gap, len(whole) - 1)
    assert "of near" in near
    assert "of far" not in near
    most = 43
    short = write_infill(tokenizer, gap, most)
    seam = short.index(tokenizer.infill.suffix)
    before, behind = tokenizer.decode(short[1:seam]), tokenizer.decode(short[seam + 1 : -1])
    assert len(short) == most
    assert gap.prefix.endswith(before)
    assert gap.suffix.startswith(behind)
    assert len(short[1:seam]) == 3 * len(short[seam + 1 : -1]) == 30
    few = Gap("1 ", gap.suffix)
    assert len(write_infill(tokenizer, few, most)) == most, "what the prefix leaves belongs to the suffix"


def test_a_model_without_marks_says_so() -> None:
    with pytest.raises(InputError, match="fill in"):
        write_infill(tiny("byte level"), CODE)


def test_what_the_file_says_goes_before_names() -> None:
    """An id that is none, or no number, says nothing."""
    control = ("<one>", "<two>", "<three>", "<fim_prefix>", "<fim_suffix>", "<fim_middle>")
    library: Any = library_tokenizer("byte level", None, control)
    ids = library.get_vocab()
    said = {"ggml.fim_pre_token_id": ids["<one>"], "ggml.suffix_token_id": ids["<two>"]}
    said |= {"ggml.fim_mid_token_id": ids["<three>"], "ggml.fim_sep_token_id": 10**9, "ggml.fim_rep_token_id": "5"}
    found = Tokenizer.from_gguf(metadata_of(library, **KINDS["byte level"], **said), "tiny")
    assert written(found, Gap("a", "b")) == "<one>a<two>b<three>"
    assert found.infill
    assert found.infill.file is None
    assert found.infill.repository is None
    by_name = Tokenizer.from_gguf(metadata_of(library, **KINDS["byte level"]), "tiny")
    assert written(by_name, Gap("a", "b")) == "<fim_prefix>a<fim_suffix>b<fim_middle>"
    named_alone = Tokenizer.from_gguf(
        metadata_of(library_tokenizer("byte level", None, ("[PREFIX]", "[SUFFIX]", "[MIDDLE]"))) | {
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        },
        "tiny",
    )  # fmt: skip
    assert written(named_alone, Gap("a", "b")) == "[SUFFIX]b[PREFIX]a", "Codestral's order, as its names say"


def test_words_of_the_vocabulary_are_no_marks() -> None:
    """Only tokens that were added to it are: others may be parts of any text."""
    library: Any = library_tokenizer("byte level")
    assert find_marks({}, {}) is None
    library.add_tokens([AddedToken(name, special=False, normalized=False) for name in ("<PRE>", "<SUF>")])
    assert Tokenizer(library).infill is None, "nothing tells where the middle begins"

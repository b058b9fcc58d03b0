"""Tiny tokenizers of every build that language models use, trained on a few sentences while the tests run."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import tokenizers
import transformers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers

from engine.text.tokenizer import Tokenizer

TEXTS = (
    "The quick brown fox jumps over the lazy dog, and then it says: User, Assistant, hello!",
    "  indented text,\tand a tab;\nline\n\nbreaks   and   many spaces  ",
    "Grüße aus Köln: naïve café, 12345 67.89 € — “quoted” <tag> [TEXT] |pipe|",
    "你好，世界。こんにちは世界。 안녕하세요 Привет мир",
    "🙂 👍🏽 👨‍👩‍👧 🇩🇪 ☕️ e\u0301",
    "def f(x):\n    return x**2 # comment <|end|> </s>",
)
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
UNKNOWN, BEGIN, END = "<unk>", "<s>", "</s>"
# Not special, as the marks around a model's reasoning are not.
VISIBLE = ("<think>", "</think>", "<tool>")


def _learn_merges(split: Any, normalizer: Any, size: int, alphabet: Sequence[str]) -> tuple[dict[str, int], Any]:
    """Vocabulary and merges of a BPE of about `size` tokens."""
    learner = tokenizers.Tokenizer(models.BPE())
    learner.normalizer, learner.pre_tokenizer = normalizer, split
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=list(alphabet), show_progress=False)
    learner.train_from_iterator(TEXTS * 3, trainer)
    return learner.get_vocab(), [tuple(pair) for pair in _state(learner)["model"]["merges"]]


def _state(tokenizer: Any) -> Any:
    return json.loads(tokenizer.to_str())


def _byte_level() -> Any:
    """As GPT-2, Llama 3 and Qwen: characters are bytes from the start."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    vocabulary, merges = _learn_merges(split, None, 340, pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = split, decoders.ByteLevel()
    return tokenizer


def _torn_characters() -> Any:
    """Byte-level tokens that end in the middle of one character and begin in the middle of another."""
    letter = dict(zip(sorted(pre_tokenizers.ByteLevel.alphabet(), key=_byte_of), range(256), strict=True))
    letter_of = {byte: character for character, byte in letter.items()}
    stream = "".join(TEXTS).encode()
    torn = {stream[at : at + 2 + at % 4] for at in range(0, len(stream), 2)} | {b"\x98\x80\xf0\x9f", b"\xff\xf0"}
    names = list(letter) + sorted({"".join(map(letter_of.__getitem__, part)) for part in torn} - set(letter))
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab={name: token for token, name in enumerate(names)}, merges=[]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return tokenizer


def _byte_of(character: str) -> int:
    """The byte that a letter of the byte-level alphabet stands for: itself where it can be seen, else a stand-in."""
    code = ord(character)
    if code < 256:
        return code
    hidden = [byte for byte in range(256) if not (33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte <= 255)]
    return hidden[code - 256]


def _with_byte_tokens(normalizer: Any, split: Any) -> Any:
    """A BPE over characters that falls back to byte tokens, for half the characters of the texts."""
    vocabulary, merges = _learn_merges(split, normalizer, 120, [])
    known = [token for token in vocabulary if all(character < "\u0100" or character == "▁" for character in token)]
    names = [UNKNOWN, BEGIN, END, *BYTE_TOKENS, *sorted(known)]
    kept = [pair for pair in merges if "".join(pair) in known and all(part in known for part in pair)]
    tokenizer = tokenizers.Tokenizer(
        models.BPE(
            vocab={name: token for token, name in enumerate(dict.fromkeys(names))},
            merges=kept, unk_token=UNKNOWN, fuse_unk=True, byte_fallback=True,
        )
    )  # fmt: skip
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, split
    return tokenizer


def _sentencepiece_with_prefix() -> Any:
    """As Llama 2 and the first Mistral: a space is put before the text and taken away again."""
    tokenizer = _with_byte_tokens(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def _sentencepiece_without_prefix() -> Any:
    """As Gemma: spaces are written, none is added."""
    split = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer = _with_byte_tokens(normalizers.Replace(" ", "▁"), split)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _unigram() -> Any:
    """As T5 and XLM: the likeliest pieces, words marked by Metaspace, bytes for what is unknown."""
    learner = tokenizers.Tokenizer(models.Unigram())
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=110, special_tokens=[UNKNOWN], unk_token=UNKNOWN, show_progress=False)
    learner.train_from_iterator(TEXTS[:3] * 3, trainer)
    pieces = [(piece, score) for piece, score in _state(learner)["model"]["vocab"] if piece != UNKNOWN]
    names = [(UNKNOWN, 0.0), (BEGIN, 0.0), (END, 0.0), *((name, -20.0) for name in BYTE_TOKENS), *pieces]
    tokenizer = tokenizers.Tokenizer(models.Unigram(names, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return tokenizer


def _metaspace_only() -> Any:
    """A BPE with Metaspace and no bytes: what it does not know is unknown."""
    split = pre_tokenizers.Metaspace()
    vocabulary, merges = _learn_merges(split, None, 260, [])
    names = {UNKNOWN: 0} | {name: token + 1 for token, name in enumerate(sorted(vocabulary))}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=names, merges=merges, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer, tokenizer.decoder = split, decoders.Metaspace()
    return tokenizer


BUILDERS: dict[str, Callable[[], Any]] = {
    "byte level": _byte_level,
    "torn characters": _torn_characters,
    "sentencepiece with prefix": _sentencepiece_with_prefix,
    "sentencepiece without prefix": _sentencepiece_without_prefix,
    "unigram": _unigram,
    "metaspace only": _metaspace_only,
}


def library_tokenizer(kind: str, template: str | None = None, control: Sequence[str] = ()) -> Any:
    """A tokenizer as transformers wraps it; `control` are special tokens beside `<s>` and `</s>`."""
    built = BUILDERS[kind]()
    library = transformers.PreTrainedTokenizerFast(
        tokenizer_object=built, bos_token=BEGIN, eos_token=END, unk_token=UNKNOWN,
        additional_special_tokens=[token for token in control if token not in (BEGIN, END)],
    )  # fmt: skip
    library.add_tokens([AddedToken(token, special=False, normalized=False) for token in VISIBLE])
    library.chat_template = template
    return library


@cache
def tiny(kind: str, template: str | None = None, control: tuple[str, ...] = ()) -> Tokenizer:
    """The same as ours opens it, built once."""
    return Tokenizer(library_tokenizer(kind, template, control))


def put_begin_before_every_text(library: Any) -> None:
    """What base models ask for, which have no template to do it."""
    begin = library.bos_token_id
    library.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", pair=f"{BEGIN} $A $B", special_tokens=[(BEGIN, begin)]
    )

"""The tokenizer in a GGUF file's metadata, as one of transformers' fast tokenizers.

The file has the vocabulary and its merges, but only a name for the rule that splits text into words before. A rule
that is not known is refused: any other one would give other tokens for some texts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engine.errors import ModelError, no_panic
from engine.protocol.sentences import say
from engine.text.backend import ANOTHER, complaint_of
from engine.text.infill_marks import Part

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5  # the types of tokens, as llama.cpp numbers them
BYTE_LEVEL, SENTENCEPIECE, GEMMA4 = "gpt2", "llama", "gemma4"  # as llama.cpp calls the kinds of vocabularies
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"

# Names of splitting rules by what they do; those in `GGUF_PRE_TOKENIZER_SPLITS` of transformers are known as well.
AS_GPT2 = frozenset({"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4"})
AS_GPT2_BY_DIGIT = frozenset(
    {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"}
)
ALSO_CALLED = {
    "stablelm2": "qwen2", "hunyuan": "qwen2", "glm4": "llama-bpe", "chatglm-bpe": "llama-bpe",
    "hunyuan-dense": "deepseek-v3", "joyai-llm": "deepseek-v3", "solar-open": "qwen2", "bailingmoe2": "bailingmoe",
    "cohere2moe": "tiny_aya", "poro-chat": "bloom", "gpt3-finnish": "bloom",
}  # fmt: skip
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = "|".join(
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}{most}{_LOWER}{least}{_ENDINGS}?" for most, least in (("*", "+"), ("+", "*"))
)
# Letters that have a case, as the tokenizer of DeepSeek LLM lists them: first and last of every run.
_RUNS = """
41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376 377 37b-37d 37f 386 388-38a 38c 38e-3a1 3a3-3f5
3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf 1d00-1d2b 1d6b-1d77 1d79-1d9a 1e00-1f15
1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3
1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 212a-212d 212f-2134 2139
213c-213f 2145-2149 214e 2183 2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2 2cf3 a640-a66d a680-a69b a722-a76f a771-a787
a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f 104b0-104d3 104d8-104fb 10c80-10cb2 10cc0-10cf2
118a0-118df 1e900-1e943
"""
_CASED_LETTERS = re.sub(r"[0-9a-f]+", lambda found: chr(int(found[0], 16)), _RUNS).replace(" ", "").replace("\n", "")
_NO_HAN = r"&&[^\p{Han}]]"
# Rules that transformers has no name for, each as the patterns of its published tokenizer, one after the other.
SPLITS: Mapping[str, tuple[str, ...]] = {
    "deepseek-v3": (
        r"\p{N}{1,3}",
        r"[一-龥぀-ゟ゠-ヿ]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "deepseek-llm": (
        r"[\r\n]",
        rf"\s?[{_CASED_LETTERS}]+",
        "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
        r"\s+$",
        "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
        r"\p{N}+",
    ),
    "deepseek-coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}"),
    "falcon": (r"[\p{P}$+<=>^~|`]+", _GPT2, r"[0-9][0-9][0-9]"),
    "bailingmoe": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    ),
    "bloom": (r" ?[^(\s|.,!?…。，、।۔،)]+",),
    "chameleon": (
        r"<sentinel:[0-9]+>",
        r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
        r"([\t\n]|    |  )",
        r"\p{N}",
        r"[\p{P}!-/:-@\[-`{-~]",
        _GPT2,
    ),
    "laguna": (r"[^\n]+|[\n]+", _ENDINGS + rf"|{_WORD}|\p{{N}}{_REST}"),
    "jais-2": (
        _ENDINGS
        + rf"|{_WORD}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|"
        + "|".join(rf"\s{{{1 << power}}}(?!\S)" for power in range(9, 1, -1))
        + r"|\s{1,2}(?!\S)|\s{1}",
    ),
    "exaone-moe": (
        _ENDINGS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]"
        r"|\s+(?!\S)|\s+",
    ),
    "tiny_aya": (
        r"\d{1,3}(?=(?:\d{3})*\b)",
        rf"{_CASED}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "seed-coder": (_ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",),
    "kimi-k2": (
        r"\p{Han}+"
        rf"|[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{_NO_HAN}*"
        rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{_NO_HAN}+{_ENDINGS}?"
        rf"|[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{_NO_HAN}+"
        rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{_NO_HAN}*{_ENDINGS}?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
}
# With these a word that is in the vocabulary is one token, whatever the merges make of it.
WHOLE_WORDS = frozenset(
    {
        "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
        "tekken",
    }
)  # fmt: skip

# Tokens that end an answer though the file may not say so, as llama.cpp has them.
ENDS = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
    "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "<|end_of_text|>", "<end_of_utterance>", "<eos>",
    "<turn|>", "<|tool_response>", "[EOT]", "[EOS]",
)  # fmt: skip
HARMONY = ("<|return|>", "<|call|>")  # where both are, `<|end|>` only ends a message of several

# Entries that name the marks around a gap, by their part, the later name first.
INFILL: Mapping[Part, tuple[str, ...]] = {
    "prefix": ("fim_pre_token_id", "prefix_token_id"),
    "suffix": ("fim_suf_token_id", "suffix_token_id"),
    "middle": ("fim_mid_token_id", "middle_token_id"),
    "repository": ("fim_rep_token_id",),
    "file": ("fim_sep_token_id",),
    "padding": ("fim_pad_token_id",),
}

LISTS = frozenset(f"tokenizer.ggml.{name}" for name in ("tokens", "token_type", "scores", "merges", "eos_token_ids"))
"""The lists in the metadata that a vocabulary is made of."""
FILLER = re.compile(r"\[PAD\d+\]", re.ASCII)  # that converters put where an embedding stands for no token
MOST_TOKENS, MOST_CHARACTERS = 1 << 20, 1 << 24  # four and eight times the largest vocabularies
LONGEST = 256  # characters of a token that merges are made for: each is looked at in all its halves

_Item = TypeVar("_Item", str, int, float)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the metadata says of the tokens; `scores` and `merges` may be empty, `types` has one for every token.

    `ends`: ids that end an answer besides those of `special`. `infill`: those of the marks around a gap.
    """

    architecture: str
    kind: str
    splitting: str
    tokens: tuple[str, ...]
    types: tuple[int, ...]
    scores: tuple[float, ...]
    merges: tuple[str, ...]
    special: Mapping[str, int]
    adds_bos: bool
    adds_space: bool
    template: str
    ends: tuple[int, ...] = ()
    infill: Mapping[Part, int] = field(default_factory=dict)

    def named(self, kind: int) -> list[str]:
        """The tokens of a type."""
        return [token for token, own in zip(self.tokens, self.types, strict=True) if own == kind]

    @property
    def end_tokens(self) -> frozenset[int]:
        """The ids that end an answer."""
        said = {self.special[key] for key in ("eos", "eot", "eom") if key in self.special} | {*self.ends}
        ids = {token: index for index, token in enumerate(self.tokens) if self.types[index] in (CONTROL, USER_DEFINED)}
        found = {token: ids[token] for token in ENDS if token in ids}
        if all(token in found for token in HARMONY):
            said.discard(found.pop("<|end|>", -1))
        return frozenset(said | set(found.values()))


def read_vocabulary(metadata: Mapping[str, object], name: str) -> Vocabulary:
    """What the metadata of the model called `name` says, its lists read; raises `ModelError` for contradictions."""

    def entry(key: str, default: _Item) -> _Item:
        value = metadata.get(f"tokenizer.ggml.{key}", default)
        return value if type(value) is type(default) else default

    def several(key: str, kind: type[_Item]) -> tuple[_Item, ...]:
        value = metadata.get(f"tokenizer.ggml.{key}", ())
        if not isinstance(value, tuple) or not all(type(item) is kind for item in value):
            raise _unusable(name, say("its entry {entry} is of a wrong type", entry=key))
        return value

    tokens = several("tokens", str)
    types = several("token_type", int) or (NORMAL,) * len(tokens)
    scores = several("scores", float)
    if len(tokens) > MOST_TOKENS or sum(map(len, tokens)) > MOST_CHARACTERS:
        raise _unusable(name, say("it has too many tokens"))
    if not tokens or len(types) != len(tokens) or (scores and len(scores) != len(tokens)):
        raise _unusable(name, say("its lists are of different lengths"))
    keys = {"bos": "bos", "eos": "eos", "eot": "eot", "eom": "eom", "unk": "unknown", "pad": "padding"}
    special = {own: entry(f"{key}_token_id", -1) for own, key in keys.items()}
    kind, splitting = entry("model", ""), entry("pre", "")
    marks = {part: next((token for key in keys if (token := entry(key, -1)) >= 0), -1) for part, keys in INFILL.items()}
    is_spm = kind == SENTENCEPIECE
    template = metadata.get("tokenizer.chat_template")
    architecture = metadata.get("general.architecture")
    return Vocabulary(
        architecture=architecture if isinstance(architecture, str) else "",
        kind=kind,
        splitting=ALSO_CALLED.get(splitting, splitting),
        tokens=tokens,
        types=types,
        scores=scores,
        merges=several("merges", str),
        special={own: token for own, token in special.items() if 0 <= token < len(tokens)},
        adds_bos=_flag(metadata, "add_bos_token", is_spm or splitting in WHOLE_WORDS),
        adds_space=_flag(metadata, "add_space_prefix", is_spm and not _is_gemma(architecture)),
        template=template if isinstance(template, str) else "",
        ends=tuple(token for token in several("eos_token_ids", int) if 0 <= token < len(tokens)),
        infill={part: token for part, token in marks.items() if 0 <= token < len(tokens)},
    )


def build_tokenizer(vocabulary: Vocabulary, name: str) -> Any:
    """The fast tokenizer; raises `ModelError` for kinds and rules that are not known, and for what is damaged."""
    import transformers  # noqa: PLC0415 - takes seconds

    try:
        with no_panic():
            fast = _BUILDERS.get(vocabulary.kind, _refuse)(vocabulary, name)
            _add_tokens(fast, vocabulary)
            spoken = {own: vocabulary.tokens[token] for own, token in vocabulary.special.items()}
            _add_frame(fast, vocabulary, spoken)
            library = transformers.PreTrainedTokenizerFast(
                tokenizer_object=fast,
                clean_up_tokenization_spaces=False,
                **{f"{own}_token": spoken[own] for own in ("bos", "eos", "unk", "pad") if own in spoken},
                **({"chat_template": vocabulary.template} if vocabulary.template else {}),
            )
    except ModelError:
        raise
    except MemoryError:
        raise
    except Exception as error:  # of the tokenizers library, even a bare Exception
        raise _unusable(name, complaint_of(error)) from error
    library.name_or_path = name
    return library


def _byte_level(vocabulary: Vocabulary, name: str) -> Any:
    from tokenizers import Tokenizer, decoders, models  # noqa: PLC0415

    merges = _merges(vocabulary, name)
    if not merges:
        raise _unusable(name, say("its merges cannot be read"))
    fast = Tokenizer(
        models.BPE(
            vocab=_ids(vocabulary), merges=merges, ignore_merges=vocabulary.splitting in WHOLE_WORDS, fuse_unk=False
        )
    )
    fast.pre_tokenizer = _splitter(vocabulary.splitting, name)
    fast.decoder = decoders.ByteLevel()
    return fast


def _splitter(splitting: str, name: str) -> Any:
    from tokenizers import Regex, pre_tokenizers  # noqa: PLC0415

    if splitting in AS_GPT2:
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if splitting in AS_GPT2_BY_DIGIT:
        parts = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        return pre_tokenizers.Sequence(parts)
    patterns = SPLITS.get(splitting) or _splits_of_library(splitting)
    if not patterns:
        raise _unusable(name, say("its rule '{rule}' for splitting text is not known", rule=splitting[:40]))
    splits = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in patterns]
    return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _splits_of_library(splitting: str) -> tuple[str, ...]:
    """Empty for rules that transformers does not know; 5.17 knows none."""
    try:
        from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS  # noqa: PLC0415
    except ImportError:
        return ()
    known = GGUF_PRE_TOKENIZER_SPLITS.get(splitting)
    return (known,) if known else ()


def _sentencepiece(vocabulary: Vocabulary, name: str) -> Any:
    """As transformers has Llama's and Gemma's; without merges in the file, they follow from scores or places."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa: PLC0415
    from transformers.tokenization_utils_base import generate_merges  # noqa: PLC0415

    ids = _ids(vocabulary)
    merges = _merges(vocabulary, name)
    if not merges:
        # The scores of Gemma's tokens do not follow the order of its merges; their places do.
        if max(map(len, ids)) > LONGEST:
            raise _unusable(name, say("it has tokens of more than {count} characters", count=LONGEST))
        by_place = _is_gemma(vocabulary.architecture) or not vocabulary.scores
        ranks = {token: -index if by_place else vocabulary.scores[index] for token, index in ids.items()}
        # Tokens of the model's own are whole in any text, whatever their places: those of spaces only merges can make.
        first = max(ranks.values(), default=0) + 1
        renamed = (token for token, index in ids.items() if vocabulary.tokens[index] != token)
        ranks |= {token: first for token in renamed if vocabulary.types[ids[token]] == USER_DEFINED}
        merges = generate_merges(ids, ranks, vocabulary.named(CONTROL))
    unknown = vocabulary.special.get("unk")
    fast = Tokenizer(
        models.BPE(
            vocab=ids, merges=merges, fuse_unk=True, byte_fallback=True,
            unk_token=None if unknown is None else vocabulary.tokens[unknown],
        )
    )  # fmt: skip
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if _is_gemma(vocabulary.architecture):
        fast.normalizer = normalizers.Replace(" ", SPACE)
        fast.pre_tokenizer = pre_tokenizers.Split(pattern=" ", behavior="merged_with_previous", invert=False)
    elif vocabulary.architecture in ("phi3", "phimoe"):
        fast.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    else:
        scheme = "first" if vocabulary.adds_space else "never"
        fast.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=False)
    if vocabulary.adds_space:
        steps.append(decoders.Strip(content=" ", left=1))
    fast.decoder = decoders.Sequence(steps)
    return fast


def _merges(vocabulary: Vocabulary, name: str) -> list[tuple[str, str]]:
    pairs = [merge.partition(" ") for merge in vocabulary.merges]
    if any(not gap or " " in right for _, gap, right in pairs):
        raise _unusable(name, say("its merges cannot be read"))
    return [(left, right) for left, _, right in pairs]


def _refuse(vocabulary: Vocabulary, name: str) -> Any:
    raise _unusable(name, say("its kind '{kind}' is not known", kind=vocabulary.kind[:40]))


_BUILDERS = {BYTE_LEVEL: _byte_level, SENTENCEPIECE: _sentencepiece, GEMMA4: _sentencepiece}


def _ids(vocabulary: Vocabulary) -> dict[str, int]:
    """The ids of the tokens; fillers are left out, and spaces are written as the vocabulary's own words have them."""
    is_gemma = _is_gemma(vocabulary.architecture)
    return {
        SPACE * len(token) if is_gemma and token and not token.strip(" ") else token: index
        for index, token in enumerate(vocabulary.tokens)
        if not (vocabulary.types[index] in (UNUSED, USER_DEFINED) and FILLER.fullmatch(token))
    }


def _add_tokens(fast: Any, vocabulary: Vocabulary) -> None:
    """Make control tokens special, and those of the model's own whole in any text."""
    from tokenizers import AddedToken  # noqa: PLC0415

    fast.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in vocabulary.named(CONTROL) if token]
    )
    known = fast.get_vocab(with_added_tokens=False)
    own = [token for token in vocabulary.named(USER_DEFINED) if token in known]
    fast.add_tokens([AddedToken(token, normalized=False, special=False) for token in own])


def _add_frame(fast: Any, vocabulary: Vocabulary, spoken: Mapping[str, str]) -> None:
    from tokenizers import processors  # noqa: PLC0415

    if vocabulary.adds_bos and "bos" in spoken:
        bos = spoken["bos"]
        fast.post_processor = processors.TemplateProcessing(
            single=[bos, "$A"], pair=[bos, "$A", bos, "$B"], special_tokens=[(bos, vocabulary.special["bos"])]
        )


def _flag(metadata: Mapping[str, object], key: str, default: bool) -> bool:
    value = metadata.get(f"tokenizer.ggml.{key}", default)
    return value if type(value) is bool else default


def _is_gemma(architecture: object) -> bool:
    return isinstance(architecture, str) and architecture.startswith("gemma")


def _unusable(name: str, why: str) -> ModelError:
    return ModelError(say("The tokenizer of '{name}' cannot be used: {reason}.", name=name, reason=why), ANOTHER)

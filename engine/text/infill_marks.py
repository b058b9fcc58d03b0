"""The tokens that stand around a text with a gap, which a model was trained to fill in, and their order.

Bavarian et al. 2022 (arXiv 2207.14255): the middle is written last, behind the prefix and the suffix, or the other way
round. Models of code know this, each with tokens of its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Part = Literal["prefix", "suffix", "middle", "repository", "file", "padding"]


@dataclass(frozen=True, slots=True)
class Style:
    """What a family calls its marks, and whether the suffix comes first. Without a `middle` it goes on at the end."""

    prefix: str
    suffix: str
    middle: str = ""
    repository: str = ""
    file: str = ""
    padding: str = ""
    is_suffix_first: bool = False

    def names(self) -> Iterator[tuple[Part, str]]:
        """The marks that the family has, by their part."""
        marks: tuple[tuple[Part, str], ...] = (
            ("prefix", self.prefix),
            ("suffix", self.suffix),
            ("middle", self.middle),
            ("repository", self.repository),
            ("file", self.file),
            ("padding", self.padding),
        )
        return ((part, name) for part, name in marks if name)


STYLES = (
    Style("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>", "<|fim_pad|>"),  # Qwen
    Style("<fim_prefix>", "<fim_suffix>", "<fim_middle>", padding="<fim_pad>"),  # StarCoder, Granite
    Style("<fim-prefix>", "<fim-suffix>", "<fim-middle>", padding="<fim-pad>"),  # SantaCoder
    Style("▁<PRE>", "▁<SUF>", "▁<MID>"),  # Code Llama
    Style("<PRE>", "<SUF>", "<MID>"),
    Style("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # DeepSeek
    Style("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),  # GLM
    Style("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", is_suffix_first=True),  # Seed Coder
    Style("<|prefix|>", "<|suffix|>", "<|middle|>"),  # Falcon H1
    Style("[PREFIX]", "[SUFFIX]", is_suffix_first=True),  # Codestral
)

# What such models also end what they fill in with: none of them is a part of a file.
ENDS = (
    "<EOT>", "▁<EOT>", "</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "<|im_end|>",
    "<file_sep>", "<|file_separator|>", "<filename>", "<repo_name>", "<reponame>",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InfillMarks:
    """The tokens of one model. `middle`: None where what is filled in follows the prefix, which then comes last.

    `repository` and `file` stand before the names of what other files are from. `ends`: what ends the middle.
    """

    prefix: int
    suffix: int
    middle: int | None
    repository: int | None
    file: int | None
    is_suffix_first: bool
    ends: frozenset[int]


def find_marks(added: Mapping[str, int], named: Mapping[Part, int]) -> InfillMarks | None:
    """The marks of a model; None where it has none.

    `added`: the tokens beside its learnt vocabulary; `named`: what the metadata of its file says of them.
    """
    names = {token: name for name, token in added.items()}
    called = names.get(named.get("prefix", -1), "")
    style = next((each for each in STYLES if each.prefix == called), None) or next(
        (each for each in STYLES if each.prefix in added and each.suffix in added), None
    )
    found = {part: added[name] for part, name in (style.names() if style else ()) if name in added} | dict(named)
    if not {"prefix", "suffix"} <= found.keys() or ("middle" not in found and not (style and style.is_suffix_first)):
        return None
    ends = {added[name] for name in ENDS if name in added}
    return InfillMarks(
        prefix=found["prefix"],
        suffix=found["suffix"],
        middle=found.get("middle"),
        repository=found.get("repository"),
        file=found.get("file"),
        is_suffix_first=bool(style and style.is_suffix_first),
        ends=frozenset(ends | set(found.values())),
    )

"""The types of tensors in GGUF files that are read: how many numbers a block holds, and in how many bytes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockType:
    """`number` is ggml's own; `plain` the type's name in safetensors where the numbers lie as such, else empty."""

    name: str
    number: int
    elements: int
    nbytes: int
    plain: str = ""


TYPES = (
    BlockType("F32", 0, 1, 4, "F32"),
    BlockType("F16", 1, 1, 2, "F16"),
    BlockType("BF16", 30, 1, 2, "BF16"),
    BlockType("Q4_0", 2, 32, 18),
    BlockType("Q4_1", 3, 32, 20),
    BlockType("Q5_0", 6, 32, 22),
    BlockType("Q5_1", 7, 32, 24),
    BlockType("Q8_0", 8, 32, 34),
    BlockType("Q2_K", 10, 256, 84),
    BlockType("Q3_K", 11, 256, 110),
    BlockType("Q4_K", 12, 256, 144),
    BlockType("Q5_K", 13, 256, 176),
    BlockType("Q6_K", 14, 256, 210),
    BlockType("IQ2_XXS", 16, 256, 66),
    BlockType("IQ2_XS", 17, 256, 74),
    BlockType("IQ3_XXS", 18, 256, 98),
    BlockType("IQ1_S", 19, 256, 50),
    BlockType("IQ4_NL", 20, 32, 18),
    BlockType("IQ3_S", 21, 256, 110),
    BlockType("IQ2_S", 22, 256, 82),
    BlockType("IQ4_XS", 23, 256, 136),
    BlockType("IQ1_M", 29, 256, 56),
    BlockType("MXFP4", 39, 32, 17),
)
_BY_NUMBER = {kind.number: kind for kind in TYPES}


def block_type(number: int) -> BlockType | None:
    """The type that ggml gives this number; None for one that cannot be read."""
    return _BY_NUMBER.get(number)

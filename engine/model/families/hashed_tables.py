"""Qwen4-Exp's tables of n-grams: every hash has its part of a table, and the checkpoint says which rows these are.

A row beyond the table is an error on a processor, and ends all that a GPU computes for this process.
"""

from engine.errors import ModelError
from engine.model.layer_converter import LayerConverter
from engine.model.safe_config import GET_AGAIN
from engine.protocol.sentences import say

OFFSETS, SIZES, TABLE = "ngram_heads_offsets", "ngram_heads_vocab_sizes", "ngram_embedding.weight"


def require_rows_of_tables(converter: LayerConverter) -> None:
    """Raise `ModelError` where a hash of the checkpoint would find rows that its table does not have."""
    for index in range(len(converter)):
        shapes = converter.shapes(index)
        for stem in (name.removesuffix(OFFSETS) for name in shapes if name.endswith(OFFSETS)):
            (rows, *_), _ = shapes[f"{stem}{TABLE}"]
            begins, counts = (converter.numbers(index, f"{stem}{part}") for part in (OFFSETS, SIZES))
            parts = zip(begins, counts, strict=False)
            if not all(begin >= 0 and count > 0 and begin + count <= rows for begin, count in parts):
                raise ModelError(
                    say(
                        "'{name}' looks n-grams up in rows that their table does not have.",
                        name=converter.architecture.name,
                    ),
                    GET_AGAIN,
                )

"""Embeddings and heads that stay as their checkpoint packs them: the same rows, and nearly the same products."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.formats.packed_tables import saved_bytes
from engine.model.products import product
from engine.model.products.compiling import has_compiler
from engine.model.streamable_network import StreamableNetwork, build_streamable
from engine.weights.streaming.stored_weight import (
    PackedTable,
    held_bytes,
    keep_packed_tables,
    narrow_tables,
    share_out_head,
)
from tests.engine.gguf_files import write_gguf
from tests.engine.tiny_models import BASE, random_model

pytestmark = pytest.mark.skipif(not has_compiler(), reason="numba does not run here")

CPU = torch.device("cpu")
VOCABULARY, WIDTH, FEW_ROWS = 199, 256, 4
WIDE: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": 2
}  # fmt: skip


def network_of(
    folder: Path,
    kind: str,
    tied: bool,
    leaves_tables: bool = True,
    dtype: torch.dtype = torch.float32,
    family: str = "llama",
) -> StreamableNetwork:
    """Of a file in blocks of this kind; its layers have no weights yet."""
    model = random_model(transformers.CONFIG_MAPPING[family](**{**BASE, **WIDE, "tie_word_embeddings": tied}))
    path = write_gguf(folder / "m.gguf", model, kind)
    return build_streamable(open_checkpoint(str(path)), dtype, CPU, leaves_tables)


def checkpoint_of(folder: Path) -> Checkpoint:
    """That file."""
    return open_checkpoint(str(folder / "m.gguf"))


def tables_of(model: Any) -> list[Any]:
    """The weights of embedding and head."""
    return [module._parameters["weight"] for module in (model.get_input_embeddings(), model.get_output_embeddings())]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("kind", "tied", "family"),
    [("Q4_K", True, "llama"), ("Q6_K", False, "llama"), ("Q8_0", False, "llama"), ("Q8_0", True, "mamba")],
)
def test_tables_stay_as_they_are_packed(kind: str, tied: bool, family: str, dtype: torch.dtype, tmp_path: Path) -> None:
    decoded = network_of(tmp_path, kind, tied, leaves_tables=False, dtype=dtype, family=family).network.model
    whole = [table.data for table in tables_of(decoded)]
    made = network_of(tmp_path, kind, tied, dtype=dtype, family=family)
    model: Any = made.network.model
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    assert all(table.is_meta for table in tables_of(model)), "nothing is decoded"
    keep_packed_tables(model, made.converter.packed_tables(), FEW_ROWS)
    share_out_head(model)
    packed = tables_of(model)
    assert all(isinstance(table, PackedTable) for table in packed)
    assert (packed[0] is packed[1]) == tied
    assert all(held_bytes(table) < 0.3 * table.numel() * 4 for table in packed)
    saved = saved_bytes(checkpoint_of(tmp_path).weights, dtype.itemsize, tied)
    assert saved == sum(table.nbytes - held_bytes(table) for table in set(packed))
    for table, other in zip(packed, whole, strict=True):
        assert torch.equal(table.decoded(), other)
    numbers = torch.tensor([[3, VOCABULARY - 1, 0, 3]])
    assert torch.equal(embedding(numbers), whole[0][numbers])
    for rows in (1, 3, 40):  # one, few, and so many that blocks are decoded
        states, error = torch.randn(1, rows, WIDTH).to(dtype), 1e-4 if dtype == torch.float32 else 2e-2
        torch.testing.assert_close(head(states), nn.functional.linear(states, whole[1]), rtol=error, atol=error)


@pytest.mark.parametrize("number", [VOCABULARY, -1])
def test_there_is_no_other_row(number: int, tmp_path: Path) -> None:
    made = network_of(tmp_path, "Q4_K", False)
    model: Any = made.network.model
    keep_packed_tables(model, made.converter.packed_tables(), FEW_ROWS)
    with pytest.raises(IndexError):
        model.get_input_embeddings()(torch.tensor([0, number]))


def test_what_no_loop_multiplies_is_decoded(tmp_path: Path) -> None:
    made = network_of(tmp_path, "F32", False)
    assert not made.converter.packed_tables()
    assert not any(table.is_meta for table in tables_of(made.network.model))


def test_what_no_loop_is_compiled_for_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = network_of(tmp_path, "Q4_K", True)
    monkeypatch.setattr(product, "has_compiler", lambda: False)
    keep_packed_tables(made.network.model, made.converter.packed_tables(), FEW_ROWS)
    embedding, head = tables_of(made.network.model)
    assert type(embedding) is nn.Parameter
    assert embedding is head
    assert not embedding.is_meta


def test_tables_are_not_narrowed_once_they_are_packed(tmp_path: Path) -> None:
    made = network_of(tmp_path, "Q4_K", False)
    model: Any = made.network.model
    keep_packed_tables(model, made.converter.packed_tables(), FEW_ROWS)
    narrow_tables(model, torch.bfloat16, FEW_ROWS)
    assert all(isinstance(table, PackedTable) for table in tables_of(model))


def test_a_text_is_the_same(tmp_path: Path) -> None:
    """Logits of trees, with layers that are made of the same file."""
    found = []
    for keeps in (False, True):
        made = network_of(tmp_path, "Q4_K", True, leaves_tables=keeps)
        for index, layer in enumerate(made.network.layers):
            layer.load_state_dict(dict(made.converter.weights(index)), assign=True)
        if keeps:
            keep_packed_tables(made.network.model, made.converter.packed_tables(), FEW_ROWS)
        context = Context(made.network, 64)
        context.prefill([5, 6, 7, 8, 9, 10])
        found.append(context.score([11, 12, 13], [-1, 0, 0]))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)
    assert torch.equal(found[1].argmax(-1), found[0].argmax(-1))

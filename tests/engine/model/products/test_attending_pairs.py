"""Attention in pairs of bfloat16 gives what attention is, and of no row anything else because of other rows."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from engine.model.products.bfloat_loops import PAIRS, bfloat_loop
from engine.model.products.product import native
from tests.campaigns.extent import choose

pytestmark = pytest.mark.skipif(bfloat_loop() is not PAIRS, reason="no loop of this processor reads pairs")


@dataclass(frozen=True, slots=True)
class Case:
    """Heads that share keys, rows, and slots; `more`: slots of each head's memory that are not its own."""

    group: int = 4
    shared: int = 2
    rows: int = 5
    slots: int = 40
    width: int = 64
    more: int = 0
    parts: int = 1


def inputs(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """Queries float32 [heads, rows, width], keys and values bfloat16 [heads that share, slots and more, width]."""
    chance = torch.Generator().manual_seed(case.slots)
    query = torch.randn(case.group * case.shared, case.rows, case.width, generator=chance)
    key, value = torch.randn(2, case.shared, case.slots + case.more, case.width, generator=chance).bfloat16()
    return query.bfloat16().float(), key.contiguous(), value.contiguous()


def attended(case: Case, tensors: tuple[Tensor, Tensor, Tensor], mask: Tensor | None, sinks: Tensor | None) -> Tensor:
    """float32 [rows, heads, width]; `mask` bool [rows, slots], None for causal rows; `sinks` [heads]."""
    query, key, value = tensors
    loop, found = native().works.attending, torch.full((case.rows, len(query), case.width), 7.0)
    told = np.zeros(loop.FACTS, np.int64)
    told[[loop.QUERY, loop.KEYS, loop.VALUES, loop.OUT]] = [each.data_ptr() for each in (query, key, value, found)]
    told[[loop.KEY_STEP, loop.VALUE_STEP]] = (case.slots + case.more) * case.width
    told[[loop.HEADS, loop.GROUP, loop.ROWS, loop.SLOTS]] = len(query), case.group, case.rows, case.slots
    told[[loop.WIDTH, loop.NARROW, loop.PARTS]] = case.width, 1, case.parts
    told.view(np.float32)[2 * loop.SCALE] = case.width**-0.5
    if mask is not None:
        told[[loop.MASK, loop.MASK_STEP]] = mask.data_ptr(), mask.stride(0)
    if sinks is not None:
        told[loop.SINKS] = sinks.data_ptr()
    native().works.attending_pairs.attend(told.ctypes.data, 0, case.shared * case.parts)
    return found


def exact(case: Case, tensors: tuple[Tensor, Tensor, Tensor], mask: Tensor | None) -> Tensor:
    """The same in float64, without sinks."""
    query, key, value = (each.double()[None] for each in tensors)
    seen = torch.ones(case.rows, case.slots, dtype=torch.bool).tril(case.slots - case.rows) if mask is None else mask
    key, value = (each[:, :, : case.slots].repeat_interleave(case.group, 1) for each in (key, value))
    return scaled_dot_product_attention(query, key, value, attn_mask=seen)[0].transpose(0, 1)


def tree_mask(rows: int, slots: int) -> Tensor:
    """Rows that see all slots but some of the last ones; each sees itself."""
    mask = torch.ones(rows, slots, dtype=torch.bool)
    mask[:, slots - rows :] = torch.rand(rows, rows, generator=torch.Generator().manual_seed(rows)) < 0.5
    mask[range(rows), range(slots - rows, slots)] = True
    return mask


def assert_near(found: Tensor, expected: Tensor) -> None:
    """But for what weights of bfloat16 round."""
    assert float((found - expected).abs().max()) < 0.01 * float(expected.abs().max())


@settings(max_examples=choose(40, 1000), deadline=None)
@given(
    group=st.integers(1, 5),
    shared=st.integers(1, 3),
    rows=st.integers(1, 37),
    before=st.integers(0, 600),
    width=st.sampled_from([32, 64, 96, 128]),
    more=st.integers(0, 9),
    parts=st.integers(1, 3),
    is_tree=st.booleans(),
)
def test_rows_attend_to_what_they_see(
    group: int, shared: int, rows: int, before: int, width: int, more: int, parts: int, is_tree: bool
) -> None:
    tiles = -(-group * rows // 16)
    case = Case(group, shared, rows, before + rows, width, more, min(parts, tiles))
    mask = tree_mask(rows, case.slots) if is_tree else None
    tensors = inputs(case)
    assert_near(attended(case, tensors, mask, None), exact(case, tensors, mask))


def test_a_window_hides_slots_also_at_the_beginning() -> None:
    case = Case(rows=7, slots=300)
    mask = tree_mask(case.rows, case.slots)
    mask[:, :150] = False
    mask[3, :190] = False
    assert_near(attended(case, inputs(case), mask, None), exact(case, inputs(case), mask))


def test_a_sink_takes_weight_and_gives_nothing() -> None:
    case = Case(rows=3, slots=50)
    tensors, sinks = inputs(case), torch.linspace(-3, 5, case.group * case.shared)
    query, key = tensors[0].double(), tensors[1].double().repeat_interleave(case.group, 0)
    scores = query @ key.transpose(1, 2) * case.width**-0.5
    scores = scores.masked_fill(~torch.ones(case.rows, case.slots, dtype=torch.bool).tril(47), float("-inf"))
    taken = 1 / (1 + torch.exp(sinks[:, None] - scores.logsumexp(-1)))
    expected = exact(case, tensors, None) * taken.transpose(0, 1)[:, :, None]
    assert_near(attended(case, tensors, None, sinks), expected)


def test_the_bits_of_a_row_depend_on_no_other_row_and_on_no_part() -> None:
    case = Case(rows=29, slots=5000)
    query, key, value = inputs(case)
    mask = tree_mask(case.rows, case.slots)
    whole = attended(case, (query, key, value), mask, None)
    for parts in (2, 5):
        other = Case(rows=29, slots=5000, parts=parts)
        assert torch.equal(attended(other, (query, key, value), mask, None), whole)
    some = Case(rows=2, slots=5000)
    for row in (0, 13, 27):
        two = query[:, row : row + 2].contiguous(), key, value
        assert torch.equal(attended(some, two, mask[row : row + 2].contiguous(), None), whole[row : row + 2])


def test_what_is_no_number_stays_in_its_row() -> None:
    case = Case(group=1, shared=1, rows=20, slots=64)
    query, key, value = inputs(case)
    expected = attended(case, (query, key, value), None, None)
    query[0, 4, 3] = float("nan")
    found = attended(case, (query, key, value), None, None)
    assert found[4].isnan().all()
    others = [row for row in range(case.rows) if row != 4]
    assert torch.equal(found[others], expected[others])

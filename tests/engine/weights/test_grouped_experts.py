"""The experts of several rows in steps: bit for bit what one product for each expert, its gate and their sum give."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.model.formats.awq import Awq
from engine.model.passes.light.experts import Stack, StayingExperts
from engine.model.passes.light.grouped_experts import GroupedExperts
from engine.model.products.bfloat_loops import PAIRS, bfloat_loop
from engine.model.products.compiling import has_compiler
from engine.model.products.grouped import Gate, Group, Member, mixed, multiply
from engine.model.products.product import Stored, native
from engine.model.products.programs import Room, RoomError, Steps
from engine.own_thread import in_own_thread
from engine.weights.streaming.experts.followed import Pairs
from tests.engine.weights.test_one_row import INNER, MAKERS, WIDTH

pytestmark = pytest.mark.skipif(not has_compiler(), reason="numba does not run here")

EXPERTS, CHOSEN = 7, 3
CLAMPED = Gate(limit=7.0, alpha=1.702)


def of_outputs(rows: int, columns: int) -> Stored:
    words = torch.randint(-(1 << 31), 1 << 31, (columns, rows // 8)).to(torch.int32)
    made = Awq().product({"codes": words, "scales": torch.rand(columns // 64, rows).half() / 8}, (rows, columns))
    assert made is not None
    return made


KINDS: dict[str, Callable[[int, int], Stored]] = {**MAKERS, "AWQ": of_outputs}


def stack_of(members: list[Member], rows: int, has_bias: bool) -> Stack:
    found = Stack.of(members.__getitem__, len(members), list(torch.randn(EXPERTS, rows)) if has_bias else [])
    assert found is not None
    return found


def experts(kind: str, form: str, gate: Gate) -> StayingExperts:
    """With gate and up of each in one matrix, in two, or in two whose rows take turns; clamped ones with biases."""
    make, has_bias = KINDS[kind], bool(gate.limit)
    up = [Member((make(2 * INNER, WIDTH),)) for _ in range(EXPERTS)]
    if form != "one":
        up = [Member((make(INNER, WIDTH), make(INNER, WIDTH)), form == "turns") for _ in range(EXPERTS)]
    down = [Member((make(WIDTH, INNER),)) for _ in range(EXPERTS)]
    return StayingExperts(
        gate, stack_of(up, 2 * INNER, has_bias), stack_of(down, WIDTH, has_bias), lambda *_: None, lambda _: None, 64
    )


def in_steps(some: StayingExperts, x: Tensor, choice: Tensor, weights: Tensor, is_narrow: bool) -> Tensor:
    while True:
        steps, room = Steps(), Room()
        try:
            rows, factors = room.take(*x.shape), room.take(*weights.shape)
            grouped = GroupedExperts(steps, room, factors, is_narrow)
            found = grouped.lay_out(rows, some)
        except RoomError:
            continue
        steps.finish()
        grouped.finish(steps.program)
        rows.copy_(x)
        factors.copy_(weights)
        native().write_all(*(torch.tensor([place]).numpy() for place in (grouped.choice_cell, choice.data_ptr())))
        steps.run(0, len(steps))
        first = found.clone()
        steps.run(0, len(steps))  # what the first run wrote makes no difference
        assert torch.equal(first, found)
        return first


def one_by_one(some: StayingExperts, x: Tensor, choice: Tensor, weights: Tensor, is_narrow: bool) -> Tensor:
    pairs, dtype = Pairs.of(choice), torch.bfloat16 if is_narrow else torch.float32

    def product(stack: Stack, rows: Tensor) -> Tensor:
        groups = [Group(stack.members[run.expert], run.begin, run.end) for run in pairs.runs]
        found = multiply(groups, rows.to(dtype))
        for run in pairs.runs if stack.biases else ():
            found[run.begin : run.end] += stack.biases[run.expert]
        return found

    gated = some.gate(product(some.up, x[pairs.rows]).contiguous())
    return mixed(product(some.down, gated.contiguous()), pairs.order, weights)


def choices(rows: int) -> list[Tensor]:
    """Where rows go to other experts each, where most go to the same, and where all do."""
    scattered = torch.stack([torch.randperm(EXPERTS)[:CHOSEN] for _ in range(rows)])
    most = scattered.clone()
    most[: rows // 2 + 1] = torch.tensor([5, 0, 6])
    return [scattered, most, torch.tensor([[2, 6, 1]] * rows)]


CASES = [
    *((kind, form, Gate()) for kind in ("Q4_0", "Q4_K", "BF16", "AWQ") for form in ("one", "two")),
    *((kind, form, CLAMPED) for kind in ("BF16", "Q4_0") for form in ("one", "turns")),
]


@pytest.mark.parametrize("is_narrow", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("kind", "form", "gate"), CASES, ids=lambda each: each if isinstance(each, str) else "")
def test_groups_have_the_bits_of_one_product_each(kind: str, form: str, gate: Gate, is_narrow: bool) -> None:
    if is_narrow and bfloat_loop() is not PAIRS:
        pytest.skip("steps compute rows of bfloat16 where the processor multiplies pairs of these")
    some = experts(kind, form, gate)
    for rows in (2, 3, 5, 9, 33):
        x, weights = torch.randn(rows, WIDTH), torch.rand(rows, CHOSEN)
        x = x.bfloat16().float() if is_narrow else x
        for choice in choices(rows):
            expected = one_by_one(some, x, choice, weights, is_narrow)
            assert torch.equal(in_steps(some, x, choice, weights, is_narrow), expected)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_bits_do_not_depend_on_how_many_threads_there_are(threads: int) -> None:
    some = experts("Q4_0", "two", Gate())
    x, weights, choice = torch.randn(6, WIDTH), torch.rand(6, CHOSEN), choices(6)[1]
    found, allowed = in_steps(some, x, choice, weights, is_narrow=False), torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        assert torch.equal(in_steps(some, x, choice, weights, is_narrow=False), found)
        with in_own_thread():  # as passes do, whose threads stay awake
            assert torch.equal(in_steps(some, x, choice, weights, is_narrow=False), found)
    finally:
        torch.set_num_threads(allowed)

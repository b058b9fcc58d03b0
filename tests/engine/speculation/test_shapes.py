"""Where the shapes of Sequoia's trees come from."""

import pytest

from engine.speculation.interfaces import Choice, RoundResult
from engine.speculation.methods.acceptance_rates import AcceptanceCounts, counted, has_moved
from engine.speculation.methods.sequoia import LearnedShapes, PlannedShapes, PrescribedShape
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.trees.tree_program import PRIOR, TreeShape, program_for
from engine.speculation.tuning.pass_time import PassTime
from tests.engine.speculation.simulation import Named

SURE = tuple([0.95, 0.02, 0.005] + [0.0] * 29)


def taught(rounds: int = 200) -> AcceptanceCounts:
    counts = AcceptanceCounts()
    for number in range(rounds):
        counts.observe_ranks([None if number % 20 == 0 else 0], 32)
    return counts


def test_what_is_learnt_makes_the_tree_of_a_sure_draft_deep() -> None:
    counts = AcceptanceCounts()
    shapes = LearnedShapes(counts)
    assert shapes(65, 33) == PlannedShapes(PRIOR)(65, 33)
    for _ in range(10):
        counts.observe_ranks([0] * 8, 32)
    assert shapes(65, 33).levels > 2 * PlannedShapes(PRIOR)(65, 33).levels


def test_it_is_planned_anew_only_where_that_matters() -> None:
    assert not has_moved(SURE, SURE)
    assert not has_moved((0.9,), (0.905,))
    assert has_moved((0.9,), (0.93,))
    assert has_moved((0.5, 0.3), (0.5, 0.2))


def test_ranks_and_rounds_count_alike_and_come_back() -> None:
    by_rank, by_round = AcceptanceCounts(), AcceptanceCounts()
    by_rank.observe_ranks([1, None], 3)
    star = Tree((0, 1, 2, 3), (-1, 0, 0, 0), (0.0,) * 4)
    by_round.observe(star, Path((0, 2), bonus=9))
    by_round.observe(star, Path((0,), bonus=9))
    assert by_rank.vector() == pytest.approx(by_round.vector())
    assert AcceptanceCounts.restored(taught().state).vector() == pytest.approx(taught().vector(), rel=1e-4)
    for wrong in ({"tried": [1.0]}, {"tried": [0.0] * 32}, {"accepted": [1e9] * 32}):
        with pytest.raises(ValueError, match=r"figures of the shape|accepted more often"):
            AcceptanceCounts.restored(taught().state | wrong)


@pytest.mark.parametrize(("method", "tells"), [("sequoia", 2), ("chain", 1), ("specinfer", 1), ("specexec", 0)])
def test_methods_count_what_their_trees_tell(method: str, tells: int) -> None:
    star = Tree((0, 1, 2), (-1, 0, 0), (0.0,) * 3)
    result = RoundResult(Choice(Named(method), 2, 1), star, Path((0,), bonus=9), 0.1, 0.1, 0.2)
    counts = AcceptanceCounts()
    assert list(counted([result], counts, is_greedy=False)) == [result]
    before, now = AcceptanceCounts().state["tried"], counts.state["tried"]
    assert [new - old for old, new in zip(before, now, strict=True)] == [1.0] * tells + [0.0] * (32 - tells)


def test_a_prescribed_shape_is_cut_to_what_a_round_allows() -> None:
    shape = TreeShape((-1, 0, 0, 1, 1, 3))
    assert PrescribedShape(shape)(100, 100) == shape
    assert PrescribedShape(shape)(4, 100).parents == (-1, 0, 0, 1)
    assert PrescribedShape(shape)(100, 2).parents == (-1, 0, 0)


def test_the_optimiser_keeps_to_the_depth_and_leaves_256_nodes_where_passes_are_flat() -> None:
    flat, quick = PassTime((1, 1024), (5.0, 5.0)), PassTime((1,), (1e-4,))
    program = program_for(PRIOR, 1024, 9)
    assert program.best_size(quick, flat, 8)[1] == 8
    assert program.best_size(quick, flat, 18)[0] > 768

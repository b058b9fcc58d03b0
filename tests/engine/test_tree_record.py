"""Trees that an answer is replayed with tell what trees of any size give, the mean of all answers."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.cli.session import Session
from engine.loading import tree_record
from engine.loading.tree_record import TreeRecord, _followed, _in_turns
from engine.protocol.messages import ChatMessage
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.speculation.trees.tree import Path as TreePath
from engine.speculation.trees.tree import Tree
from engine.speculation.tuning.throughput_model import BUDGETS

TEXTS = ("Tell me a story about a dragon.", "How do I make a cup of tea?", "Tell me about music.")


def asked(speculation: SpeculationOptions) -> GenerateOptions:
    return GenerateOptions(SamplingOptions(temperature=0.0), speculation, 64)


def tokens_per_pass(session: Session, speculation: SpeculationOptions, texts: Sequence[str] = TEXTS) -> float:
    tokens = passes = 0
    for text in texts:
        answer = session.collect(session.engine.prompt([ChatMessage("user", text)]), asked(speculation))
        tokens, passes = tokens + answer.statistics.new_tokens, passes + answer.statistics.passes
    return tokens / passes


def test_answers_with_other_trees_tell_what_trees_of_a_size_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_record, "SECONDS", 60.0)
    options = LoadOptions(weights="float32", context_tokens=512, cache_dir=str(tmp_path))
    session = Session(options, quiet=True)
    try:
        tokens_per_pass(session, SpeculationOptions())
        learned = session.engine._loaded.learned.state(asked(SpeculationOptions()))
        for nodes in (2, 8, 16, 32):
            real = tokens_per_pass(session, SpeculationOptions("specexec", nodes))
            told = learned.record.tokens[BUDGETS.index(nodes), -1]
            assert told == pytest.approx(real, rel=0.15), f"{nodes} nodes"
    finally:
        session.engine.close()


def test_every_part_of_an_answer_is_read_and_not_always_in_the_same_order() -> None:
    for count in (1, 2, 3, 7, 12):
        orders = [list(_in_turns(range(count), first)) for first in range(count)]
        assert all(sorted(order) == list(range(count)) for order in orders)
        assert len({order[0] for order in orders}) == count


def test_the_text_leaves_the_tree_where_the_tree_lacks_its_token() -> None:
    tree = Tree((1, 2, 3, 4), (-1, 0, 1, 1), (0.0, -0.1, -0.5, -0.7))
    assert _followed(tree, [2, 4, 9]) == TreePath((0, 1, 3), 9)
    assert _followed(tree, [5, 2]) == TreePath((0,), 5)
    assert _followed(tree, [2, 4]) == TreePath((0, 1), 4), "the last token is nobody's node: nothing follows it"


def test_what_was_recorded_is_kept() -> None:
    record = TreeRecord()
    record.add(Tree((1, 2, 3), (-1, 0, 1), (0.0, -0.1, -0.5)), TreePath((0, 1), 7), 16, 32)
    record._drafting = [(2.0, 0.01), (3.0, 0.03), (4.0, 0.02)]
    again = TreeRecord.restored(record.state)
    assert again.trees == 1.0
    assert again.tokens == pytest.approx(record.tokens, rel=1e-4)
    assert again.drafting
    assert (again.drafting.rows, again.drafting.seconds) == ((3.0,), (0.02,)), "as is usual"
    with pytest.raises(ValueError, match="no figures"):
        TreeRecord.restored({**record.state, "counts": [1.0]})

"""Trees that an answer is replayed with tell what trees of any size give, the mean of all answers."""

import random
import time
from collections.abc import Sequence, Set
from pathlib import Path
from typing import cast

import pytest

from engine.cli.session import Session
from engine.loading.measurements import tree_record
from engine.loading.measurements.tree_record import NODES, TreeRecord, _followed, _in_turns, size_of_replay
from engine.protocol.messages import ChatMessage
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.speculation.interfaces import Method, TreeBounds
from engine.speculation.trees.tree import Path as TreePath
from engine.speculation.trees.tree import Tree
from engine.speculation.tuning.throughput_model import BUDGETS

SIZE = NODES[0]
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
        for nodes in (2, 8, 16):
            real = tokens_per_pass(session, SpeculationOptions("specexec", nodes))
            told = learned.record.tokens[BUDGETS.index(nodes), -1]
            assert told == pytest.approx(real, rel=0.1), f"{nodes} nodes"
    finally:
        session.engine.close()


class Chains:
    """A `Method` that drafts the text itself, but for the tokens that it gets wrong."""

    def __init__(self, text: Sequence[int], wrong: Set[int]) -> None:
        self._text, self._wrong = text, wrong

    def prefill(self, tokens: Sequence[int]) -> None:
        """Nothing to read: it knows the text."""

    def grow(self, text: Sequence[int], bounds: TreeBounds) -> Tree:
        """A chain of what follows; a wrong token is 0, which the text never has."""
        places = range(len(text), min(len(text) + bounds.budget, len(self._text)))
        drafted = [0 if place in self._wrong else self._text[place] for place in places]
        scores = tuple(-0.1 * level for level in range(len(drafted) + 1))
        return Tree((text[-1], *drafted), tuple(range(-1, len(drafted))), scores)

    def keep(self, path: TreePath) -> None:
        """Nothing to remember."""


def passes_of(text: Sequence[int], wrong: Set[int], begin: int) -> int:
    """Rounds that an answer takes which begins there."""
    done, passes = begin, 0
    while done < len(text):
        accepted = next((count for count in range(SIZE) if done + count in wrong), SIZE)
        done, passes = done + accepted + 1, passes + 1
    return passes


def test_trees_within_an_answer_are_told_as_often_as_they_come() -> None:
    """Where the draft is wrong more often, more trees begin: any token of a text is no fair place for the first one."""
    chance, record = random.Random(0), TreeRecord()
    tokens = passes = 0
    for _ in range(100):
        text, wrong, is_hard = [1] * 196, set[int](), False
        for place in range(4, len(text)):
            is_hard ^= chance.random() < (0.15 if is_hard else 0.06)
            if chance.random() < (0.55 if is_hard else 0.03):
                wrong.add(place)
        tokens, passes = tokens + len(text) - 4, passes + passes_of(text, wrong, 4)
        record.replay(cast("Method", Chains(text, wrong)), text[:4], text[4:], TreeBounds(SIZE, 32), 1e6)
    told = record.tokens[BUDGETS.index(SIZE), -1]
    assert told == pytest.approx(tokens / passes, rel=0.03), "5 % more with a first tree for every 32 tokens"


def test_a_replay_ends_in_the_middle_of_a_stretch_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(now)))
    monkeypatch.setattr(tree_record, "SECONDS", 10.0)
    text, record = [1] * 68, TreeRecord()
    record.replay(cast("Method", Chains(text, set(range(4, 68)))), text[:4], text[4:], TreeBounds(SIZE, 32), 1e6)
    assert 1.0 <= record.trees < 10.0, "every token would have been a tree of its own"


def test_no_tree_goes_beyond_the_context() -> None:
    """A draft may have no position there, as none of the answer's trees asked for one."""
    text, reached = [1] * 40, list[int]()

    class Watched(Chains):
        def grow(self, text: Sequence[int], bounds: TreeBounds) -> Tree:
            reached.append(len(text) + bounds.depth)
            return super().grow(text, bounds)

    TreeRecord().replay(
        cast("Method", Watched(text, set(range(40)))), text[:4], text[4:], TreeBounds(SIZE, 32), 1e6, context_tokens=44
    )
    assert max(reached) == 44
    assert min(reached) == 36, "far from the end they are as deep as ever"


def test_a_replay_that_fails_is_told_in_the_log_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_args: object) -> None:
        raise IndexError("a table is too short")

    monkeypatch.setattr(TreeRecord, "replay", fail)
    session = Session(LoadOptions(weights="float32", context_tokens=512, cache_dir=str(tmp_path)), quiet=True)
    try:
        answer = session.collect(session.engine.prompt([ChatMessage("user", TEXTS[0])]), asked(SpeculationOptions()))
        assert answer.statistics.new_tokens > 1
        assert list((tmp_path / "learnt").iterdir()), "what the answer itself has taught is kept"
    finally:
        session.engine.close()
    assert "a table is too short" in capsys.readouterr().err


def test_trees_are_grown_about_as_large_as_the_answer_s_were() -> None:
    sizes = {nodes: size_of_replay(10 * nodes, 10) for nodes in (0, 5, 30, 300)}
    assert sizes == {0: 16, 5: 16, 30: 30, 300: 64}
    assert size_of_replay(0, 0) == 16


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

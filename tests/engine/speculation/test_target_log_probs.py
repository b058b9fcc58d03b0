"""What the target thinks of a tree's nodes is what its logits say, row by row."""

import pytest
import torch

from engine.speculation.methods.verification import said_of
from engine.speculation.target_log_probs import ALTERNATIVES, judge
from engine.speculation.trees.tree import Path, Tree
from tests.engine.speculation.host_reads import HostReads


@pytest.mark.parametrize("nodes", [1, 5, 200])
def test_every_node_is_judged_behind_its_parent(nodes: int) -> None:
    generator = torch.Generator().manual_seed(nodes)
    logits = torch.randn(nodes, 50, generator=generator) * 3
    parents = (-1, *(int(torch.randint(node, (1,), generator=generator)) for node in range(1, nodes)))
    tokens = tuple(int(token) for token in torch.randint(50, (nodes,), generator=generator))
    path = Path((0, *([1] if nodes > 1 else [])), bonus=7)
    judged = judge(Tree(tokens, parents, (0.0,) * nodes), logits, path)
    known = logits.log_softmax(-1)
    assert float(judged.log_probs[0]) == 0.0
    assert int(judged.ranks[0]) == 0
    for place, (parent, token) in enumerate(
        zip((*parents[1:], path.nodes[-1]), (*tokens[1:], 7), strict=True), start=1
    ):
        assert judged.log_probs[place] == pytest.approx(float(known[parent, token]), abs=1e-5)
        order = known[parent].argsort(descending=True).tolist()
        assert judged.ranks[place] == 1 + order.index(token)
    best = known.topk(ALTERNATIVES)
    torch.testing.assert_close(judged.best_log_probs, best.values)
    assert judged.best_tokens.tolist() == best.indices.tolist()


def test_small_vocabulary_has_fewer_alternatives() -> None:
    judged = judge(Tree((0,), (-1,), (0.0,)), torch.zeros(1, 3), Path((0,), bonus=2))
    assert judged.best_tokens.shape == (1, 3)


def test_what_was_said_is_as_likely_as_its_row_says() -> None:
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(4)) * 3
    tree, path = Tree((9, 3, 4, 5), (-1, 0, 0, 2), (0.0,) * 4), Path((0, 2, 3), bonus=7)
    known = logits.log_softmax(-1)
    wanted = [float(known[0, 4]), float(known[2, 5]), float(known[3, 7])]
    assert said_of(tree, logits, path).log_probs == pytest.approx(wanted, abs=1e-5)
    assert said_of(tree, logits, path).likeliest == ()
    reads = HostReads()
    with reads.counted():
        told = said_of(tree, logits, path, top=3)
    assert reads.count == 1
    assert told.log_probs == said_of(tree, logits, path).log_probs
    for node, likeliest in zip(path.nodes, told.likeliest, strict=True):
        best = known[node].topk(3)
        assert [token for token, _ in likeliest] == best.indices.tolist()
        assert [log_prob for _, log_prob in likeliest] == pytest.approx(best.values.tolist(), abs=1e-5)
    assert len(said_of(tree, logits, path, top=99).likeliest[0]) == 50

"""What the target thinks of the nodes of a tree: a few numbers per node, taken from logits that are there anyway."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.speculation.trees.tree import Path, Tree

_ROWS = 64  # logits that are looked at together: more would take memory that was not planned for
ALTERNATIVES = 8


@dataclass(frozen=True, slots=True)
class NodeLogProbs:
    """On the host. `log_probs` float32 and `ranks` int32 [nodes + 1]: each node's behind its parent, last the bonus
    token's; 0 for the root. `best_log_probs`, `best_tokens` [nodes, `ALTERNATIVES`]: what is likeliest behind a node.
    """

    log_probs: Tensor
    ranks: Tensor
    best_log_probs: Tensor
    best_tokens: Tensor


def judge(tree: Tree, logits: Tensor, path: Path) -> NodeLogProbs:
    """Probabilities as the model gives them, before temperature, filters and penalties.

    logits: float32 [nodes, vocabulary], on any device; what is computed of them comes to the host at the end.
    """
    device = logits.device
    tops, norms = [], []
    for block in torch.split(logits, _ROWS):
        norms.append(block.logsumexp(-1))
        tops.append(block.topk(min(ALTERNATIVES, block.shape[-1])))
    norm = torch.cat(norms)
    rows = torch.tensor([*tree.parents[1:], path.nodes[-1]], device=device)
    tokens = torch.tensor([*tree.tokens[1:], path.bonus], device=device)
    values, ranks = [], []
    for at, said in zip(torch.split(rows, _ROWS), torch.split(tokens, _ROWS), strict=True):
        block = logits[at]
        value = block.gather(1, said[:, None])
        values.append(value[:, 0] - norm[at])
        ranks.append((block > value).sum(1) + 1)
    root = torch.zeros(1, device=device)
    return NodeLogProbs(
        log_probs=torch.cat([root, *values]).float().cpu(),
        ranks=torch.cat([root.long(), *ranks]).int().cpu(),
        best_log_probs=(torch.cat([top.values for top in tops]) - norm[:, None]).float().cpu(),
        best_tokens=torch.cat([top.indices for top in tops]).int().cpu(),
    )

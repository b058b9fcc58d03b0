"""What the target thinks of the nodes of a tree: a few numbers per node, taken from logits that are there anyway."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.accelerator import sent
from engine.speculation.trees.tree import Path, Tree

_ROWS = 32  # logits that are looked at together: more would take memory that was not planned for
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

    logits: [nodes, vocabulary], on any device; what is computed of them comes to the host at the end.
    """
    device, width = logits.device, min(ALTERNATIVES, logits.shape[-1])
    tops, norms = [], []
    for block in map(Tensor.float, torch.split(logits, _ROWS)):
        norms.append(block.logsumexp(-1, keepdim=True))
        tops.append(block.topk(width))
    norm = torch.cat(norms)
    rows, tokens = sent([*tree.parents[1:], path.nodes[-1]], device), sent([*tree.tokens[1:], path.bonus], device)
    values, ranks = [norm.new_zeros(1, 1)], [norm.new_zeros(1, 1)]
    for at, said in zip(torch.split(rows, _ROWS), torch.split(tokens, _ROWS), strict=True):
        block = logits[at].float()
        value = block.gather(1, said[:, None])
        values.append(value - norm[at])
        ranks.append((block > value).sum(1, keepdim=True) + 1)
    likeliest, best = (torch.cat([top[part] for top in tops]) for part in (0, 1))
    # The host reads once: double precision holds ranks and tokens, too.
    parts = [torch.cat(values), torch.cat(ranks), likeliest - norm, best]
    whole = torch.cat([part.double().flatten() for part in parts]).cpu()
    read = torch.split(whole, [part.numel() for part in parts])
    return NodeLogProbs(
        log_probs=read[0].float(),
        ranks=read[1].int(),
        best_log_probs=read[2].float().view(-1, width),
        best_tokens=read[3].int().view(-1, width),
    )

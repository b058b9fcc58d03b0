"""A round as text that can be pasted anywhere: the tree by indentation, the accepted path marked."""

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.tree.rounds.pieces import visible
from app.tree.rounds.snapshot import Snapshot


def as_text(tree: Snapshot) -> str:
    """One line per node, likeliest siblings first; `*` stands before what was accepted, `+` before the bonus token."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents.tolist()):
        children.setdefault(parent, []).append(node)
    for siblings in children.values():
        siblings.sort(key=lambda node: (-tree.log_probs[node], node))
    accepted = set(tree.accepted)
    head = tr("Round {number}: {count} nodes, {accepted} accepted")
    lines = [head.format(number=tree.number, count=tree.drafted, accepted=len(accepted) - 1)]
    waiting = [0]
    while waiting:
        node = waiting.pop()
        indent = "  " * int(tree.depths[node])
        mark = "*" if node in accepted else " "
        text = visible(tree.pieces[node], int(tree.tokens[node]))
        lines.append(f"{mark} {indent}{text}  {Number(tree.draft_probability(node)):.3f}")
        if tree.has_bonus and node == tree.tip:
            lines.append(f"+ {indent}  {visible(tree.bonus_piece, tree.bonus)}")
        waiting += reversed(children.get(node, []))
    return "\n".join(lines) + "\n"

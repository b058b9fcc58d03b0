"""What a node is and what became of it, in words: the text of its tooltip."""

from html import escape

from app.tree.pieces import visible
from app.tree.snapshot import Snapshot


def explain_node(tree: Snapshot, node: int, folded: int) -> str:
    """Rich text, the token escaped; `folded` is the number of nodes folded into this one."""
    facts = [
        ("Token", f"<b>{_token(tree.pieces[node], int(tree.tokens[node]))}</b>"),
        ("Id", str(int(tree.tokens[node]))),
        ("Depth", str(int(tree.depths[node]))),
    ]
    if node:
        facts.append(("Draft probability", _percent(tree.draft_probability(node))))
        facts.append(("Path probability", _percent(tree.path_probability(node))))
    if folded:
        facts.append(("Folded behind it", f"{folded:,} (zoom in to see them)"))
    return _table(facts, _fate(tree, node))


def explain_bonus(tree: Snapshot) -> str:
    """Rich text about the token that the target added."""
    facts = [
        ("Token", f"<b>{_token(tree.bonus_piece, tree.bonus)}</b>"),
        ("Id", str(tree.bonus)),
        ("Depth", str(int(tree.depths[tree.tip]) + 1)),
    ]
    return _table(facts, "Bonus: the target's own choice, from the same pass.")


def _fate(tree: Snapshot, node: int) -> str:
    if node == 0:
        return "Root: the last token of the answer so far."
    if node in tree.accepted:
        return "Accepted: the target chose this token too."
    parent = int(tree.parents[node])
    if parent not in tree.accepted:
        return "Rejected: it stands behind a token that the target did not choose."
    if parent != tree.tip:
        following = tree.accepted[tree.accepted.index(parent) + 1]
        choice = _token(tree.pieces[following], int(tree.tokens[following]))
    elif int(tree.tokens[node]) == tree.bonus:
        return "Chosen by the target too; it ends the answer and is counted as the bonus token."
    else:
        choice = _token(tree.bonus_piece, tree.bonus)
    return f"Rejected: the target chose <b>{choice}</b> here."


def _token(piece: str, token: int) -> str:
    return escape(visible(piece, token))


def _percent(probability: float) -> str:
    if 0.0 < probability < 0.0001:
        return "below 0.01 %"
    return f"{probability * 100:.3g} %"


def _table(facts: list[tuple[str, str]], fate: str) -> str:
    rows = "".join(f"<tr><td>{name}&nbsp;&nbsp;</td><td>{value}</td></tr>" for name, value in facts)
    return f"<qt><table>{rows}</table><p style='margin: 4px 0 0 0'>{fate}</p></qt>"

"""Tooltips of nodes: what is known of them, and what has yet to be asked of the target."""

import math

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.tree.picture.picture import BONUS_NODE, Picture
from app.tree.rounds.snapshot import Snapshot
from app.tree.rounds.text import visible
from engine.protocol.watching import Inspected

_BAR = 12  # blocks for certainty
_CHOSEN = "▸ "


def explain_node(tree: Snapshot, node: int, folded: int, alternatives: Inspected | None = None) -> str:
    """Some lines of text; `folded` is the number of nodes folded into this one.

    `alternatives`: what the target finds likeliest in the node's place, if it was asked.
    """
    facts = [(tr("Depth"), str(int(tree.depths[node])))]
    if node:
        here, path = _percent(tree.draft_probability(node)), _percent(tree.path_probability(node))
        both = tr("{here} here, {path} from the root").format(here=here, path=path)
        facts.append((tr("Draft"), both))
        facts += _target(tree, node)
    if folded:
        words = tr("{count} behind it (press O to see them)").format(count=f"{Number(folded):,}")
        facts.append((tr("Folded"), words))
    head = _head(tree.pieces[node], int(tree.tokens[node]))
    return _card(head, _fate(tree, node), facts, _choices(alternatives, int(tree.tokens[node])) if node else "")


def explain_bonus(tree: Snapshot, alternatives: Inspected | None = None) -> str:
    """The same about the token that the target added."""
    facts = [(tr("Depth"), str(int(tree.depths[tree.tip]) + 1)), *_target(tree, len(tree.pieces))]
    fate = tr("Bonus: the target's own choice, from the same pass.")
    return _card(_head(tree.bonus_piece, tree.bonus), fate, facts, _choices(alternatives, tree.bonus))


def _target(tree: Snapshot, place: int) -> list[tuple[str, str]]:
    if tree.target_log_probs is None or tree.ranks is None:
        return []
    probability, rank = math.exp(float(tree.target_log_probs[place])), int(tree.ranks[place])
    words = tr("{probability} here, {rank} choice").format(probability=_percent(probability), rank=_ordinal(rank))
    return [(tr("Target"), words)]


def _fate(tree: Snapshot, node: int) -> str:
    if node == 0:
        return tr("Root: the last token of the answer so far.")
    if node in tree.accepted:
        accepted = tr("Accepted: the target chose this token too.")
        ends = tree.is_verified and not tree.has_bonus and node == tree.tip
        return f"{accepted} {tr('The answer ends with it.')}" if ends else accepted
    if not tree.is_verified:
        ahead = tr("Guessed ahead, while the target checks the others: it may be of use in the next round.")
        return ahead if 0 < tree.checking <= node else tr("A guess: the target has not checked it yet.")
    parent = int(tree.parents[node])
    if parent == tree.tip and not tree.has_bonus:
        return tr("Of no use: the answer ended before it.")
    if parent not in tree.accepted:
        return tr("Rejected: it stands behind a token that the target did not choose.")
    if parent != tree.tip:
        following = tree.accepted[tree.accepted.index(parent) + 1]
        choice = _token(tree.pieces[following], int(tree.tokens[following]))
    else:
        choice = _token(tree.bonus_piece, tree.bonus)
    return tr("Rejected: the target chose {token} here.").format(token=choice)


def _choices(alternatives: Inspected | None, token: int) -> str:
    """The target's likeliest tokens with bars, a mark before the one that is looked at."""
    if alternatives is None or not alternatives.tokens:
        return ""
    rows = []
    for each, log_prob, piece in zip(alternatives.tokens, alternatives.log_probs, alternatives.pieces, strict=True):
        text = f"{_CHOSEN}{_token(piece, each)}" if each == token else _token(piece, each)
        probability = math.exp(log_prob)
        bar = "▇" * round(probability * _BAR) or "▏"
        rows.append(f"{_percent(probability)}  {bar}  {text}")
    title = tr("The target's likeliest tokens here")
    return "\n".join(["", f"{title}:", *rows])


def _head(piece: str, token: int) -> str:
    return f"{_token(piece, token)}   (id {token})"


def _token(piece: str, token: int) -> str:
    return visible(piece, token)


def _percent(probability: float) -> str:
    if 0.0 < probability < 0.0001:
        return tr("below 0.01 %")
    return f"{Number(probability * 100):.3g} %"


def _ordinal(number: int) -> str:
    teens = 10 < number % 100 < 20
    endings = {1: tr("{number}st"), 2: tr("{number}nd"), 3: tr("{number}rd")}
    words = tr("{number}th") if teens else endings.get(number % 10, tr("{number}th"))
    return words.format(number=f"{Number(number):,}")


def _card(head: str, fate: str, facts: list[tuple[str, str]], choices: str) -> str:
    rows = [f"{name}: {value}" for name, value in facts]
    return "\n".join([head, fate, "", *rows, *([choices] if choices else [])])


class Inspection:
    """Of one tree: texts about its nodes, with the target's alternatives once they were told."""

    def __init__(self, tree: Snapshot | None = None) -> None:
        self._tree = tree
        self._asked: set[int] = set()
        self._told: dict[int, Inspected] = {}

    def explain(self, picture: Picture, node: int) -> str:
        """Rich text about a node or the bonus token."""
        tree = picture.tree
        alternatives = self._told.get(_before(tree, node)) if tree.is_verified else None
        if node == BONUS_NODE:
            return explain_bonus(tree, alternatives)
        return explain_node(tree, node, picture.folded(node), alternatives)

    def question(self, node: int) -> int | None:
        """The node behind which the target's alternatives to this one are; None if that cannot be asked, or was."""
        tree = self._tree
        if tree is None or not tree.is_verified or tree.ranks is None or node == 0:
            return None
        before = _before(tree, node)
        if before in self._asked:
            return None
        self._asked.add(before)
        return before

    def tell(self, alternatives: Inspected) -> None:
        """The target's answer."""
        self._told[alternatives.node] = alternatives


def _before(tree: Snapshot, node: int) -> int:
    return tree.tip if node == BONUS_NODE else int(tree.parents[node])

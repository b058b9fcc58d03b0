"""A round as text: tokens with everything in them made visible, and the tree as an indented outline."""

import unicodedata

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.tree.rounds.snapshot import Snapshot

_VISIBLE = {" ": "·", "\n": "⏎", "\t": "\\t", "\r": "\\r"}
_HIDDEN = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"}  # control and formatting characters, separators, nothing at all
_LONGEST_PIECE = 200
_JOINER = "\N{ZERO WIDTH JOINER}"


def visible(piece: str, token: int) -> str:
    """`piece` on one line, nothing of it invisible but what joins emoji; a token without text shows as its number."""
    if not piece:
        return f"‹{token}›"
    text = "".join(
        character if _joins_pictures(piece, at) else _character(character)
        for at, character in enumerate(piece[:_LONGEST_PIECE])
    )
    if unicodedata.category(text[0]).startswith("M"):
        text = "◌" + text  # a combining mark needs something to stand on
    return text if len(piece) <= _LONGEST_PIECE else text + "…"


def _joins_pictures(piece: str, at: int) -> bool:
    """Whether a character is the joiner between two parts of one emoji, which fonts draw as one picture."""
    if piece[at] != _JOINER or not 0 < at < len(piece) - 1:
        return False
    before, behind = unicodedata.category(piece[at - 1]), unicodedata.category(piece[at + 1])
    return before in {"So", "Sk", "Mn"} and behind == "So"  # a picture, its skin colour, or the mark that makes it one


def _character(character: str) -> str:
    if character in _VISIBLE:
        return _VISIBLE[character]
    if character == "\ufffd":
        return character
    category = unicodedata.category(character)
    if category == "Zs":
        return "·"
    if category not in _HIDDEN:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def tokens_in_words(tree: Snapshot) -> str:
    """What a verified round gave; where the answer ends with a guess there is no bonus token."""
    one, more = tr("{accepted} accepted + 1 bonus = 1 token"), tr("{accepted} accepted + 1 bonus = {count} tokens")
    if not tree.has_bonus:
        one, more = tr("1 accepted = 1 token"), tr("{accepted} accepted = {count} tokens")
    words = one if tree.new_tokens == 1 else more
    return words.format(accepted=len(tree.accepted) - 1, count=f"{Number(tree.new_tokens):,}")


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

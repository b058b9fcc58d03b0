"""What a picture of a tree shows, in words: for those who hear it instead."""

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.tree.picture.picture import Picture
from app.tree.rounds.text import visible

_LONGEST = 40  # tokens of the path that are read out


def described(picture: Picture, figures: str) -> str:
    """The figures of the round, its accepted path, what is folded, and the keys."""
    tree = picture.tree
    sentences = [figures]
    if len(tree.accepted) > 1:
        path = [visible(tree.pieces[node], int(tree.tokens[node])) for node in tree.accepted[1 : _LONGEST + 1]]
        more = " …" if len(tree.accepted) > _LONGEST + 1 else ""
        sentences.append(tr("Accepted: {tokens}").format(tokens=" ".join(path) + more))
    if tree.has_bonus:
        sentences.append(tr("Bonus token: {token}").format(token=visible(tree.bonus_piece, tree.bonus)))
    if folded := tree.drafted - picture.shown:
        words = tr("{shown} of {count} guesses are shown, {folded} are folded")
        counts = {"shown": picture.shown, "count": tree.drafted, "folded": folded}
        sentences.append(words.format(**{name: f"{Number(value):,}" for name, value in counts.items()}))
    sentences.append(tr("Arrow keys go from token to token, O unfolds what is behind one"))
    return ". ".join(sentences) + "."

"""Rounds whose texts are hard to write down, and how long what is made of them takes."""

from dataclasses import replace

from engine.protocol.messages import Round, Seconds
from tests.app.tree.trees import random_round, round_of

PIECES = ("السلام", " <&>", " \"quoted'", " ورحمة", " 🌳", "]]>", "\n", "\x00", " שלום")
HARD = round_of(
    list(range(9)),
    [-1, 0, 1, 2, 3, 0, 5, 6, 4],
    [0, -0.1, -0.2, -0.3, -0.4, -1.5, -2.0, -2.5, -0.5],
    (0, 1, 2, 3, 4),
    bonus=9,
    pieces=PIECES,
    bonus_piece=" وبركاته",
)


def answer(rounds: int, nodes: int = 12, seconds: float = 0.4) -> list[Round]:
    """The rounds of one answer; each takes so many seconds."""
    made = (random_round(nodes, seed=index % 7, index=index) for index in range(rounds))
    return [replace(each, seconds=Seconds(decode=seconds), method="specexec") for each in made]

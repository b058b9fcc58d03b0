"""How many of an answer's tokens are reasoning."""

from engine.serving.answers import Progress
from engine.text.pieces import Content, Piece, Thought


class ReasoningTokens:
    """Counts them as the rounds come. Where a round ends the reasoning, its tokens are divided by their characters."""

    def __init__(self) -> None:
        self._count = 0.0
        self._is_reasoning = False

    def __int__(self) -> int:
        return round(self._count)

    def take(self, step: Progress) -> None:
        """Count the next round. What holds no text yet belongs to what came before it."""
        thought = sum(len(piece.text) for piece in step.pieces if isinstance(piece, Thought))
        everything = thought + sum(map(_characters_of_answer, step.pieces))
        share = thought / everything if everything else float(self._is_reasoning)
        self._count += step.round.new_tokens * share
        if everything:
            self._is_reasoning = thought == everything


def _characters_of_answer(piece: Piece) -> int:
    match piece:
        case Thought():
            return 0
        case Content(text):
            return len(text)
        case _:
            return 1  # of a call: that it is one says enough

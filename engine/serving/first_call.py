"""One call of a tool in an answer, for clients that run no more than one at a time."""

from engine.text.pieces import CallArguments, CallBegun, Divider, Piece


class FirstCall:
    """A `Divider` that passes on what another one finds, without the calls behind the first."""

    def __init__(self, divider: Divider) -> None:
        self._divider = divider

    def push(self, text: str) -> list[Piece]:
        """Take more text; returns what it certainly is."""
        return _without_further_calls(self._divider.push(text))

    def flush(self) -> list[Piece]:
        """The end: returns what was held back."""
        return _without_further_calls(self._divider.flush())


def _without_further_calls(pieces: list[Piece]) -> list[Piece]:
    return [piece for piece in pieces if not isinstance(piece, CallBegun | CallArguments) or piece.place == 0]

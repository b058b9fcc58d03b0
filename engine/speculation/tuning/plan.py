"""One choice of method, size and depth, and what is expected of it."""

from dataclasses import dataclass

CHAIN = 1.25  # nodes a level, at most, of what is rather a chain than a tree


@dataclass(frozen=True, slots=True)
class Plan:
    """A choice with what is expected of it: tokens and seconds of a round, and the levels of the tree."""

    method: str
    budget: int
    depth: int
    tokens: float
    seconds: float
    levels: float = 0.0

    @property
    def is_chain(self) -> bool:
        """Whether nearly every node is expected on a level of its own."""
        return self.budget < CHAIN * self.levels

    @property
    def choice(self) -> tuple[str, int, int]:
        """Without what is expected of it."""
        return self.method, self.budget, self.depth

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0

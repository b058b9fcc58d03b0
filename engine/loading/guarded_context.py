"""A context whose passes say in words when memory runs out, and whose prefill then tries smaller passes, once."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from torch import Tensor

from engine.errors import OutOfMemory
from engine.loading.shortage import give_back_memory, shortage_of
from engine.model.context import Context
from engine.protocol.sentences import say

FEWER = 4  # times fewer tokens in a pass of a prefill, after one that was too much
HINT = say("Choose a smaller tree or a shorter context, or load the model with less memory for its layers.")

Result = TypeVar("Result")


class GuardedContext:
    """Scores as its context does. Raises `OutOfMemory`, once the memory of the failed pass is free again."""

    def __init__(self, context: Context, name: str) -> None:
        """`name`: whose passes they are, for messages."""
        self._context = context
        self._name = name

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self._context.length

    def prefill(self, tokens: Sequence[int]) -> int:
        """As `Context.prefill`. Smaller passes, where they were needed, stay for as long as the context."""
        context = self._context
        common = context.common(tokens)
        rows = min(context.prefill_rows, len(tokens) - common)
        try:
            return self._run(lambda: context.prefill(tokens), rows)
        except OutOfMemory:
            if rows <= 1:
                raise
        context.prefill_rows = max(1, rows // FEWER)
        self._run(lambda: context.prefill(tokens), context.prefill_rows)
        return common

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        """As `Context.score`."""
        return self._run(lambda: self._context.score(tokens, parents, last), len(tokens))

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """As `Context.keep`."""
        self._context.keep(nodes, rest)

    def _run(self, run: Callable[[], Result], rows: int) -> Result:
        try:
            return run()
        except Exception as error:
            shortage = shortage_of(
                error, say("a pass of {model} over {rows} tokens", model=self._name, rows=rows), HINT
            )
            if shortage is None:
                raise
        shortage = shortage.with_traceback(None)  # only here, as the error still holds the memory of the pass above
        give_back_memory()
        raise shortage

"""A `Constraint` compiled, and what may follow each of its texts: states in a tree, as paths of tokens branch."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from engine.errors import InputError, no_panic
from engine.protocol.options import Constraint
from engine.protocol.sentences import say
from engine.text.backend import complaint_of
from engine.text.grammars.trial import cannot_be_used, try_out
from engine.text.grammars.vocabulary import GrammarVocabulary

IMPOSSIBLE = b""
"""The mask of a text that the grammar does not know: there is nothing that could follow."""


class AnswerState(Protocol):
    """What an answer has said so far, and what may follow; answers that begin alike share their states."""

    @property
    def is_possible(self) -> bool:
        """Whether the answer may begin so at all."""

    def follow(self, token: int) -> "AnswerState":
        """What comes of it with one more token, allowed or not."""

    def allowed(self) -> bytes | None:
        """The tokens that may follow, a bit each, the lowest of the first byte for token 0; None where any may."""

    def settle(self) -> None:
        """The answer has come to here and will not go back; raises `InputError` where nothing can follow."""


class Free:
    """What states share in which an answer goes on as it likes."""

    __slots__ = ()
    is_possible = True

    def allowed(self) -> bytes | None:
        """Anything."""
        return None

    def settle(self) -> None:
        """Nothing to forget."""


class Grammar:
    """The constraint of one answer. Whatever the library complains of, panics included, is an `InputError`.

    A matcher of the library stands at one text at a time. To come to another it takes back what they do not share, so
    that a tree costs about as many steps as it has nodes.
    """

    def __init__(self, constraint: Constraint, vocabulary: GrammarVocabulary) -> None:
        """Raises `InputError` for what cannot be compiled or would take too much time or memory."""
        self.vocabulary = vocabulary
        try_out(constraint, vocabulary.special)
        from engine.text.grammars.trial_process import matcher_for  # noqa: PLC0415  # imports llguidance

        with _as_input_error():
            self._fresh = matcher_for(vocabulary.library, constraint.kind, constraint.text)
            if complaint := self._fresh.get_error():
                raise cannot_be_used(complaint)
            self._matcher = self._fresh.deep_copy()
        ends = sum(1 << token for token in vocabulary.end_tokens)
        self._ends = ends.to_bytes(-(-vocabulary.size // 32) * 4, "little")
        self.root = GrammarState(self, None, -1)
        self._here = self.root
        self.root.allowed()
        self.root.settle()

    def mask(self, state: "GrammarState") -> bytes:
        """What may follow, `IMPOSSIBLE` for a text that may not be; the ends of an answer, where the library gives up.

        That is said by `state.trouble`: the grammar has no text that goes on with the tokens there are, or it has
        become more complex than `limits` allow.
        """
        with _as_input_error():
            is_there = self._go_to(state)
            mask = bytes(self._matcher.compute_bitmask()) if is_there else IMPOSSIBLE
            if complaint := self._matcher.get_error():
                state.trouble = complaint_of(ValueError(complaint))
                self._begin_anew()
                return self._ends
        return mask

    def is_possible(self, state: "GrammarState") -> bool:
        """Whether the grammar has a text that begins so."""
        with _as_input_error():
            is_there = self._go_to(state)
            if self._matcher.is_error():
                self._begin_anew()
        return is_there

    def _begin_anew(self) -> None:
        """A matcher never leaves an error."""
        self._matcher, self._here = self._fresh.deep_copy(), self.root

    def _go_to(self, state: "GrammarState") -> bool:
        """Bring the matcher to the text of this state; False where it gets no further than before a wrong token."""
        behind: list[GrammarState] = []
        above, back = state, self._here
        while above is not back:
            if above.parent and above.depth >= back.depth:
                behind.append(above)
                above = above.parent
            else:
                assert back.parent, "all states of a grammar stand below its root"
                back = back.parent
        if self._here.depth > above.depth:
            self._matcher.rollback(self._here.depth - above.depth)
        behind.reverse()
        consumed = self._matcher.try_consume_tokens([each.token for each in behind])
        self._here = behind[consumed - 1] if consumed else above
        return self._here is state


@contextmanager
def _as_input_error() -> Iterator[None]:
    """Whatever the library raises, as an `InputError`."""
    try:
        with no_panic():
            yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise cannot_be_used(str(error)) from error


class GrammarState:
    """A text of the grammar's, by the tokens that wrote it."""

    __slots__ = ("_grammar", "_mask", "_states", "depth", "parent", "token", "trouble")

    def __init__(self, grammar: Grammar, parent: "GrammarState | None", token: int) -> None:
        """`parent`: what it was before `token`."""
        self.parent = parent
        self.token = token
        self.depth: int = parent.depth + 1 if parent else 0
        self.trouble = ""
        self._grammar = grammar
        self._states: dict[int, AnswerState] = {}
        self._mask: bytes | None = None

    @property
    def is_possible(self) -> bool:
        """Whether the grammar has a text that begins so."""
        return self._mask != IMPOSSIBLE if self._mask is not None else self._grammar.is_possible(self)

    def follow(self, token: int) -> AnswerState:
        """The text with one more token; behind an end of the answer there is no grammar."""
        found = self._states.get(token)
        if found is None:
            is_end = token in self._grammar.vocabulary.end_tokens
            found = self._states[token] = ANYTHING if is_end else GrammarState(self._grammar, self, token)
        return found

    def allowed(self) -> bytes | None:
        """As `Grammar.mask`; None where the text itself is none of the grammar's."""
        if self._mask is None:
            lost = self.parent is not None and self.parent._mask == IMPOSSIBLE
            self._mask = IMPOSSIBLE if lost else self._grammar.mask(self)
        return self._mask or None

    def settle(self) -> None:
        """Forget what was beside this text. Raises `InputError` where it leads no further."""
        assert self._mask != IMPOSSIBLE, "only what is allowed is said"
        if self.trouble:
            words = say("The answer cannot go on under its constraint: {reason}.", reason=self.trouble)
            raise InputError(words, say("Give a simpler constraint."))
        state = self
        while (above := state.parent) and (above._mask or len(above._states) > 1):
            above._states, above._mask = {state.token: state}, None
            state = above


class Unconstrained(Free):
    """A text of which nothing more is asked."""

    def __init__(self, *, is_possible: bool) -> None:
        """`is_possible`: whether the answer may begin so."""
        self.is_possible = is_possible

    def follow(self, token: int) -> AnswerState:
        """The same."""
        del token
        return self


ANYTHING = Unconstrained(is_possible=True)
NOTHING = Unconstrained(is_possible=False)

"""Where a grammar of calls holds: behind the mark of one in free text, or beside another form. States, as its own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.protocol.options import CallMark
from engine.text.grammars.grammar import NOTHING, AnswerState, Free
from engine.text.grammars.reasoning_first import Masks


class CallMarks:
    """What begins a call in one answer, and the state of the calls' grammar behind each."""

    def __init__(self, masks: Masks, marks: Iterable[tuple[CallMark, AnswerState]], special: Mapping[str, int]) -> None:
        """`special`: the ids of control tokens by name, which are no text."""
        begun = list(marks)
        self.masks = masks
        self.tokens = {special[mark.text]: state for mark, state in begun if mark.text in special}
        texts = [(mark.text.encode(), mark.place, state) for mark, state in begun if mark.text not in special]
        self.anywhere = {text: state for text, place, state in texts if place == "anywhere"}
        self.first = {text: state for text, place, state in texts if place == "first"}
        self.nearing = masks.nearing(tuple(self.anywhere))
        self.plain = FreeText(self)
        self._wrong: dict[tuple[bytes, bool], bytes | None] = {}

    def found(self, text: bytes, *, is_first: bool) -> tuple[bytes, AnswerState] | None:
        """What stands behind the first mark of a text, and the state there."""
        if is_first:
            said = text.lstrip()
            for mark, state in self.first.items():
                if said.startswith(mark):
                    return said[len(mark) :], state
        places = [(place, mark) for mark in self.anywhere if (place := text.find(mark)) >= 0]
        if not places:
            return None
        place, mark = min(places)
        return text[place + len(mark) :], self.anywhere[mark]

    def wrong(self, tail: bytes, *, is_first: bool) -> bytes | None:
        """Every token but those that complete a mark and go on with what no call has there; None for all."""
        if (tail, is_first) not in self._wrong:
            begun = [
                (mark, known) for mark in self.anywhere for known in range(len(mark)) if tail.endswith(mark[:known])
            ]
            said = tail.lstrip()
            begun += [(mark, len(said)) for mark in self.first if is_first and mark.startswith(said)]
            ends = {token for each in begun for token in self.masks.closing(*each)}
            free = FreeText(self, tail, is_first)
            wrong = [token for token in ends if not free.follow(token).is_possible]
            self._wrong[tail, is_first] = self.masks.all_but(wrong) if wrong else None
        return self._wrong[tail, is_first]


@dataclass(frozen=True, slots=True, eq=False)
class FreeText(Free):
    """An answer that has not called anything yet; `tail`: the last of it, which may be the beginning of a mark.

    `is_first`: the whole answer may be that. What a token writes behind a mark belongs to the call.
    """

    calls: CallMarks = field(repr=False)
    tail: bytes = b""
    is_first: bool = False

    def follow(self, token: int) -> AnswerState:
        """A mark begins the call; most tokens come nowhere near one."""
        calls = self.calls
        if not self.is_first and not self.tail and token not in calls.nearing:
            return calls.tokens.get(token, calls.plain)
        if token in calls.tokens:
            return calls.tokens[token]
        text = self.tail + calls.masks.vocabulary.spelled.get(token, b"")
        if found := calls.found(text, is_first=self.is_first):
            rest, state = found
            return calls.masks.behind(state, rest)
        said = text.lstrip()
        if self.is_first and any(mark.startswith(said) for mark in calls.first):
            return FreeText(calls, text, is_first=True)
        longest = max(map(len, calls.anywhere), default=1) - 1
        tails = (text[-size:] for size in range(min(longest, len(text)), 0, -1))
        tail = next((tail for tail in tails if any(mark.startswith(tail) for mark in calls.anywhere)), b"")
        return FreeText(calls, tail) if tail else calls.plain

    def allowed(self) -> bytes | None:
        """Anything, but for a mark with what no call goes on with in the same token."""
        return self.calls.wrong(self.tail, is_first=self.is_first)


@dataclass(frozen=True, slots=True, eq=False)
class Either:
    """Any of several forms, until the text tells which."""

    masks: Masks
    forms: Sequence[AnswerState]

    @property
    def is_possible(self) -> bool:
        """Whether one of them may begin so."""
        return any(form.is_possible for form in self.forms)

    def follow(self, token: int) -> AnswerState:
        """Those that it fits."""
        forms = [form for form in (form.follow(token) for form in self.forms) if form.is_possible]
        return forms[0] if len(forms) == 1 else Either(self.masks, forms) if forms else NOTHING

    def allowed(self) -> bytes | None:
        """What one of them goes on with."""
        each = [form.allowed() for form in self.forms if form.is_possible]
        known = [mask for mask in each if mask is not None]
        return self.masks.union(known) if known and len(known) == len(each) else None

    def settle(self) -> None:
        """Each of them has come to here."""
        for form in self.forms:
            form.settle()

"""How a format writes its calls: what stands before, between and behind names and arguments."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.protocol.tools import ToolCall
from engine.text.tools.tagged import Tagged

HARMONY_MARK = "<|channel|>commentary to="
HARMONY_END = " <|constrain|>json<|message|>"
HARMONY_CALL = f"{HARMONY_MARK}functions.{{name}}{HARMONY_END}"
PLACE = "{place}"  # stands for a number that counts the calls of an answer


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """`begin`, then for every call `before` name `middle` arguments `after`, with `between` in between, and `end`.

    `tags`: how each argument is written, where arguments are no JSON. `alone`: an answer has one call at most.
    """

    begin: str
    before: str
    middle: str
    after: str
    between: str = ""
    end: str = ""
    tags: Tagged | None = None
    alone: bool = False

    def text(self, calls: Iterable[ToolCall]) -> str:
        """Calls as an answer has them; only for a format whose arguments are JSON."""
        assert self.tags is None, "arguments are written as JSON"
        each = []
        for place, call in enumerate(calls):
            before, middle = (part.replace(PLACE, str(place)) for part in (self.before, self.middle))
            each.append(f"{before}{call.name}{middle}{call.arguments or '{}'}{self.after}")
        return f"{self.begin}{self.between.join(each)}{self.end}" if each else ""

"""How a format writes its calls: what stands before, between and behind names and arguments."""

from dataclasses import dataclass

from engine.text.tools.tagged import Tagged

HARMONY_MARK = "<|channel|>commentary to="
PLACE = "{place}"  # stands for a number that counts the calls of an answer


@dataclass(frozen=True, slots=True)
class Written:
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

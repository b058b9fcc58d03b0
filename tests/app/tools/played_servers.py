"""In place of the program that holds connections: a server does what its command says. The standard library only."""

import os
import sys

from engine.protocol.sentences import say
from engine.protocol.tool_servers import (
    Answered,
    Broken,
    Call,
    Connect,
    Drop,
    Listed,
    ProgramServer,
    Progressed,
    Report,
    ToolFacts,
    Unable,
    from_line,
    to_line,
)

TOOLS = (ToolFacts("echo", "Echo", "Says it again.", '{"type": "object"}', True), ToolFacts("other"))


def tell(report: Report) -> None:
    """A report to the window."""
    sys.stdout.buffer.write(to_line(report))
    sys.stdout.buffer.flush()


def connect(order: Connect) -> None:
    """`fine` is one; others fail in a way of their own."""
    assert isinstance(order.to, ProgramServer)
    match order.to.command:
        case "dies":
            tell(Broken(order.server, say("It died."), say("Feed it."), ("no food",)))
        case "refuses":
            tell(Broken(order.server, say("It refuses."), may_pass=False))
        case "missing":
            tell(Unable(say("The engine is too old."), say("Update it.")))
            sys.exit()
        case "rubbish":
            sys.stdout.write("rubbish\n")
            sys.stdout.flush()
        case "silent":
            pass
        case _:
            tell(Listed(order.server, TOOLS))


def call(order: Call) -> None:
    """`echo` answers with its arguments; what else is wanted is in them."""
    if "exit" in order.arguments:
        os._exit(1)
    if "break" in order.arguments:
        tell(Broken(order.server, say("It broke.")))
    if "change" in order.arguments:
        tell(Listed(order.server, TOOLS[:1], 3))
    if "wait" in order.arguments:
        tell(Progressed(order.number, 1, 2, "half"))
    else:
        picture = say("[picture, {kind}, {size}]", kind="image/png", size="1 B")
        tell(Answered(order.number, (order.arguments, picture), False, 0.5))


def main() -> None:
    """Until the input ends."""
    for line in sys.stdin.buffer:
        match from_line(line):
            case Connect() as order:
                connect(order)
            case Call() as order:
                call(order)
            case Drop(number):
                tell(Answered(number, (say("The call was stopped."),), True))


if __name__ == "__main__":
    main()

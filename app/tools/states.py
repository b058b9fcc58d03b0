"""How a server stands."""

from dataclasses import dataclass
from enum import Enum

from engine.protocol.tool_servers import ToolFacts


class Phase(Enum):
    """`WAITING`: it has failed, and is tried again after a pause. `FAILED`: it waits for a person."""

    OFF = "off"
    CONNECTING = "connecting"
    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ServerState:
    """`message` and `hint` say why it failed; `lines`: the last ones of its error output.

    `left_out`: how many tools are not offered because they are too many or too large.
    """

    phase: Phase = Phase.OFF
    message: str = ""
    hint: str = ""
    lines: tuple[str, ...] = ()
    tools: tuple[ToolFacts, ...] = ()
    left_out: int = 0

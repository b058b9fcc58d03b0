"""What a chat knows of tools: those that can be called now, and what a call came to."""

from dataclasses import dataclass
from typing import Protocol

from PySide6.QtCore import SignalInstance


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of a server that is on.

    `function`: its name for models, of letters, digits, `_` and `-`, at most 64, unlike those of all other tools that
    are offered; `server` and `name`: as people know them. `parameters`: the JSON schema of its arguments, as JSON.
    `changes_nothing`: its server says that a call only reads. All but `function` comes from a server and is not to be
    trusted: it is plain text, and what it says of itself may be untrue.
    """

    function: str
    server: str
    name: str
    description: str = ""
    parameters: str = "{}"
    changes_nothing: bool = False


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call came to, as text for the model; `is_error`: it failed, and the text says why."""

    text: str
    is_error: bool = False
    seconds: float = 0.0


class Toolbox(Protocol):
    """All tools of the servers that are on. Methods belong to the window's thread and return at once."""

    @property
    def tools_changed(self) -> SignalInstance:
        """`tools` are others than before."""

    @property
    def answered(self) -> SignalInstance:
        """A call ended: its number, and the `ToolResult`. Every call ends so once, also one that was cancelled."""

    @property
    def progressed(self) -> SignalInstance:
        """How far a call is: its number, how much is done, of how much (0: unknown), and the server's own words."""

    @property
    def tools(self) -> tuple[OfferedTool, ...]:
        """What may be called now, in the order of the servers."""

    def call(self, function: str, arguments: str) -> int:
        """Call a tool, by its name for models, with a JSON object as a model wrote it; returns the call's number.

        What is no JSON object, and a tool that is not there, are results that say so.
        """

    def cancel(self, number: int) -> None:
        """Stop waiting for a call, if it is still under way, and tell the server."""

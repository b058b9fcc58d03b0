"""What the window and the program that holds connections to MCP servers say to each other: lines of JSON.

The protocol between that program and the servers is https://modelcontextprotocol.io, and no matter of this file.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from engine.protocol.sentences import from_json, to_json

MOST_LINE_BYTES = 96 << 20
"""Of one line in either direction: 128 tools with schemas, or the arguments of a call."""


@dataclass(frozen=True, slots=True)
class ProgramServer:
    """A server that is a program on this computer, spoken to over its input and output.

    `environment` is added to the few variables that every such program gets; `folder`: where it starts, empty for
    wherever its starter is.
    """

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""


@dataclass(frozen=True, slots=True)
class WebServer:
    """A server at an address, over Streamable HTTP or, with `kind` "sse", the older HTTP with server-sent events.

    Without a `kind` both are tried. `may_be_plain`: a person has agreed to `http://` to another computer.
    """

    address: str
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""
    may_be_plain: bool = False


@dataclass(frozen=True, slots=True)
class Connect:
    """Connect to a server, anew if it is connected; answered by `Listed` or `Broken`."""

    server: str
    to: ProgramServer | WebServer


@dataclass(frozen=True, slots=True)
class Disconnect:
    """End the connection to a server, and its process; nothing more is heard of it."""

    server: str


@dataclass(frozen=True, slots=True)
class Call:
    """Call a tool with a JSON object; answered by one `Answered`, before which `Progressed` may come."""

    number: int
    server: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Stop waiting for a call, and tell its server."""

    number: int


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What a server says of a tool. Nothing of it is to be trusted; `parameters` is a JSON schema, as JSON."""

    name: str
    title: str = ""
    description: str = ""
    parameters: str = "{}"
    changes_nothing: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """A server is connected, or its tools have changed. `left_out`: how many are not told, too large or too many."""

    server: str
    tools: tuple[ToolFacts, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Broken:
    """A connection could not be made, or has ended. `reason` and `hint` are sentences.

    `lines`: the last ones that the server wrote to its error output. `may_pass`: another try may succeed.
    """

    server: str
    reason: str
    hint: str = ""
    lines: tuple[str, ...] = ()
    may_pass: bool = True


@dataclass(frozen=True, slots=True)
class Progressed:
    """How far a call is; `total` is 0 where nobody knows, `words` are the server's own."""

    number: int
    done: float
    total: float = 0.0
    words: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """A call is over. `parts` are texts of the server and sentences of ours, each a paragraph."""

    number: int
    parts: tuple[str, ...]
    is_error: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Unable:
    """This Python cannot hold connections; the program ends."""

    reason: str
    hint: str = ""


Order = Connect | Disconnect | Call | Drop
Report = Listed | Broken | Progressed | Answered | Unable

_KINDS: Mapping[str, type[Any]] = {
    kind.__name__: kind for kind in (Connect, Disconnect, Call, Drop, Listed, Broken, Progressed, Answered, Unable)
}


def to_line(message: Order | Report) -> bytes:
    """The message as a line of ASCII, with its end."""
    said: dict[str, Any] = asdict(message)
    match message:
        case Connect():
            said["to"]["is"] = type(message.to).__name__
        case Broken() | Unable():
            said |= {"reason": to_json(message.reason), "hint": to_json(message.hint)}
        case Answered():
            said["parts"] = [to_json(each) for each in message.parts]
    return json.dumps({"is": type(message).__name__, **said}).encode("ascii") + b"\n"


def from_line(line: bytes) -> Order | Report:
    """What `to_line` made it of. Raises `ValueError` for anything else."""
    try:
        said = json.loads(line)
        kind = _KINDS[said.pop("is")]
        return _made(kind, said)  # type: ignore[no-any-return]
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("it is no message") from error


def _made(kind: type[Any], said: dict[str, Any]) -> Any:
    if kind is Connect:
        to = said.pop("to")
        is_program = to.pop("is") == ProgramServer.__name__
        if is_program:
            to["arguments"] = tuple(to["arguments"])
        return Connect(**said, to=ProgramServer(**to) if is_program else WebServer(**to))
    if kind is Listed:
        said["tools"] = tuple(ToolFacts(**each) for each in said["tools"])
    elif kind is Broken:
        said["lines"] = tuple(said["lines"])
    elif kind is Answered:
        said["parts"] = tuple(from_json(each) for each in said["parts"])
    if kind in (Broken, Unable):
        said |= {"reason": from_json(said["reason"]), "hint": from_json(said["hint"])}
    return kind(**said)


def is_address(text: str) -> bool:
    """Whether it is an address of the web, with a host and without a name or password in it."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    is_printable = text.isprintable() and " " not in text
    return is_printable and parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def is_plain(address: str) -> bool:
    """Whether what is sent there could be read on its way: `http://` to another computer."""
    parts = urlsplit(address)
    if parts.scheme != "http":
        return False
    host = parts.hostname or ""
    if host == "localhost":
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True

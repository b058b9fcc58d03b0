"""What is said of a server that is to be started or asked."""

from app.i18n.translation import tr
from app.system.plain_text import marked, unsteered
from app.tools.entry import ToolServer
from app.tools.states import Phase, ServerState
from engine.protocol.tool_servers import ProgramServer

_MOST_SHOWN = 1500  # characters


def begins(server: ToolServer) -> str:
    """What switching it on does: the whole command line with its variables, or the address. See `is_shown_whole`."""
    text = _begins(server)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def is_shown_whole(server: ToolServer) -> bool:
    """Whether `begins` leaves nothing out. Nobody can agree to what is not shown."""
    return len(_begins(server)) <= _MOST_SHOWN


def too_long() -> str:
    """What becomes of a server that is not shown whole."""
    return tr("It is too long to be shown whole here, and stays off. Read it under “Edit…”, and switch it on there.")


def _begins(server: ToolServer) -> str:
    to = server.to
    if not isinstance(to, ProgramServer):
        names = ", ".join(unsteered(each) for each in to.headers)
        asked = tr("Asks: {address}").format(address=marked(to.address))
        return f"{asked}\n{tr('With headers: {names}').format(names=names)}" if names else asked
    lines = [tr("Starts: {command}").format(command=marked(server.described))]
    if to.folder:
        lines.append(tr("In the folder: {folder}").format(folder=marked(to.folder)))
    if to.environment:
        values = " ".join(f"{name}={value}" for name, value in to.environment.items())
        lines.append(tr("With variables: {variables}").format(variables=marked(values)))
    return "\n".join(lines)


def rights() -> str:
    """What it means to run a program."""
    return tr(
        "It runs as a program with your rights: it can read and change what you can, and use the network. "
        "Start only what you trust."
    )


def described(state: ServerState) -> str:
    """How a server stands, in a few words."""
    match state.phase:
        case Phase.OFF:
            return tr("Off")
        case Phase.CONNECTING:
            return tr("Connecting…")
        case Phase.READY:
            return tr("Ready, %n tools", n=len(state.tools))
        case Phase.WAITING:
            return tr("Failed, is tried again")
        case Phase.FAILED:
            return tr("Failed")

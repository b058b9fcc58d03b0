"""What is said of the local server: how it stands, and what becomes of each request."""

from app.engine.steps import MOST
from app.i18n.number_text import Number
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.server.controller import Phase, ServerState
from app.server.visits import Entry, Traffic
from engine.protocol.serving import LOOPBACK

TITLES = {
    Phase.OFF: mark("The server is off"),
    Phase.KEY: mark("Looking for the server's key in the keyring…"),
    Phase.ENGINE: mark("The server waits for the engine"),
    Phase.STARTING: mark("The server is starting…"),
    Phase.ON: mark("The server is on"),
    Phase.STOPPING: mark("The server is being switched off…"),
    Phase.FAILED: mark("The server is not running"),
}
_WHAT_FOR = mark(
    "Editors, scripts and other computers can ask the models that are loaded here, through the APIs of OpenAI, "
    "Anthropic and Ollama."
)


def describe(state: ServerState) -> str:
    """Who may ask now; while the server is off, what it is good for; after a failure, why."""
    if state.phase is Phase.FAILED:
        return translated(state.message, state.hint)
    if state.phase is not Phase.ON or state.options is None:
        return tr(_WHAT_FOR)
    if state.options.host not in LOOPBACK:
        return tr("Everyone in the network who has the key can ask the models.")
    if state.options.api_key:
        return tr("Programs on this computer that have the key can ask the models.")
    return tr("Every program on this computer can ask the models.")


def state_of(entry: Entry) -> str:
    """How a request stands, in words."""
    visit = entry.visit
    match visit.state:
        case "waiting":
            return tr("Waiting, %n before it", n=min(visit.ahead, MOST)) if visit.ahead > 0 else tr("Waiting")
        case "answering":
            return tr("Answering")
        case "failed":
            status = f" {visit.status}" if visit.status else ""
            return tr("Failed{status}: {reason}").format(status=status, reason=translated(visit.words))
        case "gone":
            return tr("The client left, or was cut off")
        case _:
            return tr("Done")


def tokens_of(entry: Entry) -> str:
    """Tokens read and written, such as `120 → 45`; empty for what has none."""
    visit = entry.visit
    if visit.prompt_tokens <= 0 and visit.new_tokens <= 0:
        return ""
    return f"{Number(visit.prompt_tokens):,} → {Number(visit.new_tokens):,}"


def rate_of(entry: Entry) -> str:
    """Tokens a second since the request came; empty where none were written."""
    visit = entry.visit
    if visit.new_tokens <= 0 or not visit.seconds > 0:
        return ""
    return f"{Number(visit.new_tokens / visit.seconds):.1f}"


def seconds_of(entry: Entry) -> str:
    """How long it has taken; empty where that is not told yet."""
    seconds = entry.visit.seconds
    return f"{Number(seconds):{'.1f' if seconds >= 1 else '.2f'}} s" if seconds > 0 else ""


def traffic_words(traffic: Traffic) -> str:
    """Such as `Server: 1 client, 2 waiting`, short enough for the status bar."""
    if not traffic.clients:
        return tr("Server: on")
    clients = tr("Server: %n clients", n=traffic.clients)
    return clients + (tr(", %n waiting", n=traffic.waiting) if traffic.waiting else "")

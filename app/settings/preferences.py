"""Every option of Preferences, declared once: type, default, legal range, name, help and when it takes effect."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from app.i18n.wording import mark
from app.settings.kinds import Choice, Decimal, Effect, Folder, Folders, Switch, Text, Whole
from engine.protocol.serving import DEFAULT_HOST, DEFAULT_PORT, is_origin

APPEARANCE, CHAT, MODELS, MEMORY = "appearance", "chat", "models", "memory"
SPECULATION, NETWORK, TOOLS, SERVER, ADVANCED = "speculation", "network", "tools", "server", "advanced"

EVERYWHERE = "0.0.0.0"  # noqa: S104  # every address of this computer; never without a key

TINT_OFF, TINT_ORIGIN, TINT_CHANCE = "off", "origin", "chance"

_MOST_GB = 16384.0


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises for what is no number
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and " " not in text


def web_origins(text: str) -> tuple[str, ...]:
    """The origins that a person has written, with spaces or commas between them; browsers send lower case."""
    return tuple(each.rstrip("/").lower() for each in text.replace(",", " ").split())


def _are_origins(text: str) -> bool:
    return all(each == "*" or is_origin(each) for each in web_origins(text))


def _memory_limit(title: str) -> Decimal:
    return Decimal(
        page=MEMORY,
        title=title,
        help=mark("The most that is taken of it, for models that have no limit of their own."),
        effect=Effect.RELOAD,
        smallest=0.0,
        largest=_MOST_GB,
        unit=" GB",
        smallest_means=mark("What is free"),
    )


@dataclass(frozen=True, slots=True)
class Preferences:
    """What a person has set in Preferences. Limits are in 1e9 bytes, 0 for what is free; an empty folder is ours."""

    theme: str = Choice(
        page=APPEARANCE,
        title=mark("Theme"),
        help=mark("Light or dark; or whatever the system says, also while the window is open."),
        choices=(("system", mark("As the system")), ("light", mark("Light")), ("dark", mark("Dark"))),
    ).default("system")
    high_contrast: bool = Switch(
        page=APPEARANCE,
        title=mark("High contrast"),
        help=mark("Black on white or white on black, with strong borders and a thick frame around what has the focus."),
    ).default(False)
    text_size: int = Whole(
        page=APPEARANCE,
        title=mark("Text size"),
        help=mark("The size of the font everywhere, compared with the system's."),
        smallest=70,
        largest=250,
        step=10,
        unit=mark("%"),
    ).default(100)
    reduce_motion: bool = Switch(
        page=APPEARANCE,
        title=mark("Reduce motion"),
        help=mark(
            "Trees and panes change at once instead of moving, also if the system wants that. Whether an answer's "
            "text appears evenly is set for chats."
        ),
    ).default(False)
    language: str = Choice(
        page=APPEARANCE,
        title=mark("Language"),
        help=mark("The language of menus, buttons and messages. Models answer in whatever language they are asked in."),
        effect=Effect.RESTART,
        choices=(("system", mark("As the system")), ("en", "English"), ("de", "Deutsch")),
    ).default("system")
    send_key: str = Choice(
        page=CHAT,
        title=mark("Send with"),
        help=mark("The key that sends a message. The other one begins a new line, and so does Shift+Enter."),
        choices=(("return", mark("Enter")), ("ctrl-return", mark("Ctrl+Enter"))),
    ).default("return")
    autoscroll: bool = Switch(
        page=CHAT,
        title=mark("Scroll along with an answer"),
        help=mark("Only while you are at the end of the conversation; reading further up is never disturbed."),
    ).default(True)
    smooth: bool = Switch(
        page=CHAT,
        title=mark("Show answers evenly"),
        help=mark(
            "A pass of the target brings several words at once; they appear one after the other until the next "
            "pass is done, never later. Off, they appear as they come."
        ),
    ).default(True)
    token_tint: str = Choice(
        page=CHAT,
        title=mark("Tint of tokens"),
        help=mark(
            "Colours the ground of an answer's tokens, never in code: by whose idea they were, the draft's or the "
            "target's, or by how likely the target found them. Point at a token for its figures."
        ),
        choices=(
            (TINT_OFF, mark("None")),
            (TINT_ORIGIN, mark("By origin: draft or target")),
            (TINT_CHANCE, mark("By probability")),
        ),
    ).default(TINT_OFF)
    model_folders: tuple[str, ...] = Folders(
        page=MODELS,
        title=mark("Model folders"),
        help=mark(
            "Folders with models in the usual format, one level deep. My models in the Models window lists them."
        ),
    ).default(())
    prepared_folder: str = Folder(
        page=MODELS,
        title=mark("Prepared models and caches"),
        help=mark("Packed layers that are streamed lie here: they can be as large as the models, and want a fast SSD."),
        effect=Effect.RESTART,
        otherwise=mark("the platform's cache folder"),
    ).default("")
    place: str = Choice(
        page=MEMORY,
        title=mark("Where layers go"),
        help=mark(
            "For models that no place was chosen for in the Models window. "
            "Automatic takes the fastest place that has room."
        ),
        effect=Effect.RELOAD,
        choices=(
            ("auto", mark("Automatic")),
            ("device", mark("GPU memory")),
            ("ram", mark("RAM")),
            ("ssd", mark("SSD")),
        ),
    ).default("auto")
    vram_limit_gb: float = _memory_limit(mark("Limit of GPU memory")).default(0.0)
    ram_limit_gb: float = _memory_limit(mark("Limit of RAM")).default(0.0)
    keep_texts: bool = Switch(
        page=MEMORY,
        title=mark("Keep what chats have read on disk"),
        help=mark(
            "A long chat of yesterday goes on at once: what the model knew of it is read from the disk. Only you "
            "can read it there, and it goes with the chat. Off, what was kept is deleted."
        ),
    ).default(True)
    keep_limit_gb: float = Decimal(
        page=MEMORY,
        title=mark("Disk for what chats have read"),
        help=mark(
            "What was of no use for longest makes way. Automatic takes a twentieth of what is free, at most 8 GB."
        ),
        smallest=0.0,
        largest=_MOST_GB,
        unit=" GB",
        smallest_means=mark("Automatic"),
    ).default(0.0)
    overlap: bool = Switch(
        page=SPECULATION,
        title=mark("Guess while layers are awaited"),
        help=mark("The draft works while layers of the target are on their way; off is only for comparisons."),
        effect=Effect.RELOAD,
    ).default(True)
    lookup: bool = Switch(
        page=SPECULATION,
        title=mark("Guess repetitions of the text"),
        help=mark("Adds branches to the tree that repeat what the conversation said before, as in code or quotations."),
        effect=Effect.NEXT_ANSWER,
    ).default(True)
    calibrate: bool = Switch(
        page=SPECULATION,
        title=mark("Learn which guesses are accepted"),
        help=mark("Ranks guesses by how often such ones were accepted, not by what the draft says of them."),
        effect=Effect.NEXT_ANSWER,
    ).default(True)
    offline: bool = Switch(
        page=NETWORK,
        title=mark("Stay offline"),
        help=mark("Nothing is asked of the model hub; models on this computer work as always."),
    ).default(False)
    proxy: str = Text(
        page=NETWORK,
        title=mark("Proxy"),
        help=mark(
            "For searches and downloads. Empty means the one of the system, if there is one. "
            "A password in it is kept in the system's keyring."
        ),
        is_legal=_is_web_address,
        form=mark("an address such as http://proxy.example:3128"),
        example="http://proxy.example:3128",
    ).default("")
    endpoint: str = Text(
        page=NETWORK,
        title=mark("Address of the model hub"),
        help=mark("A mirror of the hub, or one of your own. Empty means the public one."),
        is_legal=_is_web_address,
        form=mark("an address such as https://hub.example"),
        example="https://huggingface.co",
    ).default("")
    news_address: str = Text(
        page=NETWORK,
        title=mark("News of versions"),
        help=mark(
            "A file that says which version is the newest, asked for at every start. Empty means never; "
            "nothing is downloaded or sent."
        ),
        effect=Effect.RESTART,
        is_legal=_is_web_address,
        form=mark("an address such as https://news.example/coppice.json"),
        example="https://news.example/coppice.json",
    ).default("")
    server_host: str = Choice(
        page=SERVER,
        title=mark("Who may ask"),
        help=mark("Others in the network can ask only with a key, which you give them."),
        choices=((DEFAULT_HOST, mark("This computer only")), (EVERYWHERE, mark("Everyone in the network"))),
    ).default(DEFAULT_HOST)
    server_port: int = Whole(
        page=SERVER,
        title=mark("Port"),
        help=mark("The number behind the colon of the address. No two programs can have the same."),
        smallest=1,
        largest=65535,
    ).default(DEFAULT_PORT)
    server_origins: str = Text(
        page=SERVER,
        title=mark("Web pages that may ask"),
        help=mark(
            "Programs need no entry here. A page in a browser may ask only if its origin is written here, or if "
            "there is a * for all of them."
        ),
        is_legal=_are_origins,
        form=mark("addresses such as http://localhost:3000, with spaces between them"),
        example="http://localhost:3000",
    ).default("")
    server_at_start: bool = Switch(
        page=SERVER, title=mark("Start with Coppice"), help=mark("Switches the server on whenever Coppice is opened.")
    ).default(False)
    log_level: str = Choice(
        page=ADVANCED,
        title=mark("Log"),
        help=mark("How much is written into the log. What is said in chats is never written into it."),
        choices=(("warning", mark("Problems only")), ("info", mark("Normal")), ("debug", mark("Everything"))),
    ).default("info")

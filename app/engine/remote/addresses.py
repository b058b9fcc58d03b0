"""Where engines elsewhere are: addresses as people write them, a model behind one, and where a key may travel."""

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from engine.errors import InputError
from engine.protocol.sentences import Sentence, say

if TYPE_CHECKING:
    from app.engine.remote.servers import RemoteModel

COPPICE, VLLM, SGLANG, LLAMA, LM_STUDIO, OLLAMA = "Coppice", "vLLM", "SGLang", "llama.cpp", "LM Studio", "Ollama"
OTHER = ""  # any other that speaks as OpenAI's does

_LONGEST = 500
_SUFFIXES = ("/chat/completions", "/completions", "/models", "/v1")  # what people copy along with an address
_LOCAL_NAMES = (".local", ".lan", ".internal", ".home.arpa", ".localhost")


@dataclass(frozen=True, slots=True)
class Place:
    """One model of an engine elsewhere.

    `context_tokens` is 0 where it is not known; `kind`: one of those above; `draft`, `reads_pictures`: see
    `RemoteModel`.
    """

    address: str
    model: str
    kind: str = ""
    context_tokens: int = 0
    draft: str = ""
    reads_pictures: bool = True

    @property
    def name(self) -> str:
        """What the model is called, without the folders of a server that names it by its file."""
        is_path = self.model.startswith(("/", "\\")) or self.model[1:3] in (":\\", ":/")
        return (is_path and re.split(r"[/\\]", self.model)[-1]) or self.model


def place_of(address: str, kind: str, model: "RemoteModel") -> Place:
    """A model that was found at an address."""
    return Place(address, model.name, kind, model.context_tokens, model.draft, model.reads_pictures)


def normalised(written: str) -> str:
    """The address without what every request adds: `http://host:8000` for `host:8000/v1`. Raises `InputError`.

    Without a scheme, encryption is expected of hosts on the internet alone.
    """
    text = written.strip()
    if not text or len(text) > _LONGEST or any(not each.isprintable() or each.isspace() for each in text):
        raise _unusable(text)
    if "://" not in text:
        text = f"{'http' if _is_near(_host_of(f'http://{text}')) else 'https'}://{text}"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _unusable(written) from None
    if parts.scheme not in ("http", "https") or not host:
        raise _unusable(written)
    if parts.username or parts.password:
        raise InputError(
            say("The address holds a name or a password."), say("Leave them out; the key has a field of its own.")
        )
    path = parts.path.rstrip("/")
    for suffix in _SUFFIXES:
        path = path.removesuffix(suffix)
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}{path}"


def host_of(address: str) -> str:
    """The host as people know it, with its port if the address names one; empty for what is no address."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port}" if port else shown


def key_warning(address: str) -> Sentence | None:
    """What to say where a key would travel without encryption; None where nobody on the way can read it."""
    if urlsplit(address).scheme == "https" or _is_loopback(_host_of(address)):
        return None
    return say(
        "The connection is not encrypted: everybody in {host}'s network can read the key and the chats.",
        host=_host_of(address),
    )


def may_carry_key(address: str, peer: str) -> bool:
    """Whether the key may go to the IP address `peer`, which `address` led to: encrypted, or within our own network."""
    return urlsplit(address).scheme == "https" or _is_number_within(peer)


def _is_near(host: str) -> bool:
    """Whether a host is most likely within our own network, by its name or number."""
    return _is_number_within(host) or "." not in host.strip(".") or host.endswith(_LOCAL_NAMES)


def _is_number_within(host: str) -> bool:
    """Also one that is neither private nor global: of 100.64.0.0/10, which Tailscale gives to the own computers."""
    try:
        return not ipaddress.ip_address(host.partition("%")[0]).is_global
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _host_of(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _unusable(address: str) -> InputError:
    words = say("The address of the engine cannot be used: {address}.", address=address[:80] or say("it is empty"))
    return InputError(words, say("Give one like http://192.168.0.7:8000 or https://example.org."))

"""How the hub is reached, as Preferences have it: told to everything that asks the hub, through the environment."""

import sys
from collections.abc import MutableMapping

from app.settings.preferences import Preferences

_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY")
_PUBLIC = "https://huggingface.co"


class Network:
    """Sets the variables that the hub's clients read, and takes them back; the next request finds them.

    What the environment says already wins: it was set for this one start. The hub's own library reads its
    variables when it is imported, which may be over: then it is told as well.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._environment = environment
        self._told: dict[str, str] = {}

    def tell(self, preferences: Preferences) -> None:
        """Let what is set hold from now on, and no longer what was told before."""
        before, given = self._told, {name: each for name, each in self._environment.items() if name not in self._told}
        self._told = {name: each for name, each in _wanted(preferences, given).items() if name not in given}
        for name in before.keys() - self._told.keys():
            self._environment.pop(name, None)
        self._environment.update(self._told)
        if before != self._told:
            self._tell_library(before.keys() | self._told.keys())

    def _tell_library(self, changed: set[str]) -> None:
        constants = sys.modules.get("huggingface_hub.constants")
        if constants is not None and "HF_ENDPOINT" in changed:
            constants.ENDPOINT = self._environment.get("HF_ENDPOINT", _PUBLIC)  # type: ignore[attr-defined]
        if constants is not None and "HF_HUB_OFFLINE" in changed:
            constants.HF_HUB_OFFLINE = "HF_HUB_OFFLINE" in self._environment  # type: ignore[attr-defined]


def _wanted(preferences: Preferences, given: MutableMapping[str, str]) -> dict[str, str]:
    wanted = {}
    if preferences.offline:
        wanted["HF_HUB_OFFLINE"] = "1"
    if preferences.endpoint:
        wanted["HF_ENDPOINT"] = preferences.endpoint.rstrip("/")
    if preferences.proxy and not any(given.get(name) or given.get(name.lower()) for name in _PROXIES):
        wanted |= dict.fromkeys(_PROXIES, preferences.proxy)
    return wanted

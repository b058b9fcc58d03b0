"""How the hub is reached, as Preferences have it: told to everything that asks the hub, through the environment."""

from collections.abc import MutableMapping

from app.options.preferences import Preferences

_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY")


def tell(preferences: Preferences, environment: MutableMapping[str, str]) -> None:
    """Set what the hub's client reads when it is imported; must come before that, and before the engine starts.

    What the environment says already wins: somebody has set it for this one start.
    """
    if preferences.offline:
        environment.setdefault("HF_HUB_OFFLINE", "1")
    if preferences.endpoint:
        environment.setdefault("HF_ENDPOINT", preferences.endpoint.rstrip("/"))
    if preferences.proxy and not any(environment.get(name) or environment.get(name.lower()) for name in _PROXIES):
        for name in _PROXIES:
            environment[name] = preferences.proxy

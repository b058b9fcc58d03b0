"""Settings that go by another name today, as older versions of Coppice wrote them."""

from typing import Any

from app.settings.preferences import TINT_ORIGIN


def renewed(stored: dict[str, Any]) -> dict[str, Any]:
    """What a file held, in the names of today; what it says in those already is not changed."""
    today = {name: value for name, value in stored.items() if name != "chat_tint"}
    if stored.get("chat_tint") is True:  # there was one tint, on or off
        today.setdefault("token_tint", TINT_ORIGIN)
    return today

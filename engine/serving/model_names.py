"""What the loaded model is called by clients, and whether that is the one they ask for."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.protocol.sentences import say, shown
from engine.serving.guard.errors import ApiError

if TYPE_CHECKING:
    from engine.engine import Engine

ANY = ("", "default")  # what clients send that leave the choice to the server
EVERY = "*"  # of aliases
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def served_name(engine: "Engine") -> str:
    """The target's id on the hub, where it was loaded by that; else its own name, never a path of this computer."""
    source = engine.options.target
    return source if _HUB_ID.fullmatch(source) else engine.name


def require_served(engine: "Engine", name: str | None, aliases: Sequence[str] = ()) -> str:
    """The name of the loaded model. Raises `ApiError` (404) where a client asks for another one.

    `aliases`: see `ServeOptions`.
    """
    served = served_name(engine)
    if name and EVERY not in aliases and name not in (*ANY, *aliases, served, engine.name, engine.options.target):
        words = say("There is no model {name} here.", name=shown(name))
        hint = say("The one that is loaded is {name}.", name=shown(served))
        raise ApiError(404, words, hint, code="model_not_found", param="model")
    return served

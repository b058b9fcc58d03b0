"""The key that clients show, as OpenAI's do (`Authorization: Bearer`) or as Anthropic's (`x-api-key`)."""

import hmac

from starlette.datastructures import Headers

from engine.protocol.sentences import say
from engine.serving.guard.errors import ApiError

OPEN_PATHS = ("/health",)  # for those who only watch whether the server is there; nothing secret is told


def is_known(headers: Headers, key: str) -> bool:
    """Whether one of the keys shown is `key`. Takes as long for a wrong one, whatever is wrong with it."""
    expected = key.encode(errors="surrogateescape")  # the environment may hold bytes that are no UTF-8
    matches = [hmac.compare_digest(shown, expected) for shown in _shown(headers)]
    return any(matches)


def unauthorized(headers: Headers) -> ApiError:
    """What is told to who shows none of the keys, or the wrong one."""
    has_key = any(_shown(headers))
    message = say("The key is not the server's.") if has_key else say("The server asks for a key, and got none.")
    hint = say("Send the one that the server was started with, as 'Authorization: Bearer KEY' or as 'x-api-key: KEY'.")
    return ApiError(401, message, hint, code="invalid_api_key", headers={"www-authenticate": "Bearer"})


def _shown(headers: Headers) -> list[bytes]:
    bearers = [value.partition(" ") for value in headers.getlist("authorization")]
    keys = [rest.strip(" \t") for scheme, _, rest in bearers if scheme.lower() == "bearer"]
    return [key.encode("latin-1") for key in (*keys, *headers.getlist("x-api-key"))]  # the bytes that were sent

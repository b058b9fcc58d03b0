"""Web pages that ask: none but those that were named, and none that calls this computer by a name of its own.

A browser sends requests of any page to any address, loopback included. It says whose page it is (`Origin`,
https://fetch.spec.whatwg.org/#origin-header) and asks before it sends more than a form could (a preflight). A page
whose name was changed to this computer's address in the meantime (DNS rebinding) is of the same origin to the browser,
but its name stands in `Host`.
"""

from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import Response

from engine.protocol.sentences import say, shown
from engine.protocol.serving import LOOPBACK, ServeOptions
from engine.serving.guard.errors import ApiError

EVERY_ORIGIN = "*"
ALLOWED_METHODS = "GET, POST"
SECONDS_ALLOWED = 600  # for which a browser need not ask again


def require_own_host(headers: Headers, options: ServeOptions) -> None:
    """Raise `ApiError` where a server of this computer alone is called by a name that is not this computer's."""
    if options.host in LOOPBACK and _host_of(headers.get("host", "")) not in LOOPBACK:
        words = say("This server answers as localhost only, not as {name}.", name=shown(headers.get("host", "")))
        hint = say("Ask 127.0.0.1, or have it listen at another address, with a key.")
        raise ApiError(421, words, hint, code="wrong_host")


def require_known_origin(headers: Headers, options: ServeOptions) -> None:
    """Raise `ApiError` for what the page of an origin sends that was not named, or sends without an origin."""
    if EVERY_ORIGIN in options.origins:
        return
    origins = headers.getlist("origin")
    is_foreign = not all(map(options.origins.__contains__, origins))
    # A picture or a link asks without an `Origin`; browsers of today say all the same where it came from.
    is_sideways = not origins and headers.get("sec-fetch-site") in ("cross-site", "same-site")
    if is_foreign or is_sideways:
        words = say("Web pages of other sites may not ask this server.")
        if origins:
            words = say("Web pages of {name} may not ask this server.", name=shown(origins[0]))
        raise ApiError(403, words, say("Name the page's origin where the server is started."), code="foreign_origin")


def is_preflight(method: str, headers: Headers) -> bool:
    """Whether a browser only asks what it may send."""
    return method == "OPTIONS" and "origin" in headers and "access-control-request-method" in headers


def preflight_answer(headers: Headers) -> Response:
    """What a browser may send for a page whose origin is known; everything but methods that nothing here has."""
    told = {
        "access-control-allow-methods": ALLOWED_METHODS,
        "access-control-allow-headers": headers.get("access-control-request-headers", ""),
        "access-control-max-age": str(SECONDS_ALLOWED),
    }
    if headers.get("access-control-request-private-network") == "true":
        told["access-control-allow-private-network"] = "true"
    return Response(status_code=204, headers={name: value for name, value in told.items() if value})


def response_headers(headers: Headers, options: ServeOptions) -> Mapping[str, str]:
    """What every response tells a browser: which page may read it, and to take it for nothing that it is not."""
    told = {"x-content-type-options": "nosniff"}
    if not options.origins:
        return told
    told["vary"] = "Origin"
    origin = headers.get("origin")
    if origin and (EVERY_ORIGIN in options.origins or origin in options.origins):
        told["access-control-allow-origin"] = EVERY_ORIGIN if EVERY_ORIGIN in options.origins else origin
        told["access-control-expose-headers"] = "retry-after"
    return told


def _host_of(header: str) -> str:
    """The name in a `Host` header, without its port; empty where there is something else."""
    name, _, port = header.rpartition(":") if not header.endswith("]") else (header, "", "")
    if not name:
        name, port = port, ""
    if port and not (port.isascii() and port.isdigit()):
        return ""
    is_bracketed = name.startswith("[") and name.endswith("]")
    return name[1:-1].lower() if is_bracketed else name.lower() if ":" not in name else ""

"""What an answer of the hub that is not the file means: try again, or stop, and why."""

import time
from collections.abc import Mapping
from re import compile as pattern

from app.hub.failures import Passing, Reason, RefusalError
from engine.protocol.sentences import say

_PASSING = {408, 425, 429, 500, 502, 503, 504}
_RESET = pattern(r"\bt\s*=\s*(\d+)")


def failure(status: int, headers: Mapping[str, str], endpoint: str, repo_id: str, from_hub: bool) -> Exception:
    """The exception to raise: `Passing` or `RefusalError`.

    What another host than the hub refuses is passing: the address that the hub gave us for it may have expired.
    """
    if status == 407:
        return proxy_refusal()
    if status in _PASSING or status >= 500 or not from_hub:
        who = say("the hub") if from_hub else say("the hub's storage")
        words = (
            say("{server} is overloaded (429)", server=who)
            if status == 429
            else say("{server} answered with an error ({status})", server=who, status=status)
        )
        return Passing(words, retry_after_seconds(headers, time.time()))
    return _refusal(status, headers, endpoint, repo_id)


def _refusal(status: int, headers: Mapping[str, str], endpoint: str, repo_id: str) -> RefusalError:
    code, words = headers.get("X-Error-Code", ""), headers.get("X-Error-Message", "")
    page = f"{endpoint}/{repo_id}"
    if status == 401 and "Invalid credentials" in words:
        return RefusalError(
            Reason.BAD_TOKEN, say("The hub does not accept the token."), say("Log in again, or enter another.")
        )
    if code == "GatedRepo":
        return _gated(status, words, repo_id, page)
    if code == "RevisionNotFound":
        return RefusalError(
            Reason.NOT_FOUND,
            say("{name} has no such revision.", name=repo_id),
            say("Check the branch or commit."),
            page,
        )
    if code == "EntryNotFound":
        return RefusalError(
            Reason.NOT_FOUND, say("A file of {name} is no longer there.", name=repo_id), say("Try again."), page
        )
    if status in (401, 404):
        hint = say("Check the name; if it is private, log in first.")
        return RefusalError(Reason.NOT_FOUND, say("The hub has no model {name} that you can see.", name=repo_id), hint)
    why = words.rstrip(".")[:200] or say("it answered with {status}", status=status)
    return RefusalError(
        Reason.REFUSED,
        say("The hub does not hand out {name}: {reason}.", name=repo_id, reason=why),
        say("See {page}.", page=page),
        page,
    )


def proxy_refusal() -> RefusalError:
    """A proxy, not the hub, wants to know who we are."""
    hint = say("Give them in its address: http://name:password@host:port in HTTPS_PROXY.")
    return RefusalError(Reason.REFUSED, say("The proxy asks for a name and a password."), hint)


def _gated(status: int, words: str, repo_id: str, page: str) -> RefusalError:
    """A model whose licence must be accepted first; some of them also decide about everybody who asks."""
    if status == 401:
        message = say(
            "{name} is only for those who have accepted its licence, and you are not logged in.", name=repo_id
        )
        return RefusalError(Reason.NOT_LOGGED_IN, message, say("Enter a hub token, or set HF_TOKEN."), page)
    if "awaiting" in words:
        message = say("Your request for {name} still awaits a review by its authors.", name=repo_id)
        return RefusalError(Reason.REFUSED, message, say("Try again when they have answered."), page)
    if "rejected" in words:
        message = say("The authors of {name} have refused you access.", name=repo_id)
        return RefusalError(Reason.REFUSED, message, say("Choose another model."), page)
    hint = say("Open {page} and accept it, then try again.", page=page)
    return RefusalError(Reason.LICENCE, say("You have not accepted the licence of {name}.", name=repo_id), hint, page)


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float:
    """What `Retry-After` (seconds or a date) or else an exhausted `RateLimit` asks for; 0 for nothing."""
    value = headers.get("Retry-After", "").strip()
    if value.isdecimal():
        return float(value)
    if value:
        from email.utils import parsedate_to_datetime  # noqa: PLC0415  # few say a date; the window opens without

        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - now)
        except (ValueError, OverflowError):
            return 0.0
    limit = headers.get("RateLimit", "")
    reset = _RESET.search(limit)
    return float(reset[1]) if reset and "r=0" in limit.replace(" ", "") else 0.0

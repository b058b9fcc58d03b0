"""How the hub can fail, each kind with its own sentence and remedy."""

import re
import time
from collections.abc import Mapping
from enum import StrEnum

from engine.errors import CoppiceError
from engine.protocol.sentences import say

_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_RESET = re.compile(r"\bt\s*=\s*(\d+)")


class Reason(StrEnum):
    """Why the hub gave nothing, as far as it makes a difference to what a person can do."""

    OFFLINE = "offline"
    NOT_LOGGED_IN = "not logged in"
    LICENCE_NOT_ACCEPTED = "licence not accepted"
    REFUSED = "access refused"
    NOT_FOUND = "not found"
    BUSY = "busy"
    UNUSABLE = "unusable"


class HubError(CoppiceError):
    """Something the hub refused or could not do. `page` is where a person can change that, if anywhere."""

    def __init__(self, reason: Reason, message: str, hint: str = "", page: str = "") -> None:
        super().__init__(message, hint)
        self.reason = reason
        self.page = page


class TransientError(HubError):
    """Something that may well work a moment later. `words` say what, for those who try again.

    `retry_after` is what the server asked for, in seconds; `stalled`: the connection stood still; `shown`: the error
    for those who do not try again, by default that the hub is busy.
    """

    def __init__(
        self, words: str, retry_after: float = 0.0, stalled: bool = False, shown: HubError | None = None
    ) -> None:
        error = shown or HubError(
            Reason.BUSY, say("The model hub is busy: {reason}.", reason=words), say("Try again in a moment.")
        )
        super().__init__(error.reason, error.message, error.hint, error.page)
        self.words = words
        self.retry_after = retry_after
        self.stalled = stalled


def offline(detail: str) -> HubError:
    """The hub cannot be reached, whatever the reason."""
    words = say("The model hub cannot be reached: {reason}.", reason=detail)
    return HubError(Reason.OFFLINE, words, say("Models on this computer can be used."))


def unusable(repo: str, what: str) -> HubError:
    """What the hub sent is no model that we would touch."""
    return HubError(
        Reason.UNUSABLE, say("'{name}' cannot be used: {reason}.", name=repo, reason=what), say("Choose another model.")
    )


def failure(status: int, headers: Mapping[str, str], endpoint: str, repo_id: str, from_hub: bool) -> HubError:
    """What a status that is no success means.

    What another host than the hub refuses is transient: the address that the hub gave us for it may have expired.
    """
    if status == 407:
        return proxy_refusal()
    if status in _TRANSIENT or status >= 500 or not from_hub:
        who = say("the hub") if from_hub else say("the hub's storage")
        words = (
            say("{server} is overloaded (429)", server=who)
            if status == 429
            else say("{server} answered with an error ({status})", server=who, status=status)
        )
        return TransientError(words, retry_after_seconds(headers, time.time()))
    return _refusal(status, headers, endpoint, repo_id)


def _refusal(status: int, headers: Mapping[str, str], endpoint: str, repo_id: str) -> HubError:
    code, words = headers.get("X-Error-Code", ""), headers.get("X-Error-Message", "")
    page = f"{endpoint}/{repo_id}"
    if status == 401 and "Invalid credentials" in words:
        return HubError(
            Reason.NOT_LOGGED_IN, say("The hub does not accept the token."), say("Log in again, or enter another.")
        )
    if code == "GatedRepo":
        return _gated(status, words, repo_id, page)
    if code == "RevisionNotFound":
        message = say("{name} has no such revision.", name=repo_id)
        return HubError(Reason.NOT_FOUND, message, say("Check the branch or commit."), page)
    if code == "EntryNotFound":
        return HubError(
            Reason.NOT_FOUND, say("A file of {name} is no longer there.", name=repo_id), say("Try again."), page
        )
    if status in (401, 404):
        hint = say("Check the name; if it is private, log in first.")
        return HubError(Reason.NOT_FOUND, say("The hub has no model {name} that you can see.", name=repo_id), hint)
    why = words.rstrip(".")[:200] or say("it answered with {status}", status=status)
    message = say("The hub does not hand out {name}: {reason}.", name=repo_id, reason=why)
    return HubError(Reason.REFUSED, message, say("See {page}.", page=page), page)


def proxy_refusal() -> HubError:
    """A proxy, not the hub, wants to know who we are."""
    hint = say("Give them in its address: http://name:password@host:port in HTTPS_PROXY.")
    return HubError(Reason.REFUSED, say("The proxy asks for a name and a password."), hint)


def _gated(status: int, words: str, repo_id: str, page: str) -> HubError:
    """A model whose licence must be accepted first; some of them also decide about everybody who asks."""
    if status == 401:
        message = say(
            "{name} is only for those who have accepted its licence, and you are not logged in.", name=repo_id
        )
        return HubError(Reason.NOT_LOGGED_IN, message, say("Enter a hub token, or set HF_TOKEN."), page)
    if "awaiting" in words:
        message = say("Your request for {name} still awaits a review by its authors.", name=repo_id)
        return HubError(Reason.REFUSED, message, say("Try again when they have answered."), page)
    if "rejected" in words:
        message = say("The authors of {name} have refused you access.", name=repo_id)
        return HubError(Reason.REFUSED, message, say("Choose another model."), page)
    hint = say("Open {page} and accept it, then try again.", page=page)
    return HubError(
        Reason.LICENCE_NOT_ACCEPTED, say("You have not accepted the licence of {name}.", name=repo_id), hint, page
    )


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

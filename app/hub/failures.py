"""How the hub can fail, each kind with its own sentence and remedy."""

import re
import time
from collections.abc import Mapping
from enum import StrEnum

from engine.errors import CoppiceError

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
        error = shown or HubError(Reason.BUSY, f"The model hub is busy: {words}.", "Try again in a moment.")
        super().__init__(error.reason, error.message, error.hint, error.page)
        self.words = words
        self.retry_after = retry_after
        self.stalled = stalled


def offline(detail: str) -> HubError:
    """The hub cannot be reached, whatever the reason."""
    return HubError(
        Reason.OFFLINE, f"The model hub cannot be reached: {detail}.", "Models on this computer can be used."
    )


def unusable(repo: str, what: str) -> HubError:
    """What the hub sent is no model that we would touch."""
    return HubError(Reason.UNUSABLE, f"'{repo}' cannot be used: {what}.", "Choose another model.")


def failure(status: int, headers: Mapping[str, str], endpoint: str, repo_id: str, from_hub: bool) -> HubError:
    """What a status that is no success means.

    What another host than the hub refuses is transient: the address that the hub gave us for it may have expired.
    """
    if status == 407:
        return proxy_refusal()
    if status in _TRANSIENT or status >= 500 or not from_hub:
        who = "the hub" if from_hub else "the hub's storage"
        words = f"{who} is overloaded (429)" if status == 429 else f"{who} answered with an error ({status})"
        return TransientError(words, retry_after_seconds(headers, time.time()))
    return _refusal(status, headers, endpoint, repo_id)


def _refusal(status: int, headers: Mapping[str, str], endpoint: str, repo_id: str) -> HubError:
    code, words = headers.get("X-Error-Code", ""), headers.get("X-Error-Message", "")
    page = f"{endpoint}/{repo_id}"
    if status == 401 and "Invalid credentials" in words:
        return HubError(Reason.NOT_LOGGED_IN, "The hub does not accept the token.", "Log in again, or enter another.")
    if code == "GatedRepo":
        return _gated(status, words, repo_id, page)
    if code == "RevisionNotFound":
        return HubError(Reason.NOT_FOUND, f"{repo_id} has no such revision.", "Check the branch or commit.", page)
    if code == "EntryNotFound":
        return HubError(Reason.NOT_FOUND, f"A file of {repo_id} is no longer there.", "Try again.", page)
    if status in (401, 404):
        hint = "Check the name; if it is private, log in first."
        return HubError(Reason.NOT_FOUND, f"The hub has no model {repo_id} that you can see.", hint)
    why = words.rstrip(".")[:200] or f"it answered with {status}"
    return HubError(Reason.REFUSED, f"The hub does not hand out {repo_id}: {why}.", f"See {page}.", page)


def proxy_refusal() -> HubError:
    """A proxy, not the hub, wants to know who we are."""
    hint = "Give them in its address: http://name:password@host:port in HTTPS_PROXY."
    return HubError(Reason.REFUSED, "The proxy asks for a name and a password.", hint)


def _gated(status: int, words: str, repo_id: str, page: str) -> HubError:
    """A model whose licence must be accepted first; some of them also decide about everybody who asks."""
    if status == 401:
        message = f"{repo_id} is only for those who have accepted its licence, and you are not logged in."
        return HubError(Reason.NOT_LOGGED_IN, message, "Enter a hub token, or set HF_TOKEN.", page)
    if "awaiting" in words:
        message = f"Your request for {repo_id} still awaits a review by its authors."
        return HubError(Reason.REFUSED, message, "Try again when they have answered.", page)
    if "rejected" in words:
        message = f"The authors of {repo_id} have refused you access."
        return HubError(Reason.REFUSED, message, "Choose another model.", page)
    hint = f"Open {page} and accept it, then try again."
    return HubError(Reason.LICENCE_NOT_ACCEPTED, f"You have not accepted the licence of {repo_id}.", hint, page)


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

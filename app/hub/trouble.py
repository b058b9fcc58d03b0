"""What can stand between a person and a model on the hub, each kind with its own sentence and remedy."""

from collections.abc import Mapping
from enum import Enum

from app.hub.failures import Passing, Reason, RefusalError
from app.hub.responses import failure
from engine.errors import CoppiceError
from engine.protocol.sentences import say


class Trouble(Enum):
    """Why the hub gave nothing, as far as it makes a difference to what a person can do."""

    OFFLINE = "offline"
    NOT_LOGGED_IN = "not logged in"
    LICENCE_NOT_ACCEPTED = "licence not accepted"
    REFUSED = "access refused"
    NOT_FOUND = "not found"
    BUSY = "busy"
    UNUSABLE = "unusable"


_TROUBLES = {
    Reason.NOT_LOGGED_IN: Trouble.NOT_LOGGED_IN,
    Reason.BAD_TOKEN: Trouble.NOT_LOGGED_IN,
    Reason.LICENCE: Trouble.LICENCE_NOT_ACCEPTED,
    Reason.REFUSED: Trouble.REFUSED,
    Reason.NOT_FOUND: Trouble.NOT_FOUND,
}


class HubError(CoppiceError):
    """Something the hub refused or could not do. `page` is where a person can change that, if anywhere."""

    def __init__(self, trouble: Trouble, message: str, hint: str = "", page: str = "") -> None:
        super().__init__(message, hint)
        self.trouble = trouble
        self.page = page


def offline(detail: str) -> HubError:
    """The hub cannot be reached, whatever the reason."""
    return HubError(
        Trouble.OFFLINE,
        say("The model hub cannot be reached: {reason}.", reason=detail),
        say("Models on this computer can be used."),
    )


def unusable(repo: str, what: str) -> HubError:
    """What the hub sent is no model that we would touch."""
    return HubError(
        Trouble.UNUSABLE,
        say("'{name}' cannot be used: {reason}.", name=repo, reason=what),
        say("Choose another model."),
    )


def in_trouble(error: RefusalError) -> HubError:
    """A refusal of a download, as one of a request."""
    return HubError(_TROUBLES[error.reason], error.message, error.hint, error.page)


def refusal(status: int, headers: Mapping[str, str], repo: str, endpoint: str, from_hub: bool) -> HubError:
    """What a refused request means, in the words that a download would use."""
    error = failure(status, headers, endpoint, repo, from_hub)
    if isinstance(error, RefusalError):
        return in_trouble(error)
    assert isinstance(error, Passing)
    return HubError(
        Trouble.BUSY, say("The model hub is busy: {reason}.", reason=error.words), say("Try again in a moment.")
    )

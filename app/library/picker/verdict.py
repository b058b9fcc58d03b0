"""What is said of a model in its line of the list: how it would run here, or what stands in between."""

from dataclasses import dataclass
from enum import Enum

from app.hub.failures import HubError, Reason
from app.i18n.known_sentences import translated
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.estimates import in_words
from engine.errors import CoppiceError
from engine.protocol.messages import Appraised

_TROUBLES = {
    Reason.OFFLINE: mark("Not known while offline"),
    Reason.NOT_LOGGED_IN: mark("Gated: log in to the hub first"),
    Reason.LICENCE_NOT_ACCEPTED: mark("Gated: its licence is to be accepted first"),
    Reason.REFUSED: mark("Gated: access was refused"),
    Reason.NOT_FOUND: mark("Not found on the hub"),
    Reason.BUSY: mark("The hub is busy"),
}


class Tone(Enum):
    """How good the news is; the colour of the dot."""

    GOOD = "good"
    FAIR = "fair"
    SLOW = "slow"
    BAD = "bad"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`words` fit into a line; `details` is the whole story, for a tooltip. `parameters`: as the engine counts."""

    words: str
    tone: Tone = Tone.QUIET
    details: str = ""
    fits: bool | None = None
    parameters: int = 0


UNKNOWN = Verdict("")

_TONES = {"device": Tone.GOOD, "offload": Tone.FAIR, "ssd": Tone.SLOW, "no": Tone.BAD}


def asking() -> Verdict:
    """The engine has been asked, and has not answered yet."""
    return Verdict(tr("Estimating…"))


def priced(found: Appraised) -> Verdict:
    """The engine's word on it."""
    details = translated(found.reason)
    return Verdict(in_words(found), _TONES[found.verdict], details, found.verdict != "no", found.parameters)


def troubled(error: CoppiceError) -> Verdict:
    """Why the engine could not be asked."""
    if isinstance(error, HubError) and error.reason in _TROUBLES:
        return Verdict(tr(_TROUBLES[error.reason]), Tone.QUIET, translated(str(error)))
    return Verdict(translated(error.message), Tone.BAD, translated(str(error)), False)

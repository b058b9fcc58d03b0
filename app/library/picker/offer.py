"""What one button offers to do with the model that is chosen, in words that say it before it is pressed."""

from dataclasses import dataclass
from enum import Enum

from app.downloads.disk import size_text
from app.downloads.progress import Progress, State
from app.library.hub.trouble import HubError, Trouble
from engine.errors import CoppiceError
from engine.messages import Appraised


class Deed(Enum):
    """What happens when the button is pressed."""

    NOTHING = "nothing"
    LOAD = "load"
    FORCE = "load anyway"
    DOWNLOAD = "download"
    SHOW_DOWNLOAD = "show download"
    LOG_IN = "log in"
    OPEN_PAGE = "open page"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Missing:
    """A model that would be downloaded; `bytes` 0 if that is not known."""

    repo: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Offer:
    """The button."""

    deed: Deed
    text: str
    enabled: bool = True


NOTHING = Offer(Deed.NOTHING, "Load", enabled=False)

_OFFERS = {
    Trouble.NOT_LOGGED_IN: Offer(Deed.LOG_IN, "Log in…"),
    Trouble.LICENCE_NOT_ACCEPTED: Offer(Deed.OPEN_PAGE, "Open licence page"),
    Trouble.REFUSED: Offer(Deed.OPEN_PAGE, "Open the model's page"),
    Trouble.NOT_FOUND: Offer(Deed.RETRY, "Look again"),
    Trouble.OFFLINE: Offer(Deed.RETRY, "Try again"),
    Trouble.BUSY: Offer(Deed.RETRY, "Try again"),
}


def offer_for(
    missing: tuple[Missing, ...],
    price: Appraised | None,
    problem: str = "",
    trouble: CoppiceError | None = None,
    download: Progress | None = None,
    target_is_missing: bool = False,
) -> Offer:
    """The offer, given what is not on this computer, what the engine thinks of the pair, and what stands in between."""
    if problem:
        return NOTHING
    if download is not None and download.state not in (State.DONE, State.CANCELLED):
        return Offer(Deed.SHOW_DOWNLOAD, "Show download")
    if trouble is not None:
        known = _OFFERS.get(trouble.trouble) if isinstance(trouble, HubError) else None
        return known or Offer(Deed.NOTHING, "Cannot be used", enabled=False)
    fits = price is None or price.verdict != "no"
    if not missing:
        return Offer(Deed.LOAD, "Load") if fits else Offer(Deed.FORCE, "Load anyway")
    words = "Download both" if len(missing) > 1 else "Download" if target_is_missing else "Download the draft"
    size = f" ({size_text(sum(each.bytes for each in missing))})" if all(each.bytes for each in missing) else ""
    return Offer(Deed.DOWNLOAD, f"{words}{size} and load{'' if fits else ' anyway'}")

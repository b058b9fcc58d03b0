"""What one button offers to do with the model that is chosen, in words that say it before it is pressed."""

from dataclasses import dataclass, replace
from enum import Enum

from app.downloads.progress import Progress, State
from app.hub.failures import HubError, Reason
from app.i18n.number_text import size_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from engine.errors import CoppiceError
from engine.protocol.messages import Appraised


class OfferAction(Enum):
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

    action: OfferAction
    text: str
    enabled: bool = True


_OFFERS = {
    Reason.NOT_LOGGED_IN: Offer(OfferAction.LOG_IN, mark("Log in…")),
    Reason.LICENCE_NOT_ACCEPTED: Offer(OfferAction.OPEN_PAGE, mark("Open licence page")),
    Reason.REFUSED: Offer(OfferAction.OPEN_PAGE, mark("Open the model's page")),
    Reason.NOT_FOUND: Offer(OfferAction.RETRY, mark("Look again")),
    Reason.OFFLINE: Offer(OfferAction.RETRY, mark("Try again")),
    Reason.BUSY: Offer(OfferAction.RETRY, mark("Try again")),
}


def no_offer() -> Offer:
    """A button that does nothing yet."""
    return Offer(OfferAction.NOTHING, tr("Load"), enabled=False)


def loaded_already() -> Offer:
    """A button that has nothing to do any more."""
    return Offer(OfferAction.NOTHING, tr("Loaded"), enabled=False)


def offer_for(
    missing: tuple[Missing, ...],
    price: Appraised | None,
    problem: str = "",
    error: CoppiceError | None = None,
    download: Progress | None = None,
    target_is_missing: bool = False,
) -> Offer:
    """The offer, given what is not on this computer, what the engine thinks of the pair, and what stands in between."""
    if problem:
        return no_offer()
    if download is not None and download.state not in (State.DONE, State.CANCELLED):
        return Offer(OfferAction.SHOW_DOWNLOAD, tr("Show download"))
    if error is not None:
        known = _OFFERS.get(error.reason) if isinstance(error, HubError) else None
        return (
            replace(known, text=tr(known.text))
            if known
            else Offer(OfferAction.NOTHING, tr("Cannot be used"), enabled=False)
        )
    if price is not None and price.faulty_draft:
        return Offer(OfferAction.NOTHING, tr("Choose another draft"), enabled=False)
    fits = price is None or price.verdict != "no"
    if not missing:
        return Offer(OfferAction.LOAD, tr("Load")) if fits else Offer(OfferAction.FORCE, tr("Load anyway"))
    if len(missing) > 1:
        words = tr("Download both{size} and load") if fits else tr("Download both{size} and load anyway")
    elif target_is_missing:
        words = tr("Download{size} and load") if fits else tr("Download{size} and load anyway")
    else:
        words = tr("Download the draft{size} and load") if fits else tr("Download the draft{size} and load anyway")
    size = f" ({size_text(sum(each.bytes for each in missing))})" if all(each.bytes for each in missing) else ""
    return Offer(OfferAction.DOWNLOAD, words.format(size=size))

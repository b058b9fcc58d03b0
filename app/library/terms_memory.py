"""How each target was loaded last, kept in the settings: with which draft, weights, place, context and limits."""

from dataclasses import asdict, fields, replace
from typing import Any

from app.library.estimates import Pricing, Terms
from app.settings.store import Settings, SettingsFile
from engine.errors import InputError
from engine.protocol.options import LoadOptions

_NOT_KEPT = ("cache_dir", "device")


class TermsMemory:
    """What a person chose is offered again."""

    def __init__(self, settings: SettingsFile) -> None:
        self._settings = settings

    def draft(self, target: str) -> str:
        """The draft of last time, empty if there was none."""
        return self._settings.current.drafts.get(target, "")

    def terms(self, target: str) -> Terms | None:
        """The terms of last time, as far as they are still possible."""
        kept = self._settings.current.loads.get(target)
        return None if kept is None else _read(kept)

    def keep(self, options: LoadOptions) -> None:
        """Remember what is being loaded."""
        self._settings.remember_draft(options.target, options.draft)
        kept = {name: value for name, value in asdict(terms_of(options)).items() if name not in _NOT_KEPT}
        kept |= {"force": options.force}
        self._settings.remember_load(options.target, kept)


def last_load(settings: Settings, pair: LoadOptions) -> LoadOptions:
    """The pair with the load options that its target was loaded with last, if it was."""
    kept = settings.loads.get(pair.target)
    terms = None if kept is None else _read(kept)
    if kept is None or terms is None:
        return pair
    options = Pricing("", pair.target, pair.draft).options(terms)
    return replace(options, device=pair.device, force=kept.get("force") is True)


def terms_of(options: LoadOptions) -> Terms:
    """The part of the options that is a matter of terms."""
    return Terms(**{each.name: getattr(options, each.name) for each in fields(Terms)})


def _read(kept: dict[str, Any]) -> Terms | None:
    """Every value that has the right type, if all together are in range."""
    defaults = Terms()
    known = {
        each.name: kept[each.name]
        for each in fields(Terms)
        if type(kept.get(each.name)) is type(getattr(defaults, each.name)) and each.name not in _NOT_KEPT
    }
    terms = replace(defaults, **known)
    try:
        Pricing("", "any").options(terms).check()
    except InputError:
        return None
    return terms

"""How a model would run here: the terms it depends on, the engine's estimates, and the terms of the last load."""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.engine.interface import Engine
from app.engine.listener import EventListener, takes
from app.i18n.number_text import Number
from app.i18n.sentences import translated, without_folders
from app.i18n.translation import tr
from app.settings.store import Settings, SettingsFile
from engine.errors import InputError
from engine.protocol.messages import Appraised, Ready
from engine.protocol.options import LoadOptions, Place


@dataclass(frozen=True, slots=True)
class Terms:
    """What every estimate depends on, and a person can change. `budget` 0: automatic; limits in bytes, 0 for none.

    `cache_dir`: the application's, where the engine remembers what it measured.
    """

    weights: str = "auto"
    context_tokens: int = 0
    budget: int = 0
    device: str = "auto"
    place: Place = "auto"
    vram_limit_bytes: int = 0
    ram_limit_bytes: int = 0
    cache_dir: str = ""
    kv: str = "auto"
    activations: str = "exact"


@dataclass(frozen=True, slots=True)
class Pricing:
    """A pair to be estimated. `key` is the caller's name for it; sources are the engine's, or folders of facts."""

    key: str
    target: str
    draft: str = "none"

    def options(self, terms: Terms) -> LoadOptions:
        """What the engine is asked about."""
        return LoadOptions(self.target, self.draft, **asdict(terms))


def in_words(found: Appraised) -> str:
    """Such as "Streams from RAM, about 9 tokens/s"; a sentence without a full stop, or with a reason.

    Files are called by their names: a path alone would fill a line, and leave no room for what is wrong.
    """
    if found.faulty_draft:
        return tr("The draft {draft} cannot be used: {reason}").format(
            draft=found.faulty_draft, reason=translated(without_folders(found.reason))
        )
    if found.verdict == "no":
        if not found.tiers:
            return tr("Cannot be used: {reason}").format(reason=translated(without_folders(found.reason)))
        return tr("Does not fit, because {reason}").format(reason=translated(found.reason))
    if found.verdict == "device":
        words = tr("Runs on the GPU, about {rate}") if found.device != "cpu" else tr("Runs on the CPU, about {rate}")
    else:
        is_ram = found.verdict == "offload"
        words = tr("Streams from RAM, about {rate}") if is_ram else tr("Streams from SSD, about {rate}")
    rate = rate_text(found.tokens_per_second)
    # In a list stand models that were asked about alone beside the one whose draft is known.
    return words.format(rate=tr("{rate} with a draft").format(rate=rate) if found.tokens_per_pass > 1 else rate)


def rate_text(tokens_per_second: float) -> str:
    """A speed with as many digits as an estimate deserves."""
    if tokens_per_second >= 9.5:
        return tr("{rate:.0f} tokens/s").format(rate=Number(tokens_per_second))
    if tokens_per_second >= 0.095:
        return tr("{rate:.1f} tokens/s").format(rate=Number(tokens_per_second))
    return tr("{rate:.2f} tokens/s").format(rate=Number(tokens_per_second))


class Estimator(QObject, EventListener):
    """One question is under way at any time, so that there is nothing to cancel: what no longer counts is not asked.

    `priced` carries a pricing's key and what the engine said. While no engine runs, questions wait for the next one.
    """

    priced = Signal(str, Appraised)

    def __init__(
        self,
        link: Engine,
        terms: Terms | None = None,
        parent: QObject | None = None,
        complete: Callable[[LoadOptions], LoadOptions] = lambda options: options,
    ) -> None:
        """`complete` fills in what the terms leave open, as it would be for a load."""
        super().__init__(parent)
        self._link = link
        self._complete = complete
        self.terms = terms or Terms()  # what the estimates are for
        self._shown: list[Pricing] = []
        self._waiting: list[Pricing] = []
        self._asked: tuple[int, Pricing, Terms] | None = None
        self._engine_is_there = True
        self._prices: dict[Pricing, Appraised] = {}

    def price(self, pricing: Pricing) -> Appraised | None:
        """What is known of a pair under the terms of now."""
        return self._prices.get(pricing)

    def show(self, pricings: Iterable[Pricing]) -> None:
        """The pairs in view, the most urgent first; those that are not known yet are asked about."""
        self._shown = list(pricings)
        self._waiting = [each for each in self._shown if each not in self._prices]
        self._ask_next()

    def set_terms(self, terms: Terms) -> None:
        """Change the terms; everything in view is asked about anew."""
        if terms != self.terms:
            self.terms = terms
            self.refresh()

    def refresh(self) -> None:
        """Ask about everything in view again, as after a change in what is free."""
        self._prices.clear()
        self.show(self._shown)

    @takes(Ready)
    def _on_ready(self, _event: Ready) -> None:
        """A new engine is asked at once."""
        self._engine_is_there = True
        self._ask_next()

    def on_engine_stopped(self) -> None:
        """What was asked stays without an answer: it waits for the next engine."""
        self._engine_is_there = False
        if self._asked is not None:
            self._waiting.insert(0, self._asked[1])
            self._asked = None

    @takes(Appraised)
    def _on_answer(self, found: Appraised) -> None:
        if self._asked is None or found.id != self._asked[0]:
            return
        _, pricing, terms = self._asked
        self._asked = None
        if terms == self.terms:  # else it is asked again: the pair is among those waiting
            self._prices[pricing] = found
            self.priced.emit(pricing.key, found)
        self._ask_next()

    def _ask_next(self) -> None:
        if self._asked is not None or not self._engine_is_there:
            return
        self._waiting = [each for each in self._waiting if each not in self._prices]
        if self._waiting:
            pricing = self._waiting.pop(0)
            self._asked = (self._link.appraise(self._complete(pricing.options(self.terms))), pricing, self.terms)


_NOT_KEPT = ("cache_dir", "device")
_USED = "used"  # beside the terms of a target: when it was last loaded


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

    def used_at(self, names: Iterable[str]) -> float:
        """When a model of these names was last loaded, in seconds since 1970; 0 if it never was."""
        kept = (self._settings.current.loads.get(name, {}).get(_USED) for name in names)
        return max((used for used in kept if isinstance(used, float) and 0 < used <= time.time()), default=0.0)

    def keep_loaded(self, options: LoadOptions) -> None:
        """Remember what has been loaded, and when."""
        self.keep(options)
        kept = self._settings.current.loads[options.target]
        self._settings.remember_load(options.target, kept | {_USED: time.time()})

    def keep(self, options: LoadOptions) -> None:
        """Remember what is to be loaded."""
        self._settings.remember_draft(options.target, options.draft)
        kept = {name: value for name, value in asdict(terms_of(options)).items() if name not in _NOT_KEPT}
        kept |= {"force": options.force}
        if used := self.used_at([options.target]):
            kept[_USED] = used
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

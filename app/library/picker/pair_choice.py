"""The model that a person looks at: its terms, its draft, how the pair would run, and what can be done with it."""

from collections.abc import Iterable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.downloads.progress import Progress
from app.hub.facts import ModelFacts
from app.hub.formats import parameters_in
from app.hub.search import ModelRow
from app.i18n.sentences import translated
from app.library.estimates import Estimator, Pricing, Terms, TermsMemory
from app.library.hub_queries import FactsController, VariantsController
from app.library.local.local_models import LocalModels
from app.library.pairing.draft_finder import DraftFinder, Placed, draft_candidates
from app.library.pairing.drafts import Candidate, DraftChoice, Origin
from app.library.pairing.suggestions import Suggestion
from app.library.picker.entry import Entry, variant_entry
from app.library.picker.offer import Missing, Offer, OfferAction, loaded_already, no_offer, offer_for
from app.library.variants import VariantChoice
from app.system.paths import resource
from engine.errors import CoppiceError
from engine.protocol.messages import Appraised
from engine.protocol.options import EMBEDDED, NO_DRAFT, LoadOptions
from engine.protocol.variants import split_source


class PairChoice(QObject):
    """`changed` tells that something is to be shown anew; `drafts_changed` that the list of drafts is another.

    `base` is the line that was chosen, and `entry` what would be loaded: the same, or one of its variants.
    """

    changed = Signal()
    drafts_changed = Signal()
    variant_changed = Signal()
    terms_chosen = Signal(Terms)

    def __init__(
        self,
        estimator: Estimator,
        facts: FactsController,
        finder: DraftFinder,
        local_models: LocalModels,
        memory: TermsMemory,
        suggested: tuple[Suggestion, ...],
        variants: VariantsController,
        parent: QObject | None = None,
    ) -> None:
        """`estimator` is asked about nothing but this pair."""
        super().__init__(parent)
        self._variants = variants
        self._estimator, self._facts, self._finder = estimator, facts, finder
        self._local_models, self._memory, self._suggested = local_models, memory, suggested
        self._rows: Iterable[ModelRow] = ()
        self._downloads: tuple[Progress, ...] = ()
        self._draft_was_chosen = False
        self._loaded: LoadOptions | None = None
        self._faults: dict[str, str] = {}  # what the engine has against drafts that are here, by source
        self.base: Entry | None = None
        self.entry: Entry | None = None
        self.common_terms = estimator.terms
        self.choices: tuple[DraftChoice, ...] = ()
        self.draft = NO_DRAFT
        facts.arrived.connect(self._on_facts)
        facts.failed.connect(lambda repo, _error: self._on_news(repo))
        finder.found.connect(self._on_drafts)
        estimator.priced.connect(lambda _key, found: self._on_priced(found))
        local_models.changed.connect(lambda _found: self._on_local_models())
        variants.arrived.connect(self._on_variants)
        variants.failed.connect(lambda repo, _error: self._on_variants(repo))

    # ---- what a person does -----------------------------------------------------------------------------------------

    def choose(self, entry: Entry | None, rows: Iterable[ModelRow] = ()) -> None:
        """Look at another model; `rows` are what was found with it, where drafts may be among."""
        if entry is not None and self.base is not None and _is_same(entry, self.base):
            if entry != self.base:
                self.entry = entry if self.entry == self.base else self.entry
                self.base = entry
                self.changed.emit()
            return
        self.base, self._rows = entry, rows
        if entry is not None and entry.of_hub and entry.has_variants:
            self._variants.want(split_source(entry.source)[0])
        self._take(entry)
        self._take_recommended()

    def choose_variant(self, source: str) -> None:
        """Another variant of the same repository."""
        choice = next((each for each in self.variants if each.source == source), None)
        if self.base is not None and self.entry is not None and choice is not None and source != self.entry.source:
            self._take(variant_entry(self.base, choice))
            self.variant_changed.emit()

    def _take(self, entry: Entry | None) -> None:
        self.entry = entry
        self.choices, self.draft, self._draft_was_chosen = (), NO_DRAFT, False
        self._finder.cancel()
        if entry is not None:
            self.draft = self._first_draft(entry)
            self._estimator.set_terms(self._first_terms(entry))
        self.drafts_changed.emit()
        self.look_again()

    def choose_terms(self, terms: Terms) -> None:
        """Load it in another way; other models are judged by the same terms."""
        terms = replace(terms, cache_dir=self.common_terms.cache_dir)
        if terms != self._estimator.terms:
            self.common_terms = terms
            self._estimator.set_terms(terms)
            self._price()
            self.terms_chosen.emit(terms)

    def choose_draft(self, source: str) -> None:
        """Take another draft; one whose vocabulary is not known is looked up on the hub."""
        self.draft, self._draft_was_chosen = source, True
        choice = self.choice
        if choice is not None and choice.to_check and choice.candidate.origin is not Origin.LOCAL:
            self._find_drafts(True)
        self._price()

    def follow_downloads(self, downloads: tuple[Progress, ...]) -> None:
        """What is being fetched is not offered again."""
        states = [(each.request.source, each.state) for each in downloads]
        before = [(each.request.source, each.state) for each in self._downloads]
        self._downloads = downloads
        if states != before:
            self.changed.emit()

    def show_loaded(self, loaded: LoadOptions | None) -> None:
        """What is loaded here is not offered to be loaded."""
        if loaded != self._loaded:
            self._loaded = loaded
            self.changed.emit()

    def look_again(self) -> None:
        """The models on this computer, or the connection, have changed."""
        if self.base is not None and self.base.of_hub and self.base.has_variants:
            self._variants.want(split_source(self.base.source)[0])
        if self.entry is not None and not self.entry.problem and not self.entry.needs_variant:
            self._find_drafts(self.entry.of_hub)
        self._price()

    # ---- what is to be shown ----------------------------------------------------------------------------------------

    @property
    def terms(self) -> Terms:
        """How it would be loaded."""
        return self._estimator.terms

    @property
    def choice(self) -> DraftChoice | None:
        """The draft that is chosen, None for none."""
        return next((each for each in self.choices if each.candidate.source == self.draft), None)

    @property
    def price(self) -> Appraised | None:
        """What the engine thinks of the pair."""
        pricing = self._pricing()
        return self._estimator.price(pricing) if pricing else None

    @property
    def fetched(self) -> frozenset[str]:
        """What is being downloaded."""
        going = (each for each in self._downloads if not each.state.is_over)
        return frozenset(each.request.source for each in going)

    @property
    def is_asking(self) -> bool:
        """Whether an estimate is on its way."""
        return self._pricing() is not None and self.price is None

    @property
    def is_here(self) -> bool:
        """Whether the target is on this computer."""
        return self.entry is not None and (
            not self.entry.of_hub or self._local_models.model(self.entry.source) is not None
        )

    @property
    def hub_error(self) -> CoppiceError | None:
        """What the hub has against it."""
        if self.entry is None or self.is_here:
            return None
        if self.entry.needs_variant:
            return self._variants.failures.get(self.entry.source)
        return self._facts.failures.get(self.entry.source)

    @property
    def variants(self) -> tuple[VariantChoice, ...]:
        """What the repository holds, if there is something to choose; empty until the hub has told."""
        if self.base is None or not self.base.of_hub or not self.base.has_variants:
            return ()
        return self._variants.known.get(split_source(self.base.source)[0], ())

    @property
    def here(self) -> frozenset[str]:
        """Those of the variants that are on this computer."""
        return frozenset(each.source for each in self.variants if self._local_models.model(each.source))

    @property
    def variants_to_price(self) -> list[Entry]:
        """The variants as lines of a list: the chosen one first, the others once its facts have made theirs cheap."""
        if self.base is None or self.entry is None or not self.variants:
            return []
        lines = [variant_entry(self.base, each) for each in self.variants]
        chosen = [each for each in lines if each.source == self.entry.source]
        known = self.is_here or self.entry.source in self._facts.known or self.entry.source in self._facts.failures
        return [*chosen, *(each for each in lines if each not in chosen)] if known else chosen

    @property
    def facts(self) -> ModelFacts | None:
        """What is known of a model of the hub."""
        return self._facts.known.get(self.entry.source) if self.entry else None

    @property
    def missing(self) -> tuple[Missing, ...]:
        """What would have to be downloaded, the target first."""
        entry, choice = self.entry, self.choice
        found: list[Missing] = []
        if entry is not None and not self.is_here:
            found.append(Missing(entry.source, self.facts.weight_bytes if self.facts else entry.bytes))
        if choice is not None and choice.candidate.origin is not Origin.LOCAL:
            found.append(Missing(choice.candidate.source, choice.candidate.bytes))
        return tuple(found)

    @property
    def offer(self) -> Offer:
        """What the button does."""
        entry = self.entry
        if entry is None or (entry.needs_variant and self.hub_error is None):
            return no_offer()
        missing = self.missing
        repos = {each.repo for each in missing}
        download = next((each for each in self._downloads if each.request.source in repos), None)
        made = offer_for(missing, self.price, entry.problem, self.hub_error, download, not self.is_here)
        return loaded_already() if made.action is OfferAction.LOAD and self._is_loaded else made

    @property
    def _is_loaded(self) -> bool:
        """Whether this very pair is loaded, and in this way."""
        if self._loaded is None or self.entry is None:
            return False
        wanted = Pricing("", self.entry.source, self.draft).options(replace(self.terms, cache_dir=""))
        return wanted == replace(self._loaded, cache_dir="", force=False)

    @property
    def options(self) -> LoadOptions:
        """What is loaded when the button is pressed."""
        assert self.entry is not None
        made = Pricing("", self.entry.source, self.draft).options(self.terms)
        anyway = self.price is not None and self.price.verdict == "no"
        return replace(made, cache_dir="", force=anyway or self.offer.action is OfferAction.FORCE)

    # ---- behind it --------------------------------------------------------------------------------------------------

    def _first_terms(self, entry: Entry) -> Terms:
        """Those of last time; else those that are common to all, with the weights that the entry is for."""
        kept = self._memory.terms(entry.source)
        terms = kept or self.common_terms
        if entry.weights and (kept is None or entry.prepared is not None):
            terms = replace(terms, weights=entry.weights)
        return replace(terms, cache_dir=self.common_terms.cache_dir)

    def _first_draft(self, entry: Entry) -> str:
        if kept := self._memory.draft(entry.source):
            return kept
        if entry.suggestion is not None and entry.suggestion.draft is not None:
            return entry.suggestion.draft.repo
        return "auto" if entry.source == EMBEDDED else NO_DRAFT

    def _find_drafts(self, may_ask_hub: bool) -> None:
        entry = self.entry
        assert entry is not None
        target = self._placed(entry)
        candidates = draft_candidates(
            target.candidate, entry.family, self._local_models.found.models, self._suggested, self._rows
        )
        known = [replace(each, candidate=self._with_fault(each.candidate)) for each in candidates]
        self._finder.look(target, known, may_ask_hub and self.hub_error is None)

    def _with_fault(self, candidate: Candidate) -> Candidate:
        return replace(candidate, fault=self._faults.get(candidate.source, ""))

    def _placed(self, entry: Entry) -> Placed:
        here = self._local_models.model(entry.source)
        folder = here.place if here else resource("models", "demo-target") if entry.source == EMBEDDED else None
        size = entry.bytes or (self.facts.weight_bytes if self.facts else 0)
        candidate = Candidate(entry.source, entry.name, entry.parameters or parameters_in(size, entry.format), size)
        return Placed(candidate, folder, entry.revision)

    def _on_drafts(self, target: str, choices: tuple[DraftChoice, ...]) -> None:
        if self.entry is None or target != self.entry.source:
            return
        self.choices = choices
        usable = {each.candidate.source for each in choices if each.usable} | {NO_DRAFT}
        kept = self._draft_was_chosen or bool(self._memory.draft(target))
        recommended = next((each.candidate.source for each in choices if each.recommended), "")
        if self.draft not in usable:
            self.draft = recommended or NO_DRAFT
        elif recommended and not kept:
            self.draft = recommended
        self.drafts_changed.emit()
        self._price()

    def _on_priced(self, found: Appraised) -> None:
        """A draft that the engine cannot use with any target is not to be chosen: the list says why."""
        choice = self.choice
        is_here = choice is not None and choice.candidate.origin is Origin.LOCAL
        if found.faulty_draft and found is self.price and is_here and self.draft not in self._faults:
            self._faults[self.draft] = translated(found.reason)
            self._find_drafts(self.entry is not None and self.entry.of_hub)
        self.changed.emit()

    def _on_local_models(self) -> None:
        self._faults.clear()  # files may have been mended
        self.look_again()

    def _on_variants(self, repo: str) -> None:
        """The hub has told what the repository holds, or why not."""
        if self.base is not None and split_source(self.base.source)[0] == repo:
            self._take_recommended()
            self.changed.emit()

    def _take_recommended(self) -> None:
        """Where one has to be chosen: one that is here already, else the one that suggests itself."""
        if self.entry is None or not self.entry.needs_variant or not self.variants:
            return
        ranked = sorted(self.variants, key=lambda each: (each.source not in self.here, not each.recommended))
        self.choose_variant(ranked[0].source)

    def _on_facts(self, facts: ModelFacts) -> None:
        if self.entry is not None and self.entry.source == facts.repo and self.entry.is_estimate:
            self.entry = replace(self.entry, bytes=facts.weight_bytes, is_estimate=False)
        self._on_news(facts.repo)

    def _on_news(self, repo: str) -> None:
        if self.entry is not None and repo == self.entry.source:
            self.look_again()

    def _pricing(self) -> Pricing | None:
        """The pair as the engine can be asked about it; a draft that nobody knows yet is left out."""
        entry = self.entry
        if entry is None or entry.problem:
            return None
        target = entry.source if self.is_here else str(self.facts.folder) if self.facts else ""
        if not target:
            return None
        draft, choice = self.draft, self.choice
        if choice is None and draft not in ("auto", NO_DRAFT):
            draft = NO_DRAFT
        elif choice is not None and choice.candidate.origin is not Origin.LOCAL:
            known = self._finder.facts.get(draft)
            draft = str(known.folder) if known else NO_DRAFT
        return Pricing(entry.key, target, draft)

    def _price(self) -> None:
        pricing = self._pricing()
        self._estimator.show([pricing] if pricing else [])
        self.changed.emit()


def _is_same(entry: Entry, other: Entry) -> bool:
    """Whether two lines are of one model, though more may be known of it meanwhile."""
    return (entry.key, entry.where, entry.problem) == (other.key, other.where, other.problem)

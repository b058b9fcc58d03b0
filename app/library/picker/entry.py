"""A model as a line of a list, wherever it is: on the hub, in its cache, in a folder, prepared, or shipped with us."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum

from PySide6.QtCore import QLocale

from app.hub.failures import HubError, Reason
from app.hub.formats import GGUF, PLAIN
from app.hub.search import ModelRow
from app.i18n.number_text import Number, size_text
from app.i18n.sentences import error_text, translated
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.estimates import in_words
from app.library.local.models import Home, LocalModel, PreparedCopy, Sight
from app.library.pairing.room import Room
from app.library.pairing.suggestions import Suggestion
from app.library.variants import VariantChoice
from engine.errors import CoppiceError
from engine.protocol.messages import Appraised
from engine.protocol.options import EMBEDDED

_REASONS_IN_WORDS = {
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


def unpriced(error: CoppiceError) -> Verdict:
    """Why the engine could not be asked."""
    if isinstance(error, HubError) and error.reason in _REASONS_IN_WORDS:
        return Verdict(tr(_REASONS_IN_WORDS[error.reason]), Tone.QUIET, error_text(error))
    return Verdict(translated(error.message), Tone.BAD, error_text(error), False)


_DEMO_PARAMETERS = 7_500_000


class Where(Enum):
    """Where a model is, in words for people."""

    HUB = mark("On the hub")
    CACHE = mark("Hub cache")
    FOLDER = mark("Folder")
    LM_STUDIO = "LM Studio"
    OLLAMA = "Ollama"
    JAN = "Jan"
    LLAMA_CPP = "llama.cpp"
    PREPARED = mark("Prepared copy")
    SHIPPED = mark("Shipped with Coppice")
    ELSEWHERE = mark("Engine elsewhere")
    HERE = mark("Engine on this computer")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line. `key` is unique in its list; `source` is what the engine loads, of the hub's models once they are here.

    Numbers are 0 and texts empty where nothing is known. `about`: a sentence, or a path; `problem`: why it cannot be
    loaded, and `remedy` what to do then; `weights`: the type of numbers to begin with; `is_estimate`: its bytes are
    arithmetic; `has_variants`: it holds GGUF files too, `needs_variant`: it holds nothing else, so that one of them has
    to be chosen; `guess`: what is said of it before the engine was asked; `sight`: whether it reads pictures; what it
    was made from is kept in the last three.
    """

    key: str
    name: str
    source: str
    where: Where
    parameters: int = 0
    bytes: int = 0
    format: str = ""
    licence: str = ""
    gated: str = ""
    family: str = ""
    about: str = ""
    revision: str = ""
    last_used: float = 0.0
    problem: str = ""
    remedy: str = ""
    weights: str = ""
    is_estimate: bool = False
    has_variants: bool = False
    needs_variant: bool = False
    guess: Verdict = UNKNOWN
    sight: Sight = Sight.NONE
    local: LocalModel | None = None
    prepared: PreparedCopy | None = None
    suggestion: Suggestion | None = None

    @property
    def of_hub(self) -> bool:
        """Whether `source` is a name on the hub, and the model perhaps not here."""
        return self.where is Where.HUB

    @property
    def can_be_deleted(self) -> bool:
        """Whether it is kept by nobody else: not the hub's, not shipped with us, and not another program's."""
        return self.where in (Where.CACHE, Where.FOLDER, Where.PREPARED)

    @property
    def problem_verdict(self) -> Verdict:
        """Why it cannot be loaded; no bad news of a head, which is a fine draft."""
        is_head = self.local is not None and self.local.is_head and not self.local.problem
        return Verdict(self.problem, Tone.QUIET if is_head else Tone.BAD)

    @property
    def words_of_sight(self) -> str:
        """Whether it reads pictures, in words; empty where it does not."""
        match self.sight:
            case Sight.READS:
                return tr("Reads pictures")
            case Sight.LACKS_SETTINGS:
                return tr("Download it again to have it read pictures: what says how is not here.")
            case Sight.NONE:
                return ""

    @property
    def last_used_text(self) -> str:
        """The day, such as `21 November 2026`; empty if it is not known."""
        if not self.last_used:
            return ""
        day = datetime.fromtimestamp(self.last_used, UTC).astimezone()
        month = QLocale().standaloneMonthName(day.month)
        return tr("{day} {month} {year}").format(day=day.day, month=month, year=day.year)

    @property
    def figures(self) -> str:
        """What is known of it, in one line; of what is here, also where, and when it was used."""
        parameters = tr("{count} parameters").format(count=parameters_text(self.parameters)) if self.parameters else ""
        size = size_text(self.bytes) if self.bytes else ""
        size = tr("about {size}").format(size=size) if size and self.is_estimate else size
        used = _used_text(self.last_used) if self.last_used else ""
        here = "" if self.of_hub else tr(self.where.value)
        return "  ·  ".join(filter(None, (parameters, self.format, size, here, self.licence, self.family, used)))


def _used_text(last_used: float) -> str:
    """When it was used, in so few words that a line has room for them: the tip tells the day."""
    day, today = datetime.fromtimestamp(last_used, UTC).astimezone(), datetime.now(UTC).astimezone()
    days = (today.date() - day.date()).days
    if days in (0, 1):
        return tr("used yesterday") if days else tr("used today")
    month = QLocale().standaloneMonthName(day.month, QLocale.FormatType.ShortFormat)
    if day.year == today.year:
        return tr("used {day} {month}").format(day=day.day, month=month)
    return tr("used {month} {year}").format(month=month, year=day.year)


def parameters_text(parameters: int) -> str:
    """A number of parameters as models are called by it, such as `32.8 B`."""
    for unit, size in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if parameters >= size:
            count = parameters / size
            return f"{count:.0f} {unit}" if count >= 99.95 else f"{Number(count):.1f} {unit}"
    return str(parameters)


def found_entry(row: ModelRow) -> Entry:
    """A result of a search."""
    return Entry(
        key=row.repo,
        name=row.repo,
        source=row.repo,
        where=Where.HUB,
        parameters=row.parameters,
        bytes=row.weight_bytes,
        format=", ".join(row.formats),
        licence=row.licence,
        gated=row.gated,
        family=row.model_type,
        revision=row.revision,
        has_variants=row.has_variants,
        needs_variant=row.has_variants and not row.has_safetensors,
        sight=Sight.READS if row.reads_pictures else Sight.NONE,
    )


def variant_entry(entry: Entry, choice: VariantChoice) -> Entry:
    """A repository's line, but of one of its variants."""
    return replace(
        entry,
        key=choice.source,
        name=choice.source,
        source=choice.source,
        bytes=choice.bytes,
        is_estimate=False,
        format=f"{GGUF} {choice.name}" if choice.name else entry.format.removesuffix(f", {GGUF}"),
        revision=choice.revision,
        needs_variant=False,
        sight=Sight.NONE if choice.name else entry.sight,
        suggestion=entry.suggestion if choice.source == entry.source else None,
    )


def suggested_entry(suggestion: Suggestion, room: Room, is_here: bool) -> Entry:
    """A pair for a common card; `is_here`: its target has been downloaded."""
    target = suggestion.target
    return Entry(
        key=target.repo,
        name=target.repo,
        source=target.repo,
        where=Where.HUB,
        parameters=target.parameters,
        bytes=target.bytes,
        format=target.format,
        licence=target.licence,
        gated="manual" if target.gated else "",
        about=tr(suggestion.about),
        weights=suggestion.weights,
        has_variants=GGUF in target.format,
        is_estimate=target.estimated,
        suggestion=suggestion,
        guess=_guess(suggestion, room, is_here),
    )


def _guess(suggestion: Suggestion, room: Room, is_here: bool) -> Verdict:
    """What its size alone tells; nothing of a pair that fits."""
    if not room.fits_disk(suggestion, is_here):
        words = tr("Larger than what is free on the disk: {size}").format(size=size_text(room.disk_bytes or 0))
        return Verdict(words, Tone.BAD, fits=False)
    if not room.fits_memory(suggestion):
        words = tr("Larger than the memory of this computer: streams from SSD, slowly")
        return Verdict(words, Tone.SLOW, fits=False)
    return UNKNOWN


_PLACES = {
    Home.HUB_CACHE: Where.CACHE,
    Home.FOLDER: Where.FOLDER,
    Home.LM_STUDIO: Where.LM_STUDIO,
    Home.OLLAMA: Where.OLLAMA,
    Home.JAN: Where.JAN,
    Home.LLAMA_CPP: Where.LLAMA_CPP,
}


_HEAD = mark("It is a head that drafts for a larger model: choose that one, and this as its draft.")


def local_entry(model: LocalModel, last_used: float = 0.0) -> Entry:
    """A model in the hub's cache, in a folder, or in that of another program; `last_used`: 0 if it never was."""
    cached = model.home is Home.HUB_CACHE
    return Entry(
        key=model.source,
        name=model.name,
        source=model.source,
        where=_PLACES[model.home],
        bytes=model.bytes,
        format=model.format,
        family=model.model_type,
        about="" if cached else str(model.files[0] if model.files else model.folder),
        last_used=last_used,
        problem=model.problem or (tr(_HEAD) if model.is_head else ""),
        remedy=model.remedy,
        sight=model.sight,
        local=model,
    )


def prepared_entry(copy: PreparedCopy) -> Entry:
    """Layers in another type of numbers, as the engine made them; loading it loads its source in these."""
    return Entry(
        key=f"prepared:{copy.folder}",
        name=f"{copy.name}, {copy.weights}",
        source=copy.source,
        where=Where.PREPARED,
        bytes=copy.bytes,
        format=copy.weights,
        about=tr("{layers}, made from {source}").format(layers=tr("%n layers", n=copy.layers), source=copy.source),
        problem="" if copy.complete else tr("It is not complete; loading its model again completes it."),
        weights=copy.weights,
        prepared=copy,
    )


def demo_entry() -> Entry:
    """The embedded pair, which is always there."""
    return Entry(
        key=EMBEDDED,
        name=tr("Embedded demo"),
        source=EMBEDDED,
        where=Where.SHIPPED,
        parameters=_DEMO_PARAMETERS,
        format=PLAIN,
        about=tr("A tiny pair that shows how everything works, at once and without a download."),
    )


class Size(Enum):
    """Ranges of parameters, as (title, from, below)."""

    ANY = (mark("Any size"), 0, 0)
    SMALL = (mark("Up to 4 B parameters"), 0, 4_500_000_000)
    MEDIUM = (mark("4 to 15 B"), 4_500_000_000, 15_500_000_000)
    LARGE = (mark("15 to 40 B"), 15_500_000_000, 40_500_000_000)
    HUGE = (mark("More than 40 B"), 40_500_000_000, 0)

    @property
    def title(self) -> str:
        """For people."""
        title, _, _ = self.value
        return tr(title)

    def holds(self, parameters: int) -> bool:
        """Whether a number lies in the range; one that is not known lies in all."""
        _, least, below = self.value
        return not parameters or (parameters >= least and (not below or parameters < below))


@dataclass(frozen=True, slots=True)
class Filter:
    """`words` must all be in the name; `runs_here` hides what is known not to, `sees` what reads no pictures."""

    words: str = ""
    size: Size = Size.ANY
    runs_here: bool = False
    sees: bool = False

    def passes(self, entry: Entry, verdict: Verdict) -> bool:
        """Whether the line is shown."""
        name = entry.name.casefold()
        return (
            not (self.runs_here and (entry.guess.fits if verdict.fits is None else verdict.fits) is False)
            and not (self.sees and entry.sight is not Sight.READS)
            and self.size.holds(entry.parameters)
            and all(word in name for word in self.words.casefold().split())
        )

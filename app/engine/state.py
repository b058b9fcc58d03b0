"""What the engine is doing, as plain data with words for people."""

from dataclasses import dataclass
from enum import Enum

from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.i18n.units import time_text
from engine.protocol.messages import Loaded


class Phase(Enum):
    """Where the engine stands between its start and its end."""

    STARTING = "starting"
    LOADING = "loading"
    EMPTY = "empty"
    READY = "ready"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class EngineState:
    """The engine at one moment. `pair` is what is loaded, if anything.

    `stage`, `done` and `total` describe a load; `seconds_left` how long this stage of it will take, None if unknown.
    `host`: where the engine is, if it is elsewhere; the pair is what is known of its model. `speculates_as_asked`: not
    as it was started. `unheld`: the kinds of `Constraint` that this engine cannot be told of.
    """

    phase: Phase = Phase.STARTING
    stage: str = ""
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    pair: Loaded | None = None
    host: str = ""
    speculates_as_asked: bool = True
    unheld: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether a question would be answered now."""
        return self.phase is Phase.READY

    @property
    def busy(self) -> bool:
        """Whether a question would be answered a little later."""
        return self.phase in (Phase.STARTING, Phase.LOADING)

    @property
    def no_pictures(self) -> str:
        """Why what is loaded cannot be shown pictures, in a sentence; empty where it can, or where nobody knows."""
        if self.pair is None or self.pair.reads_pictures:
            return ""
        return translated(self.pair.no_pictures) or tr("{model} reads no pictures.").format(model=self.pair.target.name)

    @property
    def words(self) -> str:
        """The state as a short sentence without a full stop."""
        match self.phase:
            case Phase.STARTING | Phase.STOPPED if self.host:
                is_trying = self.phase is Phase.STARTING
                words = tr("Connecting to {host}") if is_trying else tr("Not connected to {host}")
                return words.format(host=self.host)
            case Phase.STARTING:
                return tr("Starting engine")
            case Phase.LOADING:
                step = tr(" ({step} of {total})") if self.total > 1 else ""
                left = tr(", {time} left") if self.seconds_left is not None else ""
                return (translated(self.stage) or tr("Loading")) + (step + left).format(
                    step=min(self.done + 1, self.total), total=self.total, time=time_text(self.seconds_left or 0)
                )
            case Phase.EMPTY:
                return tr("No model loaded")
            case Phase.STOPPED:
                return tr("Engine stopped")
            case Phase.READY:
                return tr("Ready: {pair}").format(pair=self.described_pair) if self.pair else tr("Ready")

    @property
    def described_pair(self) -> str:
        """What is loaded, in words; of an engine elsewhere, such as `qwen3 @ cluster:8000`."""
        if self.pair is None:
            return ""
        return self.answerer if self.host else describe_pair(self.pair)

    @property
    def answerer(self) -> str:
        """Who writes the answers of now, as the conversation remembers it."""
        if self.pair is None:
            return ""
        if self.host:
            return f"{self.pair.target.name} @ {self.host}"
        names = (self.pair.target.name, self.pair.draft.name if self.pair.draft else "")
        return " + ".join(filter(None, names))


def describe_pair(pair: Loaded) -> str:
    """Such as `demo-target + demo-draft on cpu, float32`, with how many layers, or experts of these, come from where.

    Behind that stands what of the target is not used.
    """
    names = pair.target.name if pair.draft is None else f"{pair.target.name} + {pair.draft.name}"
    only_experts = pair.residence is not None and pair.residence.only_experts
    layers = tr("{count} of {total} layers from {place}")
    said = tr("experts of {count} of {total} layers from {place}") if only_experts else layers
    streamed = [
        said.format(count=pair.tiers.count(tier), total=len(pair.tiers), place=place)
        for tier, place in (("ram", "RAM"), ("ssd", "SSD"))
        if tier in pair.tiers
    ]
    where = tr("{models} on {device}").format(models=names, device=pair.target.device)
    words = ", ".join([where, pair.target.weights, *streamed])
    return f"{words}. {translated(pair.target.note)}" if pair.target.note else words

"""What the engine is doing, as plain data with words for people."""

from dataclasses import dataclass
from enum import Enum

from engine.messages import Loaded


class Phase(Enum):
    """Where the engine stands between its start and its end."""

    STARTING = "starting"
    LOADING = "loading"
    EMPTY = "empty"
    READY = "ready"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class EngineState:
    """The engine at one moment. `stage`, `done` and `total` describe a load; `pair` is what is loaded, if anything."""

    phase: Phase = Phase.STARTING
    stage: str = ""
    done: int = 0
    total: int = 0
    pair: Loaded | None = None

    @property
    def ready(self) -> bool:
        """Whether a question would be answered now."""
        return self.phase is Phase.READY

    @property
    def busy(self) -> bool:
        """Whether a question would be answered a little later."""
        return self.phase in (Phase.STARTING, Phase.LOADING)

    @property
    def words(self) -> str:
        """The state as a short sentence without a full stop."""
        match self.phase:
            case Phase.STARTING:
                return "Starting engine"
            case Phase.LOADING:
                step = f" ({min(self.done + 1, self.total)} of {self.total})" if self.total > 1 else ""
                return f"{self.stage or 'Loading'}{step}"
            case Phase.EMPTY:
                return "No model loaded"
            case Phase.STOPPED:
                return "Engine stopped"
            case Phase.READY:
                return "Ready" if self.pair is None else f"Ready: {describe_pair(self.pair)}"


def describe_pair(pair: Loaded) -> str:
    """Such as `demo-target + demo-draft on cpu, float32`, with how many layers are streamed, and from where."""
    names = pair.target.name if pair.draft is None else f"{pair.target.name} + {pair.draft.name}"
    streamed = [
        f"{pair.tiers.count(tier)} of {len(pair.tiers)} layers from {place}"
        for tier, place in (("ram", "RAM"), ("ssd", "SSD"))
        if tier in pair.tiers
    ]
    return ", ".join([f"{names} on {pair.target.device}", pair.target.weights, *streamed])

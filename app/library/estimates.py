"""How a model would run here, in words; and the terms that this depends on."""

from dataclasses import dataclass

from app.i18n.number_text import Number
from app.i18n.sentences import translated
from app.i18n.translation import tr
from engine.protocol.messages import Appraised
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


@dataclass(frozen=True, slots=True)
class Pricing:
    """A pair to be estimated. `key` is the caller's name for it; sources are the engine's, or folders of facts."""

    key: str
    target: str
    draft: str = "none"

    def options(self, terms: Terms) -> LoadOptions:
        """What the engine is asked about."""
        return LoadOptions(
            target=self.target,
            draft=self.draft,
            device=terms.device,
            weights=terms.weights,
            context_tokens=terms.context_tokens,
            budget=terms.budget,
            place=terms.place,
            cache_dir=terms.cache_dir,
            vram_limit_bytes=terms.vram_limit_bytes,
            ram_limit_bytes=terms.ram_limit_bytes,
        )


def in_words(found: Appraised) -> str:
    """Such as "Streams from RAM, about 9 tokens/s"; a sentence without a full stop, or with a reason."""
    if found.verdict == "no":
        if not found.tiers:
            return tr("Cannot be used: {reason}").format(reason=translated(found.reason))
        return tr("Does not fit, because {reason}").format(reason=translated(found.reason))
    if found.verdict == "device":
        words = tr("Runs on the GPU, about {rate}") if found.device == "cuda" else tr("Runs on the CPU, about {rate}")
    else:
        is_ram = found.verdict == "offload"
        words = tr("Streams from RAM, about {rate}") if is_ram else tr("Streams from SSD, about {rate}")
    return words.format(rate=rate_text(found.tokens_per_second))


def rate_text(tokens_per_second: float) -> str:
    """A speed with as many digits as an estimate deserves."""
    if tokens_per_second >= 9.5:
        return tr("{rate:.0f} tokens/s").format(rate=Number(tokens_per_second))
    if tokens_per_second >= 0.095:
        return tr("{rate:.1f} tokens/s").format(rate=Number(tokens_per_second))
    return tr("{rate:.2f} tokens/s").format(rate=Number(tokens_per_second))

"""Whether the next answer will use speculation, and the reason if not."""

from dataclasses import dataclass

from app.engine.state import EngineState
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.settings.generation import GenerationSettings
from engine.protocol.messages import Loaded, Statistics

_WITHOUT_DRAFT = ("auto", "lookup")
_SWITCHED_OFF = mark("Speculation is switched off.")  # the engine's words for what a person chose


@dataclass(frozen=True, slots=True)
class SpeculationState:
    """`is_on` is what was chosen for the chat, `works` whether anything comes of it; `reason` says why.

    `is_its_own`: an engine elsewhere does as it was started, whatever is chosen here.
    """

    is_on: bool
    works: bool
    reason: str
    is_its_own: bool = False

    @property
    def words(self) -> str:
        """On one small button."""
        if self.is_its_own:
            return tr("The engine's own speculation")
        if not self.is_on:
            return tr("Speculation off")
        return tr("Speculation on") if self.works else tr("No speculation")


def speculation_state(generation: GenerationSettings, engine: EngineState, last: Statistics | None) -> SpeculationState:
    """`last` are the figures of the last answer, which may know more."""
    if engine.speculates_as_asked:
        return _as_asked(generation, engine.pair, last)
    reason = tr("{host} speculates, or does not, as it was started there.").format(host=engine.host)
    return SpeculationState(True, True, reason, is_its_own=True)


def _as_asked(generation: GenerationSettings, pair: Loaded | None, last: Statistics | None) -> SpeculationState:
    if not generation.speculates or generation.method == "none":
        return SpeculationState(False, False, tr("Switched off for this chat: the target writes token by token."))
    if pair is None:
        return SpeculationState(True, True, tr("No model is loaded."))  # what was chosen stands; the rest is not known
    if pair.draft is None and generation.method not in _WITHOUT_DRAFT:
        reason = tr("The method {method} needs a draft model; none is loaded.").format(method=generation.method)
        return SpeculationState(True, False, reason)
    if last and last.note == _SWITCHED_OFF:
        last = None  # that was another choice, and tells nothing of the next answer
    note = ""
    if last and last.note:
        note = " " + tr("Of the last answer: {note}").format(note=translated(last.note))
    if pair.draft is None:
        said = tr("No draft model is loaded: only what the text repeats is guessed.")
        return SpeculationState(True, True, said + note)
    if last and last.passes and last.is_plain:
        return SpeculationState(True, False, tr("The last answer was written without.") + note)
    said = tr("{name} guesses ahead.").format(name=pair.draft.name)
    if pair.common_tokens:
        said += " " + translated(pair.common_tokens.words)
    return SpeculationState(True, True, said + note)

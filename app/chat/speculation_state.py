"""Whether the next answer will be speculated on, and why not if not."""

from dataclasses import dataclass

from app.settings import GenerationSettings
from engine.messages import Loaded, Statistics

_WITHOUT_DRAFT = ("auto", "lookup")


@dataclass(frozen=True, slots=True)
class SpeculationState:
    """`is_on` is what was chosen for the chat, `works` whether anything comes of it; `reason` says why."""

    is_on: bool
    works: bool
    reason: str

    @property
    def words(self) -> str:
        """On one small button."""
        if not self.is_on:
            return "Speculation off"
        return "Speculation on" if self.works else "No speculation"


def speculation_state(generation: GenerationSettings, pair: Loaded | None, last: Statistics | None) -> SpeculationState:
    """`last` are the figures of the last answer, which may know more."""
    if not generation.speculates or generation.method == "none":
        return SpeculationState(False, False, "Switched off for this chat: the target writes token by token.")
    if pair is None:
        return SpeculationState(True, False, "No model is loaded.")
    if pair.draft is None and generation.method not in _WITHOUT_DRAFT:
        return SpeculationState(True, False, f"The method {generation.method} needs a draft model; none is loaded.")
    note = f" Of the last answer: {last.note}" if last and last.note else ""
    if pair.draft is None:
        return SpeculationState(True, True, f"No draft model is loaded: only what the text repeats is guessed.{note}")
    if last and last.passes and last.method == "none":
        return SpeculationState(True, False, f"The last answer was written without.{note}")
    return SpeculationState(True, True, f"{pair.draft.name} guesses ahead.{note}")

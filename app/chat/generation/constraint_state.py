"""What the next answer will be held to, in words for a small button, and whether the engine is told of it."""

from dataclasses import dataclass

from app.engine.state import EngineState
from app.i18n.sentences import error_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.settings.constraints import ANY_JSON, GRAMMAR, JSON_SCHEMA, REGEX
from app.settings.generation import CONSTRAINT, GenerationSettings
from engine.errors import InputError

_SHORT = {
    JSON_SCHEMA: mark("JSON schema"),
    ANY_JSON: mark("JSON"),
    REGEX: mark("Pattern"),
    GRAMMAR: mark("Grammar"),
}
"""Beside the other tools of the composer there is little room."""


@dataclass(frozen=True, slots=True)
class ConstraintState:
    """`words` stand on the button, empty while answers are free; `is_wrong`: no answer can be held to this."""

    words: str = ""
    explanation: str = ""
    is_wrong: bool = False


def constraint_state(generation: GenerationSettings, engine: EngineState) -> ConstraintState:
    """Of a chat with these settings, with the engine as it is."""
    constraint = generation.options().constraint
    if constraint is None:
        return ConstraintState()
    name = next(tr(words) for value, words in CONSTRAINT.choices if value == generation.constraint)
    if constraint.kind in engine.unheld:
        reason = tr("{name}: {host} cannot be told of it, so answers are not held to it.")
        return ConstraintState(tr("Constraint not sent"), reason.format(name=name, host=engine.host), is_wrong=True)
    try:
        generation.check_constraint()
    except InputError as error:
        return ConstraintState(tr("Constraint is wrong"), error_text(error), is_wrong=True)
    words = tr("Structured output: every answer of this chat is held to its form.")
    return ConstraintState(tr(_SHORT[generation.constraint]), words)

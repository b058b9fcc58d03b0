"""Pairs of models that go well together on common machines, from a file that is shipped with the application."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from app.hub.formats import PLAIN
from app.system import json_text as json
from app.system.paths import resource


@dataclass(frozen=True, slots=True)
class SuggestedModel:
    """A model on the hub, `org/name` or a variant of it, `org/name:Q4_K_M`.

    `bytes`: of its weights as downloaded, until the hub has been asked; `gated`: its licence must be accepted there
    first; `format`: of its weights; `estimated`: its bytes are arithmetic, parameters times bits; `active`: of a
    mixture, the parameters that one token is computed with.
    """

    repo: str
    parameters: int
    bytes: int
    licence: str
    gated: bool
    format: str = PLAIN
    estimated: bool = False
    active: int = 0

    @property
    def computed(self) -> int:
        """The parameters that one token is computed with."""
        return self.active or self.parameters


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A target, and a draft of the same family; `about` is a sentence, in English.

    `weights`: how to hold the target; `vram_gb` and `ram_gb`: the least of each that it runs well with.
    """

    title: str
    about: str
    target: SuggestedModel
    draft: SuggestedModel | None
    weights: str
    vram_gb: int
    ram_gb: int


@cache
def suggestions() -> tuple[Suggestion, ...]:
    """All of them, in the order in which they are to be shown."""
    with resource("suggestions.json").open(encoding="utf-8") as file:
        content: dict[str, Any] = json.loads(file.read())
    models = {each["repo"]: SuggestedModel(**each) for each in content["models"]}
    return tuple(
        Suggestion(
            title=pair["title"],
            about=pair["about"],
            target=models[pair["target"]],
            draft=models[pair["draft"]] if pair["draft"] else None,
            weights=pair["weights"],
            vram_gb=pair["vram_gb"],
            ram_gb=pair["ram_gb"],
        )
        for pair in content["pairs"]
    )

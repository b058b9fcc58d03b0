"""What a person has set, kept in one JSON file."""

import json
import logging
import secrets
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from engine.errors import InputError
from engine.options import EMBEDDED, GenerateOptions, SamplingOptions, SpeculationOptions

_log = logging.getLogger(__name__)

RANDOM_SEED = -1
_SEEDS = 2**31

_Record = TypeVar("_Record", "GenerationSettings", "Settings")


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """How answers are drawn and speculated on. `seed` -1 draws a new seed for every answer; `budget` 0 is automatic."""

    method: str = "auto"
    budget: int = 0
    temperature: float = 0.6
    top_p: float = 0.9
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = RANDOM_SEED
    max_new_tokens: int = 512
    system_prompt: str = ""

    def options(self) -> GenerateOptions:
        """The options of the next answer; a random seed is drawn here."""
        return GenerateOptions(
            sampling=SamplingOptions(
                temperature=self.temperature,
                top_p=self.top_p,
                top_k=self.top_k,
                min_p=self.min_p,
                repetition_penalty=self.repetition_penalty,
                seed=secrets.randbelow(_SEEDS) if self.seed == RANDOM_SEED else self.seed,
            ),
            speculation=SpeculationOptions(method=self.method, budget=self.budget),
            max_new_tokens=self.max_new_tokens,
        )

    def check(self) -> None:
        """Raise `InputError` if a field is outside its range."""
        self.options().check()


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that outlives the window. `geometry` and `docks` are Qt's own state, in base 64."""

    geometry: str = ""
    docks: str = ""
    target: str = EMBEDDED
    draft: str = "auto"
    generation: GenerationSettings = field(default_factory=GenerationSettings)


class SettingsFile:
    """The settings and the file they live in; every change is written at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.current = _read(path)

    def change(self, **changes: Any) -> None:
        """Replace the named fields of `Settings` and write the file; a full disk is logged, not raised."""
        changed = replace(self.current, **changes)
        if changed == self.current:
            return
        self.current = changed
        try:
            _write(self._path, changed)
        except OSError as error:
            _log.warning("The settings could not be written to %s: %s", self._path, error)


def _read(path: Path) -> Settings:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError) as error:
        _set_aside(path, error)
        return Settings()
    return _fill(Settings(), stored)


def _set_aside(path: Path, error: Exception) -> None:
    """A file we cannot read is kept for its owner, never overwritten."""
    aside = path.with_suffix(".damaged.json")
    _log.warning("The settings in %s cannot be read (%s); they were moved to %s", path, error, aside)
    try:
        path.replace(aside)
    except OSError as failure:
        _log.warning("They could not be moved: %s", failure)


def _fill(defaults: _Record, stored: object) -> _Record:
    """`defaults` with every stored value that has the right name, type and range."""
    if not isinstance(stored, dict):
        return defaults
    known: dict[str, Any] = {}
    for each in fields(defaults):
        default, value = getattr(defaults, each.name), stored.get(each.name)
        if isinstance(default, GenerationSettings):
            known[each.name] = _checked(_fill(default, value))
        elif type(value) is type(default):
            known[each.name] = value
        elif isinstance(default, float) and type(value) is int:
            known[each.name] = float(value)
    return replace(defaults, **known)


def _checked(generation: GenerationSettings) -> GenerationSettings:
    try:
        generation.check()
    except InputError:
        return GenerationSettings()
    return generation


def _write(path: Path, settings: Settings) -> None:
    """Write beside the old file and swap, so that a crash leaves one or the other."""
    beside = path.with_suffix(".new.json")
    beside.write_text(json.dumps(asdict(settings), indent=2) + "\n", encoding="utf-8")
    beside.replace(path)

"""Mutated model folders: each is refused in a sentence, or it works."""

import random
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from engine.errors import CoppiceError
from tests.campaigns.outcome import Kind, Outcome


def model_cases(folder: Path, seeds: range) -> Iterator[Outcome]:
    """Open one mutated model folder per seed in every way the engine does; a wrong one is refused in a sentence."""
    maker = import_module("tests.engine.model_mutations")
    (folder / "seeds").mkdir(exist_ok=True)
    whole = maker.make_seeds(folder / "seeds")
    for seed in seeds:
        mutated = next(maker.mutations(random.Random(seed), folder, whole))
        try:
            refusal = maker.open_model(mutated.folder)
        except CoppiceError as error:
            refusal = error.message
        except Exception as error:  # noqa: BLE001 # any other is what this looks for
            yield Outcome(seed, Kind.TRACEBACK, f"{mutated.what}: {type(error).__name__}: {error}"[:500])
            continue
        yield Outcome(seed, Kind.TOLD if refusal else Kind.SURVIVED, refusal[:200])

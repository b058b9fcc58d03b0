"""What the answers of a pair have taught, kept in the cache folder, so that the next start is warm."""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from engine.loading.loading import cache_root
from engine.loading.pair import Pair
from engine.loading.pair_measurement import names_of, placement_of
from engine.protocol.options import GenerateOptions
from engine.speculation.methods.acceptance_counts import AcceptanceCounts
from engine.speculation.methods.calibration import Calibration
from engine.speculation.tuning.throughput_model import ThroughputModel
from engine.weights.store.atomic_file import replaced_atomically

VERSION = 5
LARGEST_FILE = 1 << 20  # bytes; one of ours has some 20,000
ANEW = "It is learnt anew."


@dataclass(slots=True)
class Lessons:
    """What holds for one way of sampling: how the draft's word is to be taken, and what trees give and cost."""

    calibration: Calibration = field(default_factory=Calibration)
    acceptance: AcceptanceCounts = field(default_factory=AcceptanceCounts)
    prospects: ThroughputModel = field(default_factory=ThroughputModel)

    @property
    def size(self) -> int:
        """How much has been learnt; grows with every round."""
        return self.calibration.observations + self.prospects.rounds + self.acceptance.rounds


class LessonsFiles:
    """The files of one pair where it is now: one for every way of sampling and of speculating.

    Of the settings all count but the seed, the method and the budget.
    """

    def __init__(self, pair: Pair, tiers: Sequence[str], device: str) -> None:
        """`tiers`: where each layer of the target is now."""
        self._folder = cache_root(pair.options) / "learnt"
        self._identity = {
            **names_of(pair),
            "placement": placement_of(tiers, device),
            "threads": torch.get_num_threads(),
            "overlap": pair.options.overlap,
        }
        self._refused: set[Path] = set()  # files that are not ours to replace

    def path(self, options: GenerateOptions) -> Path:
        """Where the lessons under these settings belong."""
        text = json.dumps([self._identity, settings_of(options)], sort_keys=True)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def remember(self, options: GenerateOptions, lessons: Lessons) -> None:
        """Keep them, whole or not at all. A folder that cannot be written means learning again next time."""
        path = self.path(options)
        if path in self._refused:
            return
        learnt = {
            "calibration": lessons.calibration.state,
            "prospects": lessons.prospects.state,
            "acceptance": lessons.acceptance.state,
        }
        document = {"version": VERSION, **self._identity, "settings": settings_of(options), "learnt": learnt}
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with replaced_atomically(path) as file:
                file.write(json.dumps(document).encode())

    def recall(self, options: GenerateOptions) -> tuple[Lessons | None, str]:
        """What was learnt under these settings, and in a sentence why it cannot be used, if there is such a file."""
        path = self.path(options)
        try:
            with path.open("rb") as file:
                content = file.read(LARGEST_FILE)
        except FileNotFoundError:
            return None, ""
        except OSError as error:
            return None, f"What this pair taught before cannot be read: {path}: {error.strerror}. {ANEW}"
        try:
            return self._parsed(json.loads(content), options, path), ""
        except _RefusedError as refused:
            return None, f"What this pair taught before is not used: {path} {refused}. {ANEW}"
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return None, f"What this pair taught before is not used: {path} is damaged. {ANEW}"

    def _parsed(self, document: Any, options: GenerateOptions, path: Path) -> Lessons:
        if document["version"] > VERSION:
            self._refused.add(path)
            raise _RefusedError("was written by a newer version, and stays as it is")
        if document["version"] != VERSION:
            raise _RefusedError("was written by an older version")
        if {**self._identity, "settings": settings_of(options)} != {
            name: document[name] for name in (*self._identity, "settings")
        }:
            raise _RefusedError("is about another pair, place or way of sampling")
        learnt = document["learnt"]
        return Lessons(
            Calibration.restored(learnt["calibration"]),
            AcceptanceCounts.restored(learnt["acceptance"]),
            ThroughputModel.restored(learnt["prospects"]),
        )


class _RefusedError(Exception):
    """A sound file that is not to be used; tells why, in words that follow its path."""


def settings_of(options: GenerateOptions) -> dict[str, Any]:
    """What the lessons depend on: how tokens are drawn, and how they are drafted."""
    sampling, speculation = replace(options.sampling, seed=0), replace(options.speculation, method="auto", budget=0)
    prescribed = ("expansions", "grow_map")  # shapes of other methods' trees
    settings = {**asdict(sampling), **asdict(speculation)}
    return {name: value for name, value in settings.items() if name not in prescribed}

"""How a pair accepts and how long its passes take, as measured by `bench --calibrate`, kept in the cache folder."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.loading.loading import cache_root
from engine.loading.pair import Pair
from engine.loading.preparation import source_fingerprint
from engine.protocol.options import NO_DRAFT, SELF_DRAFT, SamplingOptions
from engine.speculation.trees.acceptance_vector import AcceptanceVector, checked
from engine.speculation.tuning.pass_time import PassTime
from engine.weights.store.atomic_file import replaced_atomically

VERSION = 1
AGAIN = "Measure it with `bench --calibrate`."


@dataclass(frozen=True, slots=True)
class PairMeasurement:
    """`placement` tells where the layers were; the times are worth something only there."""

    acceptance: AcceptanceVector
    placement: str
    draft_seconds: PassTime
    target_seconds: PassTime


class PairMeasurements:
    """The files of one pair, one for every way of sampling; of the settings all count but the seed."""

    def __init__(self, pair: Pair, tiers: Sequence[str], device: str) -> None:
        """`tiers`: where each layer of the target is now. Raises `InputError` for a pair without a draft."""
        if pair.draft is None and not pair.drafts_itself:
            raise InputError("Without a draft model there is nothing to measure.", "Choose a draft.")
        self.placement = placement_of(tiers, device)
        self._folder = cache_root(pair.options) / "acceptance"
        self._pair = names_of(pair)

    def path(self, sampling: SamplingOptions) -> Path:
        """Where the measurement under these settings belongs."""
        text = json.dumps([self._pair, _settings(sampling)])
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def remember(self, sampling: SamplingOptions, measured: PairMeasurement) -> Path:
        """Keep it, whole or not at all; returns where. Raises `OSError` if the folder cannot be written."""
        document: dict[str, Any] = {
            "version": VERSION,
            **self._pair,
            "sampling": _settings(sampling),
            **asdict(measured),
        }
        for name in ("draft_seconds", "target_seconds"):
            document[name]["nodes"] = document[name].pop("rows")
        self._folder.mkdir(parents=True, exist_ok=True)
        with replaced_atomically(self.path(sampling)) as file:
            file.write(json.dumps(document, indent=1).encode())
        return self.path(sampling)

    def recall(self, sampling: SamplingOptions) -> tuple[PairMeasurement | None, str]:
        """What was measured under these settings, and why there is nothing if there is nothing."""
        path = self.path(sampling)
        if not path.exists():
            return None, f"The acceptance of this pair was never measured with these settings. {AGAIN}"
        try:
            return self.read(path), ""
        except InputError as error:
            return None, str(error)

    def read(self, path: Path) -> PairMeasurement:
        """A file that somebody named. Raises `InputError` if it is none of this pair's."""
        try:
            document = json.loads(path.read_bytes())
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.", "Check the path.") from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is damaged: it is not valid JSON.", AGAIN) from error
        if not isinstance(document, dict) or document.get("version") != VERSION or not document.get("acceptance"):
            raise InputError(f"{path} holds no measured acceptance.", AGAIN)
        if any(document.get(name) != value for name, value in self._pair.items()):
            raise InputError(f"{path} was measured with another pair, or before its files changed.", AGAIN)
        try:
            return _parsed(document)
        except (InputError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is damaged: what it holds are no measurements.", AGAIN) from error


def names_of(pair: Pair) -> dict[str, str]:
    """What tells a pair from others, and from itself once its files have changed."""
    return {
        "target": source_fingerprint(pair.target),
        "draft": source_fingerprint(pair.draft) if pair.draft else SELF_DRAFT if pair.drafts_itself else NO_DRAFT,
        "weights": pair.options.weights,
    }


def placement_of(tiers: Sequence[str], device: str) -> str:
    """Where a target's layers are, in words."""
    return f"{device}, layers " + " ".join(f"{tier} {tiers.count(tier)}" for tier in sorted(set(tiers)))


def _settings(sampling: SamplingOptions) -> dict[str, float]:
    return {name: float(value) for name, value in asdict(sampling).items() if name != "seed"}


def _parsed(document: Mapping[str, Any]) -> PairMeasurement:
    acceptance = checked([float(number) for number in document["acceptance"]])
    draft, target = _times(document["draft_seconds"]), _times(document["target_seconds"])
    return PairMeasurement(acceptance, str(document["placement"]), draft, target)


def _times(value: Mapping[str, Any]) -> PassTime:
    nodes = tuple(int(number) for number in value["nodes"])
    seconds = tuple(float(number) for number in value["seconds"])
    ascends = all(low < high for low, high in pairwise(nodes))
    if not nodes or len(nodes) != len(seconds) or nodes[0] < 1 or not ascends:
        raise ValueError("a number of seconds for ascending numbers of nodes")
    if not all(0 < number < math.inf for number in seconds):
        raise ValueError("seconds are above 0")
    return PassTime(nodes, seconds)

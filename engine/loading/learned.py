"""What a pair's answers and measurements have taught, kept in the cache folder, so that the next start is warm."""

import hashlib
import json
import math
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from engine.errors import InputError
from engine.loading.loading import cache_root
from engine.loading.pair import Pair
from engine.loading.planning import AUTO_BUDGET, pair_key
from engine.loading.preparation import source_fingerprint
from engine.loading.rates import LastAnswer, RatesFile
from engine.protocol.messages import Statistics
from engine.protocol.options import (
    NO_DRAFT,
    SELF_DRAFT,
    GenerateOptions,
    LoadOptions,
    SamplingOptions,
    SpeculationOptions,
)
from engine.speculation.method import Method, Sampling
from engine.speculation.methods.acceptance_counts import AcceptanceCounts
from engine.speculation.methods.autoregression import Autoregression
from engine.speculation.methods.calibration import Calibration
from engine.speculation.methods.lookup import Lookup
from engine.speculation.strategy import Fixed, Strategy
from engine.speculation.trees.acceptance_vector import AcceptanceVector, checked
from engine.speculation.tuning.auto import Auto
from engine.speculation.tuning.curve import Curve
from engine.speculation.tuning.hiding import Hiding
from engine.speculation.tuning.prospect import Prospects
from engine.speculation.tuning.tree_size import PassTimes
from engine.weights.store.atomic_file import replaced_atomically

VERSION = 4
LARGEST_FILE = 1 << 20  # bytes; one of ours has some 20,000
ANEW = "It is learnt anew."

SAME_TEXT = ("specexec", "lookup")
"""Methods whose text is the target's own for the same seed, so that one can take over from another unnoticed."""
LARGEST = 1024  # nodes of a tree that is chosen automatically, where there is memory for so many

LEAST_PASSES = 8  # fewer say little

MEASUREMENT_VERSION = 1
AGAIN = "Measure it with `bench --calibrate`."


@dataclass(slots=True)
class LearnedState:
    """What holds for one way of sampling: how the draft's word is to be taken, and what trees give and cost."""

    calibration: Calibration = field(default_factory=Calibration)
    acceptance: AcceptanceCounts = field(default_factory=AcceptanceCounts)
    prospects: Prospects = field(default_factory=Prospects)

    @property
    def size(self) -> int:
        """How much has been learnt; grows with every round."""
        return self.calibration.observations + self.prospects.rounds + self.acceptance.rounds


class LearnedFiles:
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

    def remember(self, options: GenerateOptions, state: LearnedState) -> None:
        """Keep them, whole or not at all. A folder that cannot be written means learning again next time."""
        path = self.path(options)
        if path in self._refused:
            return
        learnt = {
            "calibration": state.calibration.state,
            "prospects": state.prospects.state,
            "acceptance": state.acceptance.state,
        }
        document = {"version": VERSION, **self._identity, "settings": settings_of(options), "learnt": learnt}
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with replaced_atomically(path) as file:
                file.write(json.dumps(document).encode())

    def recall(self, options: GenerateOptions) -> tuple[LearnedState | None, str]:
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

    def _parsed(self, document: Any, options: GenerateOptions, path: Path) -> LearnedState:
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
        return LearnedState(
            Calibration.restored(learnt["calibration"]),
            AcceptanceCounts.restored(learnt["acceptance"]),
            Prospects.restored(learnt["prospects"]),
        )


class _RefusedError(Exception):
    """A sound file that is not to be used; tells why, in words that follow its path."""


def settings_of(options: GenerateOptions) -> dict[str, Any]:
    """What the lessons depend on: how tokens are drawn, and how they are drafted."""
    sampling, speculation = replace(options.sampling, seed=0), replace(options.speculation, method="auto", budget=0)
    prescribed = ("expansions", "grow_map")  # shapes of other methods' trees
    settings = {**asdict(sampling), **asdict(speculation)}
    return {name: value for name, value in settings.items() if name not in prescribed}


class Learned:
    """One engine's. How long a pass takes is the same for every way of sampling."""

    def __init__(self, largest_tree: int = LARGEST, files: LearnedFiles | None = None) -> None:
        """`largest_tree`: the drafted nodes that the plan has kept memory for. `files`: None to forget it all."""
        self.complaint = ""  # why what was learnt before cannot be used; for the answer at hand
        self._largest_tree = min(LARGEST, largest_tree)
        self._files = files
        self._passes: Curve | None = None
        self._rests: Curve | None = None
        self._hiding: Hiding | None = None
        self._states: dict[Hashable, tuple[GenerateOptions, LearnedState]] = {}
        self._kept: dict[Hashable, int] = {}  # how much of each had been learnt when it was last written

    def state(self, options: GenerateOptions) -> LearnedState:
        """Those of earlier answers with such settings, as a beginning."""
        key = tuple(settings_of(options).values())
        if key not in self._states:
            found, self.complaint = self._files.recall(options) if self._files else (None, "")
            state = found or LearnedState()
            prospects = state.prospects
            self._passes, self._rests = self._passes or prospects.passes, self._rests or prospects.rests
            self._hiding = self._hiding or prospects.hiding
            prospects.passes, prospects.rests, prospects.hiding = self._passes, self._rests, self._hiding
            self._states[key], self._kept[key] = (options, state), state.size
        return self._states[key][1]

    def acceptance(self, options: GenerateOptions) -> AcceptanceCounts:
        """How the draft's children are accepted, for Sequoia's shapes.

        Kept from answer to answer when greedy. Where tokens are drawn, other shapes draw other text: there every
        answer begins with the prior, so that the same seed gives the same text again.
        """
        return AcceptanceCounts() if options.sampling.temperature else self.state(options).acceptance

    def keep(self) -> None:
        """Write down what was learnt since the last time, for the next start."""
        self.complaint = ""
        for key, (options, state) in self._states.items():
            if self._files and state.size > self._kept[key]:
                self._files.remember(options, state)
                self._kept[key] = state.size

    def strategy(self, method: Method, options: GenerateOptions, sampling: Sampling) -> Strategy:
        """`Auto` where nothing is prescribed that it would choose, else the method with the budget that was asked for.

        `method`: the one for these options. Only `method="auto"` may end in another one, or in no tree.
        """
        speculation = options.speculation
        if speculation.budget or method.name not in SAME_TEXT:
            return Fixed(method, 0 if method.name == "none" else speculation.budget or AUTO_BUDGET)
        methods, plain = [method], None
        if speculation.method == "auto":
            plain = Autoregression(sampling)
            if speculation.lookup and method.name != "lookup":
                methods.append(Lookup(plain, "lookup"))
        return Auto(methods, plain, self.state(options).prospects, self._largest_tree, speculation.depth)


def remember_answer(pair: Pair, speculation: SpeculationOptions, statistics: Statistics) -> None:
    """Keep tokens and seconds per pass of an answer that was drafted for, and long enough, under method and budget."""
    drafts = pair.draft is not None or pair.drafts_itself
    if not drafts or statistics.passes < LEAST_PASSES or not statistics.drafted_nodes:
        return
    key = pair_key(pair.target, pair.draft, pair.options, speculation.budget, speculation.method)
    seconds = statistics.seconds.decode / statistics.passes
    RatesFile(cache_root(pair.options)).remember_answer_of(key, LastAnswer(statistics.tokens_per_pass, seconds))


def recall_answer(pair: Pair, options: LoadOptions, budget: int) -> LastAnswer | None:
    """What was kept for the pair under these options and this budget."""
    return RatesFile(cache_root(options)).recall_answer_of(pair_key(pair.target, pair.draft, options, budget))


@dataclass(frozen=True, slots=True)
class PairMeasurement:
    """`placement` tells where the layers were; the times are worth something only there."""

    acceptance: AcceptanceVector
    placement: str
    draft_seconds: PassTimes
    target_seconds: PassTimes


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
        document = {"version": MEASUREMENT_VERSION, **self._pair, "sampling": _settings(sampling), **asdict(measured)}
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
        if (
            not isinstance(document, dict)
            or document.get("version") != MEASUREMENT_VERSION
            or not document.get("acceptance")
        ):
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


def _times(value: Mapping[str, Any]) -> PassTimes:
    nodes = tuple(int(number) for number in value["nodes"])
    seconds = tuple(float(number) for number in value["seconds"])
    ascends = all(low < high for low, high in pairwise(nodes))
    if not nodes or len(nodes) != len(seconds) or nodes[0] < 1 or not ascends:
        raise ValueError("a number of seconds for ascending numbers of nodes")
    if not all(0 < number < math.inf for number in seconds):
        raise ValueError("seconds are above 0")
    return PassTimes(nodes, seconds)

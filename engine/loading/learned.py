"""What is learned from a pair's answers and measurements, kept in the cache folder for the next start."""

import hashlib
import json
import math
import traceback
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from engine.errors import Cancelled, CoppiceError, InputError
from engine.loading.measurements.tree_record import TreeRecord, size_of_replay
from engine.loading.pair import Pair
from engine.loading.planning import AUTO_BUDGET
from engine.loading.store import CacheFile, UnusableError, cache_root
from engine.own_thread import threads_allowed
from engine.protocol.messages import Statistics
from engine.protocol.options import GenerateOptions, SamplingOptions
from engine.protocol.sentences import joined, reason_of, say
from engine.speculation.experts.costs import ExpertCosts
from engine.speculation.interfaces import Method, NullObserver, TreeBounds
from engine.speculation.method_choice import MethodInputs, choose_method
from engine.speculation.methods.acceptance_rates import AcceptanceCounts, Calibration
from engine.speculation.trees.tree_program import AcceptanceVector, checked
from engine.speculation.tuning.pass_time import MeasuredPasses, PassTime
from engine.speculation.tuning.throughput_model import ThroughputModel
from engine.weights.planning.needs import KvForm

VERSION = 5
ANEW = say("It is learnt anew.")
REFUSALS = {
    "newer": say("was written by a newer version, and stays as it is"),
    "older": say("was written by an older version"),
    "other": say("is about another pair, place or way of sampling"),
}

SAME_TEXT = ("specexec", "lookup")
"""Methods whose text is the target's own for the same seed, so that one can take over from another unnoticed."""
MOST_STATES = 32  # ways of sampling that are known at once
MOST_FILES = 512  # that are kept for the next start, of all pairs
LARGEST = 1024  # nodes of a tree that is chosen automatically, where there is memory for so many

MEASUREMENT_VERSION = 1
AGAIN = say("Measure it with `bench --calibrate`.")
NEVER_MEASURED = say("The acceptance of this pair was never measured with these settings.")


@dataclass(slots=True)
class LearnedState:
    """What holds for one way of sampling: calibration of the draft, and what trees give and cost now, and in all."""

    calibration: Calibration = field(default_factory=Calibration)
    acceptance: AcceptanceCounts = field(default_factory=AcceptanceCounts)
    throughput: ThroughputModel = field(default_factory=ThroughputModel)
    record: TreeRecord = field(default_factory=TreeRecord)

    @property
    def size(self) -> int:
        """How much has been learnt; grows with every round."""
        return self.calibration.observations + self.throughput.rounds + self.acceptance.rounds


class LearnedFiles:
    """What one pair has learned with its layers where they are now: a file for each set of options.

    Of the settings all count but the seed, the method and the budget.
    """

    def __init__(self, pair: Pair, tiers: Sequence[str], device: str, kv_form: KvForm = "computed") -> None:
        """`tiers`: where each layer of the target is now; `kv_form`: of its keys and values."""
        self._folder = cache_root(pair.options) / "learnt"
        self._about: dict[str, Any] = {
            **pair.identity.by_files(),
            "placement": placement_of(tiers, device),
            "threads": threads_allowed(),
            "overlap": pair.options.overlap,
        }
        if kv_form != "computed":
            self._about["kv"] = kv_form

    def path(self, options: GenerateOptions) -> Path:
        """Where what is learned under these settings belongs."""
        return self._folder / _file_name(json.dumps([self._about, settings_of(options)], sort_keys=True))

    def remember(self, options: GenerateOptions, state: LearnedState) -> None:
        """Keep it. A folder that cannot be written means learning again next time."""
        learnt = {
            "calibration": state.calibration.state,
            "prospects": state.throughput.state,
            "acceptance": state.acceptance.state,
            "record": state.record.state,
        }
        with suppress(OSError):
            CacheFile(self.path(options), VERSION).write(
                {**self._about, "settings": settings_of(options), "learnt": learnt}
            )
            self._forget_files()

    def _forget_files(self) -> None:
        """Leave the newest of all pairs."""
        files = list(self._folder.glob("*.json"))
        if len(files) > MOST_FILES:
            for file in sorted(files, key=lambda each: each.stat().st_mtime)[:-MOST_FILES]:
                file.unlink(missing_ok=True)

    def recall(self, options: GenerateOptions) -> tuple[LearnedState | None, str]:
        """What was learned under these settings, and in a sentence why it cannot be used, if there is such a file."""
        path = self.path(options)
        try:
            document = CacheFile(path, VERSION).read()
            return (None, "") if document is None else (self._parsed(document, options), "")
        except OSError as error:
            why = say(
                "What this pair taught before cannot be read: {file}: {reason}.", file=path, reason=reason_of(error)
            )
            return None, joined((why, ANEW))
        except (_RefusedError, UnusableError) as error:
            if reason := REFUSALS.get(error.args[0]):
                why = say("What this pair taught before is not used: {file} {reason}.", file=path, reason=reason)
                return None, joined((why, ANEW))
            return None, joined((say("What this pair taught before is not used: {file} is damaged.", file=path), ANEW))

    def _parsed(self, document: Mapping[str, Any], options: GenerateOptions) -> LearnedState:
        about = {**self._about, "settings": settings_of(options)}
        if any(document.get(name, None) != value for name, value in about.items()):
            raise _RefusedError("other")
        try:
            learnt = document["learnt"]
            return LearnedState(
                Calibration.restored(learnt["calibration"]),
                AcceptanceCounts.restored(learnt["acceptance"]),
                ThroughputModel.restored(learnt["prospects"]),
                TreeRecord.restored(learnt["record"]) if "record" in learnt else TreeRecord(),
            )
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise _RefusedError("damaged") from error


class _RefusedError(Exception):
    """A file of our version that is not to be used."""


def settings_of(options: GenerateOptions) -> dict[str, Any]:
    """What is learned depends on these: how tokens are drawn, and how they are drafted."""
    speculation = replace(options.speculation, method="auto", budget=0)
    prescribed = ("expansions", "grow_map")  # shapes of other methods' trees
    settings = {**_drawing(options.sampling), "seed": 0, **asdict(speculation)}
    return {name: value for name, value in settings.items() if name not in prescribed}


class Learned:
    """What one engine has learned. What a pass takes, and its experts, is the same for every way of sampling."""

    def __init__(self, files: LearnedFiles | None = None) -> None:
        """`files`: None to forget it all."""
        self.complaint = ""  # why what was learnt before cannot be used; for the answer at hand
        self._files = files
        self._passes: MeasuredPasses | None = None
        self._experts = ExpertCosts()
        self._states: dict[Hashable, tuple[GenerateOptions, LearnedState]] = {}
        self._kept: dict[Hashable, int] = {}  # how much of each had been learnt when it was last written

    def state(self, options: GenerateOptions) -> LearnedState:
        """What earlier answers with such settings taught; it goes on learning."""
        key = tuple(settings_of(options).items())
        if key not in self._states:
            self._forget_oldest()
            found, self.complaint = self._files.recall(options) if self._files else (None, "")
            state = found or LearnedState()
            throughput = state.throughput
            throughput.experts = self._experts
            self._states[key], self._kept[key] = (options, state), state.size
            if self._passes is None or not self._passes.largest:  # settings before may have measured nothing
                self._passes = throughput.passes
            for _, known in self._states.values():
                known.throughput.passes = self._passes
        self._states[key] = self._states.pop(key)  # the newest last
        return self._states[key][1]

    def _forget_oldest(self) -> None:
        """Clients of a server may ask with ever other settings; what is forgotten was written by `keep`."""
        while len(self._states) >= MOST_STATES:
            oldest = next(iter(self._states))
            del self._states[oldest], self._kept[oldest]

    def acceptance(self, options: GenerateOptions) -> AcceptanceCounts:
        """How the draft's children are accepted, for Sequoia's shapes.

        Kept from answer to answer when greedy. When sampling, another tree shape gives another text: every answer then
        begins with the prior, so that the same seed gives the same text.
        """
        return AcceptanceCounts() if options.sampling.temperature else self.state(options).acceptance

    def replay(
        self,
        options: GenerateOptions,
        inputs: MethodInputs,
        answer: Sequence[int],
        statistics: Statistics,
        context_tokens: int,
    ) -> None:
        """Learn for the plan what trees of any size would have given for an answer; see `TreeRecord`.

        Nobody asked for it, and the answer has been told as finished: what fails here is told in the log alone.
        """
        state = self.state(options)
        bounds = TreeBounds(size_of_replay(statistics.drafted_nodes, statistics.passes), options.speculation.depth)
        try:
            with suppress(CoppiceError, Cancelled), torch.inference_mode():
                method = _tree_method(options, inputs, state.calibration)
                state.record.replay(method, inputs.prompt, answer, bounds, statistics.seconds.decode, context_tokens)
        except Exception as error:  # noqa: BLE001  # what the answer itself has taught is kept all the same
            traceback.print_exception(error)

    def keep(self) -> None:
        """Write what was learned since the last call, for the next start."""
        self.complaint = ""
        for key, (options, state) in self._states.items():
            if self._files and state.size > self._kept[key]:
                self._files.remember(options, state)
                self._kept[key] = state.size


def _tree_method(options: GenerateOptions, inputs: MethodInputs, calibration: Calibration) -> Method:
    """What grows the trees that plans are for: nobody watches, and it learns nothing twice."""
    speculation = replace(options.speculation, method="specexec", budget=0)
    known = LearnedState(deepcopy(calibration))
    unseen = replace(inputs, observer=NullObserver(), counts=AcceptanceCounts(), learned=lambda: known)
    return choose_method(replace(options, speculation=speculation), unseen, AUTO_BUDGET).method


@dataclass(frozen=True, slots=True)
class PairMeasurement:
    """Acceptance by rank of the child, and seconds per pass with the layers placed as `placement` says."""

    acceptance: AcceptanceVector
    placement: str
    draft_seconds: PassTime
    target_seconds: PassTime


class PairMeasurements:
    """The measurements of one pair: a file for each set of sampling options, of which all count but the seed."""

    def __init__(self, pair: Pair, tiers: Sequence[str], device: str) -> None:
        """`tiers`: where each layer of the target is now. Raises `InputError` for a pair without a draft."""
        if pair.draft is None and not pair.drafts_itself:
            raise InputError(say("Without a draft model there is nothing to measure."), say("Choose a draft."))
        self.placement = placement_of(tiers, device)
        self._folder = cache_root(pair.options) / "acceptance"
        self._about = pair.identity.by_files()

    def path(self, sampling: SamplingOptions) -> Path:
        """Where the measurement under these settings belongs."""
        return self._folder / _file_name(json.dumps([self._about, _settings(sampling)]))

    def remember(self, sampling: SamplingOptions, measured: PairMeasurement) -> Path:
        """Keep the measurement; returns where. Raises `OSError` if the folder cannot be written."""
        path = self.path(sampling)
        document: dict[str, Any] = {**self._about, "sampling": _settings(sampling), **asdict(measured)}
        for name in ("draft_seconds", "target_seconds"):
            document[name]["nodes"] = document[name].pop("rows")  # as the file has called them from the beginning
        CacheFile(path, MEASUREMENT_VERSION).write(document)
        return path

    def recall(self, sampling: SamplingOptions) -> tuple[PairMeasurement | None, str]:
        """The measurement under these settings, or None with the reason."""
        path = self.path(sampling)
        if not path.exists():
            return None, joined((NEVER_MEASURED, AGAIN))
        try:
            return self.read(path), ""
        except InputError as error:
            return None, joined((error.message, error.hint))

    def read(self, path: Path) -> PairMeasurement:
        """The measurement in a file. Raises `InputError` if it is not of this pair."""
        try:
            document = CacheFile(path, MEASUREMENT_VERSION).read()
        except OSError as error:
            raise InputError(
                say("{file} cannot be read: {reason}.", file=path, reason=reason_of(error)), say("Check the path.")
            ) from error
        except UnusableError as error:
            if error.why == "not JSON":
                raise InputError(say("{file} is damaged: it is not valid JSON.", file=path), AGAIN) from error
            raise InputError(say("{file} holds no measured acceptance.", file=path), AGAIN) from error
        if document is None:
            missing = say("{file} cannot be read: {reason}.", file=path, reason=say("No such file or directory"))
            raise InputError(missing, say("Check the path."))
        if not document.get("acceptance"):
            raise InputError(say("{file} holds no measured acceptance.", file=path), AGAIN)
        if any(document.get(name) != value for name, value in self._about.items()):
            raise InputError(
                say("{file} was measured with another pair, or before its files changed.", file=path), AGAIN
            )
        try:
            return _parsed(document)
        except (InputError, KeyError, TypeError, ValueError) as error:
            raise InputError(say("{file} is damaged: what it holds are no measurements.", file=path), AGAIN) from error


def _file_name(identity: str) -> str:
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.json"


def placement_of(tiers: Sequence[str], device: str) -> str:
    """How many of a target's layers are in each tier, as text."""
    return f"{device}, layers " + " ".join(f"{tier} {tiers.count(tier)}" for tier in sorted(set(tiers)))


LATER = (
    ("frequency_penalty", ("frequency_penalty",)),
    ("dry_multiplier", ("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n")),
    ("xtc_probability", ("xtc_probability", "xtc_threshold")),
)
"""What came with later versions, each with what it switches on."""


def _settings(sampling: SamplingOptions) -> dict[str, float]:
    return {name: float(value) for name, value in _drawing(sampling).items() if name != "seed"}


def _drawing(sampling: SamplingOptions) -> dict[str, Any]:
    """What matters of how tokens are drawn: not the bias of a few, nor what files of older versions do not name."""
    told = asdict(sampling)
    for name in ("bias", "dry_sequence_breakers"):
        del told[name]
    for switch, names in LATER:
        if not told[switch]:
            for name in names:
                del told[name]
    return told


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

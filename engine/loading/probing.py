"""Probes models of families that no test has compared with transformers, and remembers what was found.

What a network raises in its first passes is told as a fault of its model: classes of transformers take configs that
they have no code for, such as a layer of a kind that they do not know, or a size of 0, and raise whatever comes of it.

A probe takes a few passes over all layers, which is long where they stream. What it found counts for the same files,
number type, kind of device and form of keys and values, and for the same versions of Coppice and transformers.
"""

import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar

import torch
import transformers
from torch import Tensor

from engine import __version__
from engine.errors import UnrunnableError
from engine.loading.out_of_memory import out_of_memory_of
from engine.loading.preparation import source_fingerprint
from engine.loading.store import CacheFile, cache_root
from engine.model.architecture import words_of
from engine.model.checkpoint import Checkpoint
from engine.model.context import Context
from engine.model.families.probe import PASSES, TreeRefused, is_verified, probe_tree, refused
from engine.model.passes.slot_forms import AS_COMPUTED, EIGHT_BITS, SlotForm
from engine.protocol.messages import Loading
from engine.protocol.options import LoadOptions
from engine.protocol.sentences import from_json, say, to_json
from engine.speculation.interfaces import Scorer

# What networks raise for layers, a mask, a cache or positions that they do not know, and for sizes that do not fit.
NETWORK_FAULTS = (
    ValueError, TypeError, LookupError, AttributeError, AssertionError, ArithmeticError, NameError, RuntimeError,
)  # fmt: skip
HINT = say(
    "Its config.json asks for what its network cannot compute: get the model again from where it was published, or "
    "choose another one."
)

Result = TypeVar("Result")

NAME = "families.json"
VERSION = 1
PROBED, REFUSED = "probed", "refused"


def require_not_refused(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, options: LoadOptions) -> None:
    """Raise the `TreeRefused` of an earlier probe of this model, before anything of it is loaded.

    What was refused with keys and values as computed is refused in 8 bits, too, but not the other way round.
    """
    forms = [AS_COMPUTED, EIGHT_BITS] if options.kv == "8" else [AS_COMPUTED]
    for form in forms:
        refusal = _file(options).entry(REFUSED, _key(checkpoint, dtype, device, form, options), _refusal)
        if refusal is not None:
            raise refusal


def require_tree_held(
    request: int, context: Context, checkpoint: Checkpoint, options: LoadOptions
) -> Generator[Loading, None, None]:
    """Make sure that a loaded model can hold a token tree; yields progress where that has to be tried.

    Raises `TreeRefused` if it cannot, and remembers that as well, unless the device may have been at fault.
    """
    network = context.network
    if is_verified(network):
        return
    file, key = _file(options), _key(checkpoint, network.dtype, network.device, context.form, options)
    if file.entry(PROBED, key, lambda _entry: True):
        return
    stage = say(
        "Trying whether '{name}' holds a token tree: no test has shown it of the family {family}",
        name=checkpoint.name,
        family=str(network.model.config.model_type),
    )
    yield Loading(request, stage, 0, PASSES)
    try:
        for done in probe_tree(context, checkpoint.name):
            yield Loading(request, stage, done, PASSES)
    except TreeRefused as refusal:
        _remember(file, key, checkpoint, refusal)
        raise
    except NETWORK_FAULTS as error:
        if out_of_memory_of(error, "") is not None:
            raise
        reason = say("its network fails on one, with the words: {words}", words=words_of(error))
        fault = refused(checkpoint.name, reason)
        if network.device.type == "cpu" or not isinstance(error, RuntimeError):
            _remember(file, key, checkpoint, fault)
        raise fault from error
    file.put(PROBED, key, {"name": checkpoint.name})


def _file(options: LoadOptions) -> CacheFile:
    return CacheFile(cache_root(options) / NAME, VERSION)


def _key(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, form: SlotForm, options: LoadOptions) -> str:
    versions = f"{__version__} {transformers.__version__}"
    slots = "" if form is AS_COMPUTED else f" {'+'.join(form.parts)}"
    rounded = "" if options.activations == "exact" else f" times {options.activations}"
    return f"{source_fingerprint(checkpoint)} {dtype} {device.type} {versions}{slots}{rounded}"


def _remember(file: CacheFile, key: str, checkpoint: Checkpoint, refusal: TreeRefused) -> None:
    said = {"message": to_json(refusal.message), "hint": to_json(refusal.hint)}
    file.put(REFUSED, key, {"name": checkpoint.name, **said})


def _refusal(entry: Mapping[str, Any]) -> TreeRefused:
    """Raises `KeyError` or `ValueError` for what is none."""
    message, hint = (from_json(entry[part]) for part in ("message", "hint"))
    if not isinstance(message, str) or not isinstance(hint, str):
        raise ValueError("no sentence")  # noqa: TRY004  # the file is wrong, not the call
    return TreeRefused(message, hint)


class FirstPasses:
    """Which passes the models of a loaded pair have made; what one raises behind its first ones is a fault of ours."""

    def __init__(self) -> None:
        """None is made yet."""
        self._made: set[tuple[str, str]] = set()  # of prompts and of trees, by model

    def of(self, scorer: Scorer, name: str, device: torch.device) -> Scorer:
        """The scorer; until it has made its first passes it raises `UnrunnableError`, with the model's `name`."""
        if {(name, "prefill"), (name, "score")} <= self._made:
            return scorer
        return _Untried(scorer, name, device, self._made)


class _Untried:
    """A scorer whose network may never have made a pass."""

    def __init__(self, scorer: Scorer, name: str, device: torch.device, made: set[tuple[str, str]]) -> None:
        self._scorer, self._name, self._device, self._made = scorer, name, device, made

    @property
    def length(self) -> int:
        return self._scorer.length

    def prefill(self, tokens: Sequence[int]) -> int:
        return self._tried("prefill", lambda: self._scorer.prefill(tokens))

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        return self._tried("score", lambda: self._scorer.score(tokens, parents, last))

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        self._scorer.keep(nodes, rest)

    def _tried(self, kind: str, run: Callable[[], Result]) -> Result:
        try:
            result = run()
        except NETWORK_FAULTS as error:
            if (self._name, kind) in self._made or _is_of_machine(error, self._device):
                raise
            traceback.print_exception(error)  # for the log
            words = say("'{name}' cannot be run: {reason}", name=self._name, reason=words_of(error) + ".")
            raise UnrunnableError(words, HINT) from error
        self._made.add((self._name, kind))
        return result


def _is_of_machine(error: Exception, device: torch.device) -> bool:
    """Whether memory, a GPU or its driver may be at fault."""
    is_of_gpu = device.type != "cpu" and isinstance(error, RuntimeError)
    return is_of_gpu or out_of_memory_of(error, "") is not None

"""Probes models of families that no test has compared with transformers, and remembers what was found.

A probe takes a few passes over all layers, which is long where they stream. What it found counts for the same files,
number type, kind of device and form of keys and values, and for the same versions of Coppice and transformers.
"""

from collections.abc import Generator, Mapping
from typing import Any

import torch
import transformers

from engine import __version__
from engine.loading.first_passes import NETWORK_FAULTS
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

NAME = "families.json"
VERSION = 1
PROBED, REFUSED = "probed", "refused"


def require_not_refused(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, options: LoadOptions) -> None:
    """Raise the `TreeRefused` of an earlier probe of this model, before anything of it is loaded.

    What was refused with keys and values as computed is refused in 8 bits, too, but not the other way round.
    """
    forms = [AS_COMPUTED, EIGHT_BITS] if options.kv == "8" else [AS_COMPUTED]
    for form in forms:
        refusal = _file(options).entry(REFUSED, _key(checkpoint, dtype, device, form), _refusal)
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
    file, key = _file(options), _key(checkpoint, network.dtype, network.device, context.form)
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


def _key(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, form: SlotForm) -> str:
    versions = f"{__version__} {transformers.__version__}"
    slots = "" if form is AS_COMPUTED else f" {'+'.join(form.parts)}"
    return f"{source_fingerprint(checkpoint)} {dtype} {device.type} {versions}{slots}"


def _remember(file: CacheFile, key: str, checkpoint: Checkpoint, refusal: TreeRefused) -> None:
    said = {"message": to_json(refusal.message), "hint": to_json(refusal.hint)}
    file.put(REFUSED, key, {"name": checkpoint.name, **said})


def _refusal(entry: Mapping[str, Any]) -> TreeRefused:
    """Raises `KeyError` or `ValueError` for what is none."""
    message, hint = (from_json(entry[part]) for part in ("message", "hint"))
    if not isinstance(message, str) or not isinstance(hint, str):
        raise ValueError("no sentence")  # noqa: TRY004  # the file is wrong, not the call
    return TreeRefused(message, hint)

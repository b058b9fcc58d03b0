"""Probes models of families that no test has compared with transformers, and remembers those that hold trees."""

from collections.abc import Generator

import transformers

from engine.loading.out_of_memory import out_of_memory_of
from engine.loading.preparation import source_fingerprint
from engine.loading.store import CacheFile, cache_root
from engine.model.architecture import words_of
from engine.model.checkpoint import Checkpoint
from engine.model.context import Context
from engine.model.families.probe import PASSES, is_verified, probe_tree
from engine.model.shape import no_tree
from engine.protocol.messages import Loading
from engine.protocol.options import LoadOptions
from engine.protocol.sentences import say

NAME = "families.json"
VERSION = 1
SECTION = "probed"

# What transformers' networks raise for a mask, a cache or positions that they do not know.
NETWORK_FAULTS = (ValueError, TypeError, LookupError, AttributeError, AssertionError, RuntimeError)


def require_tree_held(
    request: int, context: Context, checkpoint: Checkpoint, options: LoadOptions
) -> Generator[Loading, None, None]:
    """Make sure that a loaded model can hold a token tree; yields progress where that has to be tried.

    A probe takes a few passes over all layers, which is long where they stream, so one that was passed is remembered,
    for the files, the number type and the version of transformers. Raises `ModelError` if it is not passed.
    """
    network = context.network
    if is_verified(network):
        return
    file = CacheFile(cache_root(options) / NAME, VERSION)
    key = f"{source_fingerprint(checkpoint)} {network.dtype} {network.device.type} {transformers.__version__}"
    if file.entry(SECTION, key, lambda _entry: True):
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
    except NETWORK_FAULTS as error:
        if out_of_memory_of(error, "") is not None:
            raise
        reason = say("its network fails on one, with the words: {words}", words=words_of(error))
        raise no_tree(checkpoint.name, reason) from error
    file.put(SECTION, key, {"name": checkpoint.name})

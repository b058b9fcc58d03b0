"""What tells the texts of one network from those of all others: a folder's name for every context that reads."""

import hashlib
import json

import transformers

from engine.loading.kept.part_file import VERSION
from engine.loading.preparation import source_fingerprint
from engine.model.checkpoint import Checkpoint
from engine.model.context import Context, SharedContext
from engine.model.passes.slot_forms import AS_COMPUTED

Reading = tuple[Context | None, Checkpoint | None]  # a context, and where its weights are from


def model_names(
    target: Reading, drafts: tuple[Reading, ...], stored_as: str, is_rounded: bool = False, draft_held_as: str = ""
) -> dict[Context, str]:
    """By context; a self-draft has no text of its own. Raises `ModelError` if a file of a checkpoint is gone.

    What counts is all that a number in a cache depends on: the state of the files, the types of weights and numbers,
    the kind of device, the version of transformers, which computes. A head reads what its target has computed, and a
    target that records hidden states for one keeps these too, of the layers that it names. `stored_as`: of the target's
    layers; `is_rounded`: what these are multiplied with is. `draft_held_as`: the same of a draft's, in words.
    """
    names: dict[Context, str] = {}
    for context, checkpoint in (target, *drafts):
        if context is None or checkpoint is None or isinstance(context, SharedContext):
            continue
        network, is_target = context.network, context is target[0]
        about = {
            "version": VERSION,
            "transformers": transformers.__version__,
            "files": source_fingerprint(checkpoint),
            "reader": type(context).__name__,
            "records": context.records,
            "numbers": str(network.dtype),
            "device": network.device.type,
            "attention": network.attention,
            "stored_as": stored_as if is_target else draft_held_as,
        }
        if context.form is not AS_COMPUTED:
            about["slots"] = context.form.parts
        if is_rounded and is_target:
            about["activations"] = "8 bits"
        if not is_target and target[0] is not None and type(context) is not Context:
            about["target"] = names[target[0]]
        names[context] = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]
    return names

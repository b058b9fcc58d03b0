"""A check, on the model itself, that one tree pass equals each of its paths alone."""

import torch

from engine.errors import ModelError
from engine.model.context import Context
from engine.model.families import VERIFIED
from engine.protocol.sentences import say

TOLERANCE = 0.05  # of the logits' largest magnitude: far above what rounding does, far below what a wrong mask does


def require_faithful_tree(context: Context, name: str) -> None:
    """Raise `ModelError` if siblings can see each other in this model; the families of `VERIFIED` are known not to.

    Three tiny passes: a root with two children at once, then each child behind the root alone. Leaves `context` empty.
    """
    if context.network.model.config.model_type in VERIFIED:
        return
    root, first, second = (token % context.network.vocabulary for token in (5, 11, 17))
    together = context.score([root, first, second], [-1, 0, 0])[1:]
    alone = []
    for child in (first, second):
        context.rewind(0)
        alone.append(context.score([root, child], [-1, 0], last=1)[0])
    context.rewind(0)
    apart = torch.stack(alone)
    if not (together.isfinite().all() and apart.isfinite().all()):
        raise ModelError(
            say("'{name}' computes logits that are not finite numbers.", name=name),
            say("Its weights are damaged, or too large for the chosen number type: try --weights bfloat16 or float32."),
        )
    if (together - apart).abs().max() > TOLERANCE * apart.abs().max():
        raise ModelError(
            say(
                "'{name}' cannot hold a token tree: {reason}.",
                name=name,
                reason=say("one pass over a tree differs from its paths alone"),
            ),
            say("Choose a model of another family."),
        )

"""Tries on the model itself whether it can hold a token tree, where no test has shown it for its family."""

from collections.abc import Generator

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.model.context import Context
from engine.model.families.verified_families import VERIFIED
from engine.model.network import Network
from engine.model.shape import no_tree
from engine.protocol.sentences import say

PASSES = 3
TOLERANCE = 0.05  # of the logits' largest magnitude: far above what rounding does, far below what a wrong mask does


class TreeRefused(ModelError):  # noqa: N818  # as people say it
    """The model itself was shown not to hold a token tree; not that memory, a disk or a device failed."""


def is_verified(network: Network) -> bool:
    """Whether the tests compared trees of this family with every path alone, and its text with transformers' own."""
    return network.model.config.model_type in VERIFIED


def probe_tree(context: Context, name: str) -> Generator[int, None, None]:
    """Compare siblings in one pass with each in a pass of its own; yields how many of the `PASSES` are done.

    Raises `TreeRefused` if siblings can see each other, and what the network raises that cannot be run so. Leaves
    `context` empty.
    """
    together, apart = yield from _siblings(context)
    if not (together.isfinite().all() and apart.isfinite().all()):
        raise TreeRefused(
            say("'{name}' computes logits that are not finite numbers.", name=name),
            say("Its weights are damaged, or too large for the chosen number type: try --weights bfloat16 or float32."),
        )
    if (together - apart).abs().max() > TOLERANCE * apart.abs().max():
        raise refused(name, say("one pass over a tree differs from its paths alone"))


def refused(name: str, reason: str) -> TreeRefused:
    """What to raise for a model that cannot hold a tree; `reason` is a clause."""
    words = no_tree(name, reason)
    return TreeRefused(words.message, words.hint)


def _siblings(context: Context) -> Generator[int, None, tuple[Tensor, Tensor]]:
    """Logits [2, vocabulary] after the two children of a root: both in one pass, and each in one of its own."""
    root, first, second = (token % context.network.vocabulary for token in (5, 11, 17))
    together = context.score([root, first, second], [-1, 0, 0])[1:]
    apart = []
    for done, child in enumerate((first, second), start=1):
        yield done
        context.rewind(0)
        apart.append(context.score([root, child], [-1, 0], last=1)[0])
    context.rewind(0)
    yield PASSES
    return together.float(), torch.stack(apart).float()

"""Rotary embeddings whose frequencies depend on the length of the text: each token gets those of plain decoding.

transformers chooses the frequencies of a pass by its largest position: long or short ones (longrope), or ones made for
that length (dynamic NTK). In plain decoding that is the length of the prompt for the prompt's tokens, and its own
position for every token behind it. A tree has several positions in one pass, and a long prompt is read in several
passes, so here every row of a pass has a length of its own.
"""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from engine.errors import ModelError
from engine.protocol.sentences import say

# Families whose generation reads all of the text again when it becomes longer than it was in the first training.
READ_AGAIN = frozenset({"phi3", "phi4_multimodal", "phimoe"})
BOUNDLESS = 1 << 30


@dataclass
class LengthRope:
    """The rotary modules of one network and what changes at which length.

    `switches`: lengths in tokens beyond which other frequencies apply. `grows_from`: the length beyond which every
    length has its own, or None. `reads_again`: the length beyond which all tokens are read anew, or None.
    """

    modules: tuple[nn.Module, ...]
    switches: tuple[int, ...]
    grows_from: int | None
    reads_again: int | None
    lengths: Tensor | None = field(default=None, init=False)  # int64 [rows]: of the running pass

    def regime(self, length: int) -> int:
        """The shortest length with the same frequencies as `length`."""
        if self.grows_from is not None and length > self.grows_from:
            return length
        return max((switch + 1 for switch in self.switches if length > switch), default=1)

    @contextmanager
    def by_length(self, lengths: Sequence[int]) -> Iterator[None]:
        """Within this, every row of a pass is embedded as if the text had the length given for the row."""
        before, self.lengths = self.lengths, torch.tensor([self.regime(length) for length in lengths])
        try:
            yield
        finally:
            self.lengths = before

    def attach(self) -> None:
        """Make the modules embed every row by its own length within `by_length`; outside of it nothing changes."""
        for module in self.modules:
            module.register_forward_hook(self._turn, with_kwargs=True)

    def _turn(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        lengths = self.lengths
        if lengths is None:
            return None
        named = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        positions: Tensor = named["position_ids"]  # [1, rows], of some networks once for each axis of a picture
        alone = (*positions.shape[:-1], 1)
        parts = [torch.empty_like(part) for part in output]
        for length in sorted(set(lengths.tolist())):
            if self.grows_from is not None:  # else frequencies made for a longer text would stay
                module.forward(**{**named, "position_ids": positions.new_zeros(alone)})
            rows = (lengths == length).nonzero()[:, 0].to(positions.device)
            # With the last position of a text of this length beside them: by that one the frequencies are chosen.
            last = positions.new_full(alone, length - 1)
            turned = module.forward(**{**named, "position_ids": torch.cat([positions[..., rows], last], -1)})
            for part, values in zip(parts, turned, strict=True):
                part[:, rows] = values[:, :-1]
        return tuple(parts)


@dataclass(frozen=True, slots=True)
class TurnedText:
    """`TurnedTokens` of a text that was set aside."""

    anchor: int
    regimes: tuple[int, ...]


class TurnedTokens:
    """The text length by which the rotary embedding of each cached token of a context was computed.

    `anchor` is the length of the text that was last read as a prompt: its tokens use at least this length.
    """

    def __init__(self, rope: LengthRope) -> None:
        self._rope = rope
        self._anchor = 1
        self._regimes: list[int] = []  # of the committed tokens whose keys are valid

    def __len__(self) -> int:
        """Committed tokens, from the first on, that need not be read again."""
        return len(self._regimes)

    def fitting(self, anchor: int, aside: TurnedText | None = None) -> int:
        """How many of them, or of those set `aside`, are valid for a prompt of `anchor` tokens, from the first on."""
        regimes = self._regimes if aside is None else aside.regimes
        for position, regime in enumerate(regimes):
            if regime != self._rope.regime(max(anchor, position + 1)):
                return position
        return len(regimes)

    def copied(self, length: int) -> TurnedText:
        """Of the first `length` tokens."""
        return TurnedText(self._anchor, tuple(self._regimes[:length]))

    def restore(self, kept: TurnedText, length: int) -> None:
        """Go on from the first `length` tokens of another text."""
        self._anchor, self._regimes = kept.anchor, list(kept.regimes[:length])

    def begin(self, kept: int, anchor: int) -> None:
        """Begin a prompt of `anchor` tokens whose first `kept` are cached and valid."""
        del self._regimes[kept:]
        self._anchor = anchor

    def rewind(self, length: int) -> None:
        """Keep `length` tokens, as if they had been read as a prompt with one more token."""
        del self._regimes[length:]
        self._anchor = min(self._anchor, length + 1)
        del self._regimes[self.fitting(self._anchor) :]

    def pass_behind(self, length: int) -> None:
        """A pass begins behind `length` committed tokens: invalidate them where the family reads all tokens again."""
        limit = self._rope.reads_again
        if limit is not None and self._anchor <= limit < length + 1:
            self._anchor = length + 1
            del self._regimes[self.fitting(self._anchor) :]

    def commit(self, length: int) -> None:
        """The first `length` tokens are cached now and valid."""
        begin = len(self._regimes)
        self._regimes += [self._rope.regime(self.length_at(position)) for position in range(begin, length)]

    def length_at(self, position: int) -> int:
        """The length by which the token at a position is embedded."""
        return max(self._anchor, position + 1)

    def reach(self, length: int) -> int:
        """How many levels a tree may have behind `length` committed tokens before all are read again."""
        limit = self._rope.reads_again
        return BOUNDLESS if limit is None or length >= limit else limit - 1 - length


def find_rope(model: Any, name: str) -> LengthRope | None:
    """The length-dependent rotary embeddings of a network that is in place, ready to use; None if it has none.

    Raises `ModelError` for one that is built otherwise than those of transformers' language models.
    """
    modules, switches, grows_from = [], set[int](), None
    text = model.config.get_text_config(decoder=True)
    for module in model.modules():
        for kind, settings in _kinds(module):
            if kind == "longrope":
                switches.add(int(settings["original_max_position_embeddings"]))
                _turn_by_updated_frequencies(module)
            elif "dynamic" in kind:
                longest = int(module.original_max_seq_len)
                grows_from = longest if grows_from is None else min(grows_from, longest)
            else:
                continue
            if module not in modules:
                modules.append(module)
    if not modules:
        return None
    original = getattr(text, "original_max_position_embeddings", None)
    reads_again = original if text.model_type in READ_AGAIN else None
    rope = LengthRope(tuple(modules), tuple(sorted(switches)), grows_from, reads_again)
    for module in modules:
        _require_known_build(module, name)
    rope.attach()
    return rope


def _turn_by_updated_frequencies(module: nn.Module) -> None:
    """Have PhiMoE's embedding turn by the frequencies that were chosen for the length, as the published one does.

    The library's computes those of the short factors again in every pass, however long the text is.
    """
    if hasattr(module, "rope_init_fn"):
        module.rope_init_fn = lambda _config: (module.inv_freq, module.attention_scaling)  # type: ignore[assignment]


def _kinds(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """The kind and the settings of a rotary module's frequencies; there may be one for every kind of layer."""
    kind = getattr(module, "rope_type", None)
    config: Any = getattr(module, "config", None)
    settings = getattr(config, "rope_parameters", None) or {}
    if isinstance(kind, str):
        yield kind, settings
    elif isinstance(kind, dict):
        yield from ((each, settings.get(layer) or {}) for layer, each in kind.items() if isinstance(each, str))


def _require_known_build(module: nn.Module, name: str) -> None:
    parameters = inspect.signature(module.forward).parameters
    kind: Any = getattr(module, "rope_type", None)
    named = {"layer_type": next(iter(kind))} if "layer_type" in parameters and isinstance(kind, dict) else {}
    turned: Any = None
    if "position_ids" in parameters and "x" in parameters:
        device = next((buffer.device for buffer in module.buffers()), torch.device("cpu"))
        turned = module.forward(
            x=torch.zeros(1, device=device), position_ids=torch.zeros(1, 2, dtype=torch.int64, device=device), **named
        )
    if not isinstance(turned, tuple) or any(part.shape[:2] != (1, 2) for part in turned):
        raise ModelError(
            say(
                "'{name}' cannot hold a token tree: {reason}.",
                name=name,
                reason=say("its rotary embedding depends on the length in an unknown way"),
            ),
            say("Choose a model of another family."),
        )

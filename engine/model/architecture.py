"""What kind of network a checkpoint is for, and whether the checkpoint fills it; settled before weights are loaded."""

import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from torch.nn.modules import module

from engine.errors import ModelError
from engine.model.checkpoint import Checkpoint
from engine.model.families.refused_families import reason_against
from engine.model.families.state_families import DECAYS, STATE_FAMILIES, STATE_KINDS
from engine.model.families.text_backbone import network_class, text_config
from engine.model.families.verified_families import REFUTED
from engine.model.families.windowed_families import heeds_window
from engine.model.passes.sight import Span
from engine.model.safe_config import GET_AGAIN, require_consistent, safe_config
from engine.model.shape import (
    CHUNKED,
    COMPRESSED,
    COMPRESSED_KINDS,
    IN_BLOCKS,
    INDEXED_KINDS,
    SLIDING,
    no_tree,
    require_attention,
)
from engine.protocol.sentences import say, shown

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

# Configs are untrusted, and validated by their classes, each in its own way.
CONFIG_FAULTS = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
    MemoryError,
    ArithmeticError,
    ImportError,
    RuntimeError,
    NameError,
    StrictDataclassError,
)
MOST_PARTS = 1 << 18  # modules and parameters of a network, which takes some 10 s to make; a hundred thousand are many

COMPRESSING = frozenset({"deepseek_v4"})  # keep what stands for many tokens in place of a state, by model_type
# Say that their tokens see all others, by model_type, for what stands before the text in PaliGemma alone.
CAUSAL = frozenset({"gemma", "gemma2"})
HEAD = "eh_proj.weight"  # a layer behind the last one that has it guesses further tokens


@dataclass(frozen=True, slots=True)
class Architecture:
    """A checkpoint's network in transformers' terms, as if no weight were packed; `attention` is `sdpa` or `eager`.

    `kind`: the model_type of the whole checkpoint, which may be that of a wrapper around the network.
    """

    name: str
    kind: str
    config: Any
    model_class: Any
    attention: str

    @property
    def layer_count(self) -> int:
        """Decoder layers, as config.json says."""
        return int(self.config.get_text_config(decoder=True).num_hidden_layers)

    def build_on_meta(self, dtype: torch.dtype) -> Any:
        """The network with shapes and number types but without weights; raises `ModelError` if it cannot be made."""
        try:
            config = deepcopy(self.config)  # from_config writes the number type into what it is given
            with torch.device("meta"), few_parts(self.name):
                model = self.model_class._from_config(config, dtype=dtype, attn_implementation=self.attention)
        except CONFIG_FAULTS as error:
            raise unloadable(self.name, error) from error
        _leave_out(model, DECAYS)
        return model.eval().requires_grad_(False)


def _leave_out(model: Any, buffers: Collection[str]) -> None:
    """Have the network without buffers of these names, which nothing here computes with."""
    for part in model.modules():
        for name in part._buffers.keys() & buffers:
            part._buffers[name] = None


class _TooManyPartsError(Exception):
    """The network that is made in this thread has no end."""


class _Parts(threading.local):
    """How many parts the network that is made in this thread may still get; None while none is made."""

    left: int | None = None


_parts = _Parts()


def _count_part(*_: object) -> None:
    """A number of config.json may have a class make modules, or parameters, without an end."""
    if _parts.left is not None:
        _parts.left -= 1
        if _parts.left < 0:
            raise _TooManyPartsError


# Once for all: torch goes through its hooks in any thread that makes a module.
module.register_module_module_registration_hook(_count_part)
module.register_module_parameter_registration_hook(_count_part)


@contextmanager
def few_parts(name: str) -> Iterator[None]:
    """Raise `ModelError` where a network that is made inside has more than `MOST_PARTS`."""
    _parts.left = MOST_PARTS
    try:
        yield
    except _TooManyPartsError:
        words = say(
            "The config.json of '{name}' asks for a network of more than {count} parts.", name=name, count=MOST_PARTS
        )
        raise ModelError(words, GET_AGAIN) from None
    finally:
        _parts.left = None


def open_architecture(checkpoint: Checkpoint) -> Architecture:
    """Build the config from what config.json says; opens no file, and runs no code of the model's.

    Raises `ModelError` for numbers that no model has, for unknown kinds, and for those that cannot hold a token tree.
    """
    if (reason := reason_against(checkpoint.config)) is not None:
        raise no_tree(checkpoint.name, reason)
    config = make_config(checkpoint)
    kind = str(config.model_type)
    try:
        config = text_config(config)
        model_class = network_class(config)
        if model_class is None:
            raise ModelError(
                say("'{name}' ({kind}) is not a text-generation model.", name=checkpoint.name, kind=config.model_type),
                say("Choose another model."),
            )
        require_tree(config, model_class, checkpoint.name)
        attention = attention_implementation(config, model_class)
        return Architecture(checkpoint.name, kind, config, model_class, attention)
    except CONFIG_FAULTS as error:
        raise unloadable(checkpoint.name, error) from error


def require_complete(
    architecture: Architecture, missing: Iterable[str], mismatched: Iterable[str], unexpected: Iterable[str]
) -> None:
    """Refuse a model some of whose weights would be random numbers, or are left over; all are the network's names."""
    name = architecture.name
    behind = f".layers.{architecture.layer_count}."
    left_over = [tensor for tensor in unexpected if behind in tensor]
    if any(tensor.endswith(behind + HEAD) for tensor in left_over):
        left_over = []
    if tensor := _first_of(missing):
        fault = say("'{name}' lacks the weights {tensor}.", name=name, tensor=tensor)
    elif tensor := _first_of(mismatched):
        fault = say(
            "'{name}' has weights of another shape than its config.json says: {tensor}.", name=name, tensor=tensor
        )
    elif tensor := _first_of(left_over):
        fault = say(
            "'{name}' has weights for more layers than its config.json says: {tensor}.", name=name, tensor=tensor
        )
    else:
        return
    raise ModelError(fault, say("config.json and the weights do not belong together; get both again."))


def _first_of(tensors: Iterable[str]) -> str:
    """The first in the order of their names, and how many more there are; empty for none."""
    names = sorted(tensors)
    more = len(names) - 1
    return say("{tensor} and {count} more", tensor=names[0], count=more) if more > 0 else "".join(names)


def unloadable(name: str, error: BaseException) -> ModelError:
    """The error for a failure inside a library, with its own words."""
    return ModelError(
        say("'{name}' cannot be loaded: {reason}", name=name, reason=words_of(error) + "."),
        say("Check the folder, or download the model again."),
    )


def words_of(error: BaseException) -> str:
    """What a library says of a failure, as one line without a full stop."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    words = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return "".join(filter(str.isprintable, words))[:300].rstrip(" .:")


def make_config(checkpoint: Checkpoint) -> Any:
    kind = str(checkpoint.config.get("model_type"))
    if kind not in transformers.CONFIG_MAPPING:
        hint = say("Models that bring their own code are not run.") if "auto_map" in checkpoint.config else ""
        raise ModelError(
            say(
                "'{name}' has the architecture '{kind}', which this version of transformers does not know.",
                name=checkpoint.name,
                kind=shown(kind)[1:-1],
            ),
            hint or say("Choose another model, or update Coppice."),
        )
    settings = safe_config(checkpoint.config, checkpoint.name, len(checkpoint.tensors))
    if kind == "mistral" and "layer_types" in settings:
        kind = settings["model_type"] = "ministral"  # as transformers' own loading has it
    try:
        config = transformers.CONFIG_MAPPING[kind].from_dict(settings)
        require_consistent(config.get_text_config(decoder=True), checkpoint.name)
    except CONFIG_FAULTS as error:
        raise unloadable(checkpoint.name, error) from error
    return config


def layer_spans(config: Any, name: str) -> tuple[Span, ...]:
    """What each decoder layer sees of the past; raises `ModelError` for layers that cannot hold a tree."""
    text = config.get_text_config(decoder=True)
    window, chunk = getattr(text, "sliding_window", None), getattr(text, "attention_chunk_size", None)
    kinds = getattr(text, "layer_types", None)
    if kinds is None:
        span = Span(SLIDING, window) if window and heeds_window(text.model_type) else Span()
        return (span,) * int(text.num_hidden_layers)
    require_attention(name, kinds, text.model_type)
    if IN_BLOCKS in kinds:
        return (Span(IN_BLOCKS),) * len(kinds)  # its network has one mask for all layers
    if COMPRESSED_KINDS & set(kinds) and window:
        return (Span(COMPRESSED, window),) * len(kinds)  # all of its layers have the same window
    bounded = {kind: Span(kind, tokens) for kind, tokens in ((SLIDING, window), (CHUNKED, chunk)) if tokens}
    return tuple(Span(kind) if kind in INDEXED_KINDS | STATE_KINDS else bounded.get(kind, Span()) for kind in kinds)


def attention_implementation(config: Any, model_class: Any) -> str:
    """`sdpa` where it computes what the model means, else `eager`.

    gpt-oss has attention sinks that sdpa cannot express; with soft-capped scores (Gemma 2) sdpa silently drops the cap.
    """
    capped = getattr(config.get_text_config(decoder=True), "attn_logit_softcapping", None) is not None
    return "sdpa" if model_class._supports_sdpa and not capped else "eager"


def require_tree(config: Any, model_class: Any, name: str) -> None:
    """Raise `ModelError` if the model is of a kind whose memory of the past cannot branch."""
    if getattr(config, "is_encoder_decoder", False):
        raise no_tree(name, say("it is an encoder-decoder model"))
    if getattr(model_class, "_is_stateful", False) and config.model_type not in STATE_FAMILIES | COMPRESSING:
        raise no_tree(name, say("it keeps a recurrent state of a kind that is not known"))
    if config.model_type in REFUTED:
        raise no_tree(name, say("one pass over a tree differs from its paths alone"))
    if getattr(config, "use_bidirectional_attention", None) in (True, "all") and config.model_type not in CAUSAL:
        raise no_tree(name, say("its tokens see those behind them"))
    layer_spans(config, name)

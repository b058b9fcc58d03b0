"""Heads for further tokens that come with a checkpoint (multi-token prediction, DeepSeek-V3, arXiv 2412.19437).

A head is one decoder layer of the target's family. It reads a projection of two things side by side, each behind a norm
of its own: the embedding of a token and the target's hidden state of the token before. Behind it stand a last norm and
the target's output matrix. Where a checkpoint has several heads, the first one is used, and chained: what it gives
stands for the hidden state of the tokens that it guessed.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from engine.errors import InputError, ModelError
from engine.model.architecture import require_complete, words_of
from engine.model.checkpoint import Checkpoint
from engine.model.families.state_families import STATE_FAMILIES
from engine.model.formats.packed import PackedWeight
from engine.model.layer_converter import LayerConverter, open_layer_converter
from engine.model.network import Network, wrap
from engine.model.shape import FULL, IN_LAYER
from engine.model.weight_loader import LazyPacked, LazyTensor, WeightLoader
from engine.protocol.sentences import say

LAYER, NORM = "model.layers.0.", "model.norm."  # of the model of one layer that a head is opened as
EMBEDDING_NORM, HIDDEN_NORM, PROJECTION = "head.embedding_norm.", "head.hidden_norm.", "head.projection."
OTHER_DRAFT = say("Choose a draft model, or no draft.")
NETWORK_FAULTS = (AttributeError, TypeError, LookupError, ValueError)
OF_TARGET = ("embed_tokens.", "lm_head.")  # what a head shares with its target, and may hold a copy of
# How checkpoints call the parts of their first head; {layers} are the target's own.
STYLES: tuple[Mapping[str, str], ...] = (
    {  # Qwen3-Next, Qwen3.5, Mellum
        "mtp.pre_fc_norm_embedding.": EMBEDDING_NORM,
        "mtp.pre_fc_norm_hidden.": HIDDEN_NORM,
        "mtp.fc.": PROJECTION,
        "mtp.norm.": NORM,
        "mtp.layers.0.": LAYER,
    },
    {  # DeepSeek-V3, GLM-4.5
        "model.layers.{layers}.enorm.": EMBEDDING_NORM,
        "model.layers.{layers}.hnorm.": HIDDEN_NORM,
        "model.layers.{layers}.eh_proj.": PROJECTION,
        "model.layers.{layers}.shared_head.norm.": NORM,
        "model.layers.{layers}.embed_tokens.": "",
        "model.layers.{layers}.shared_head.": "",
        "model.layers.{layers}.": LAYER,
    },
)


def has_heads(checkpoint: Checkpoint) -> bool:
    """Whether the checkpoint brings a head for further tokens, by the names of its tensors."""
    return _style(checkpoint) is not None


def head_of(checkpoint: Checkpoint) -> Checkpoint:
    """The first head of a checkpoint as a model of one layer, without what it shares with the target.

    Raises `InputError` where there is none.
    """
    style = _style(checkpoint)
    if style is None:
        raise InputError(
            say("'{name}' comes without heads for further tokens.", name=checkpoint.name),
            OTHER_DRAFT,
        )
    names = {name: _renamed(name, style) for name in checkpoint.tensors.keys() | checkpoint.packed.keys()}
    tensors = {names[name]: tensor for name, tensor in checkpoint.tensors.items() if names[name]}
    packed = {names[name]: weight for name, weight in checkpoint.packed.items() if names[name]}
    return replace(
        checkpoint,
        name=f"{checkpoint.name}, its own heads",
        config=MappingProxyType(
            _of_one_layer(checkpoint.config, is_mixture=any(".experts." in name for name in tensors))
        ),
        tensors=MappingProxyType(tensors),
        packed=MappingProxyType(packed),
    )


@dataclass(frozen=True, slots=True)
class MultiTokenHead:
    """A head that is ready to run; `network` shares the target's embeddings and output matrix.

    `projection`: [hidden, 2 hidden], of the embedding and the hidden state side by side.
    """

    network: Network
    embedding_norm: nn.Module
    hidden_norm: nn.Module
    projection: Tensor
    nbytes: int

    def enter(self, recorded: Tensor) -> Tensor:
        """The target's hidden states are what the head takes."""
        return recorded

    def run(self, tokens: Tensor, hidden: Tensor, last: int, **arguments: Any) -> tuple[Tensor, Tensor]:
        """As `engine.model.heads.head_context.Head.run`."""
        model = self.network.model
        embeddings = model.get_input_embeddings()(tokens)
        both = torch.cat([self.embedding_norm(embeddings), self.hidden_norm(hidden[None])], -1)
        inputs = nn.functional.linear(both, self.projection)
        outputs: Tensor = model.get_decoder()(inputs_embeds=inputs, **arguments).last_hidden_state[0]
        return model.lm_head(outputs[-last:]), outputs


def load_head(head: Checkpoint, target: Checkpoint, network: Network) -> MultiTokenHead:
    """Load what `head_of(target)` is beside the target's `network`, on its device and in its number type.

    Raises `ModelError` where weights are missing or have another shape, or where the family's layer runs otherwise than
    those that heads are known of.
    """
    try:
        made = _loaded(head, target, network)
        _try(made)
    except NETWORK_FAULTS as error:
        raise ModelError(
            say("'{name}' cannot be loaded: {reason}", name=head.name, reason=words_of(error) + "."), OTHER_DRAFT
        ) from error
    return made


def _loaded(head: Checkpoint, target: Checkpoint, network: Network) -> MultiTokenHead:
    dtype, device = network.dtype, network.device
    converter = open_layer_converter(_with_shared(head, target), dtype)
    parts = _parts(head, converter, network)
    model = converter.architecture.build_on_meta(dtype)
    loader = WeightLoader(model, dtype)
    loader.rebuild_buffers(device)
    loader.load({name: lazy for name, lazy in converter.outside().items() if name.startswith(NORM)}, device)
    decoder = model.get_decoder()
    decoder.embed_tokens = network.model.get_decoder().embed_tokens
    model.lm_head = network.model.lm_head
    weights = {name: weight.to(device) for name, weight in converter.weights(0)}
    decoder.layers[0].load_state_dict(weights, assign=True)
    own = [*weights.values(), *parts.values(), decoder.norm.weight]
    return MultiTokenHead(
        network=replace(wrap(model, converter.architecture.attention, head.name), rope=None),
        embedding_norm=_norm(decoder.norm, parts[EMBEDDING_NORM]),
        hidden_norm=_norm(decoder.norm, parts[HIDDEN_NORM]),
        projection=parts[PROJECTION],
        nbytes=sum(weight.nbytes for weight in own),
    )


@torch.inference_mode()
def _try(head: MultiTokenHead) -> None:
    """Read one token, as families that nobody has tried may not be what they look like."""
    device, width = head.network.device, head.projection.shape[0]
    first = torch.zeros(1, 1, dtype=torch.int64, device=device)
    hidden = torch.zeros(1, width, dtype=head.network.dtype, device=device)
    head.run(first, hidden, last=1, position_ids=first, attention_mask=None, use_cache=False)


def _style(checkpoint: Checkpoint) -> Mapping[str, str] | None:
    """How the checkpoint calls the parts of its head; None without one."""
    layers = _text(checkpoint.config).get("num_hidden_layers")
    for names in STYLES:
        style = {name.format(layers=layers): part for name, part in names.items()}
        projection = next(name for name, part in style.items() if part == PROJECTION) + "weight"
        if projection in checkpoint.tensors or projection in checkpoint.packed:
            return style
    return None


def _renamed(name: str, style: Mapping[str, str]) -> str:
    """What a tensor is called in the model of one layer; empty if it is no part of it."""
    for begin, part in style.items():
        if name.startswith(begin):
            return part and part + name.removeprefix(begin)
    return ""


def _text(config: Mapping[str, object]) -> Mapping[str, object]:
    text = config.get("text_config")
    return text if isinstance(text, dict) else config


def _of_one_layer(config: Mapping[str, object], is_mixture: bool) -> dict[str, object]:
    """The config of a model whose only layer is a head's: it attends, and is a mixture of experts or is not."""
    text = _text(config)
    kinds = text.get("mtp_layer_types")
    made: dict[str, object] = {
        "num_hidden_layers": 1,
        "first_k_dense_replace": 0 if is_mixture else 1,
        "mlp_only_layers": [] if is_mixture else [0],
        "mlp_layer_types": ["sparse" if is_mixture else "dense"],
        "layer_types": kinds[:1] if isinstance(kinds, list) and kinds else [FULL],
        "num_nextn_predict_layers": 0,
    }
    stated = {"num_hidden_layers", *text}
    if text.get("model_type") in STATE_FAMILIES:
        stated.add("layer_types")
    else:
        stated.add("first_k_dense_replace")
    edited = {**text, **{key: value for key, value in made.items() if key in stated}}
    return edited if text is config else {**config, "text_config": edited}


def _with_shared(head: Checkpoint, target: Checkpoint) -> Checkpoint:
    """The head with the target's embeddings and output matrix: a whole model, as its family's classes expect it."""

    def shared(name: str) -> bool:
        return IN_LAYER.fullmatch(name) is None and any(part in name for part in OF_TARGET)

    tensors = {name: tensor for name, tensor in target.tensors.items() if shared(name)}
    packed = {name: weight for name, weight in target.packed.items() if shared(name)}
    return replace(head, tensors={**tensors, **head.tensors}, packed={**packed, **head.packed})


def _parts(head: Checkpoint, converter: LayerConverter, network: Network) -> dict[str, Tensor]:
    """The weights before the layer, by what they are, on the device."""
    width = network.model.get_input_embeddings().embedding_dim
    shapes = {EMBEDDING_NORM: (width,), HIDDEN_NORM: (width,), PROJECTION: (width, 2 * width)}
    weights = head.weights
    found = {part: weights[part + "weight"] for part in shapes if part + "weight" in weights}
    missing = [part + "weight" for part in shapes.keys() - found.keys()]
    mismatched = [part + "weight" for part, weight in found.items() if tuple(weight.shape) != shapes[part]]
    require_complete(converter.architecture, missing, mismatched, ())
    return {part: _read(weight, network) for part, weight in found.items()}


def _read(weight: Any, network: Network) -> Tensor:
    kind = LazyPacked if isinstance(weight, PackedWeight) else LazyTensor
    return kind(weight, network.dtype)[...].to(network.device)


def _norm(like: nn.Module, weight: Tensor) -> nn.Module:
    """A norm of the same kind, with a weight of its own."""
    norm = deepcopy(like)
    norm.weight = nn.Parameter(weight, requires_grad=False)
    return norm

"""EAGLE-3 heads from folders of their own (Li et al. 2025, arXiv 2503.01840), as vLLM, SGLang and SpecForge store them.

A head is one layer of Llama whose queries, keys and values are made of two things side by side, each behind a norm of
its own: the embedding of a token, and a hidden state of the token before. For tokens that the target has read that is
a projection of the outputs of three of its layers, for others the head's own output. It guesses tokens of a vocabulary
of its own, which is a part of the target's.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from engine.errors import ModelError
from engine.model.architecture import Architecture, open_architecture, require_complete
from engine.model.checkpoint import Checkpoint
from engine.model.network import Network, wrap
from engine.model.safetensors_header import TensorInfo
from engine.model.shape import model_sizes
from engine.model.weight_loader import LazyTensor, WeightLoader
from engine.protocol.sentences import say, shown

LAYER_IDS = "eagle_aux_hidden_state_layer_ids"
OTHER_HEAD = say("Choose a head that was made for this target, or another draft.")

FUSION = "fc.weight"  # [width, widths of what is recorded]
STREAMS = ("altup_num_inputs", "hc_mult", "hc_count")  # of networks whose layers put out several states of each token
TO_TARGET = "d2t"  # int64 [own vocabulary]: by how much the target's id of each token is larger


def recorded_layers(head: Checkpoint, target: Checkpoint) -> tuple[int, ...]:
    """Numbers of the target's layers whose outputs the head reads, ascending.

    Published ids count in two ways: beside the sizes, as vLLM reads them, they name the layers behind these outputs;
    under `eagle_config`, as SGLang and SpecForge do, the layers that put them out.
    Raises `ModelError` for a head of another kind, or one that was made for a target of other sizes.
    """
    sizes, config = model_sizes(target), head.config
    if config.get("num_hidden_layers") != 1 or config.get("model_type") != "llama" or head.packed:
        raise ModelError(say("'{name}' is no EAGLE-3 head of one plain layer of Llama.", name=head.name), OTHER_HEAD)
    if FUSION not in head.tensors:
        raise ModelError(say("'{name}' lacks the weights {tensor}.", name=head.name, tensor=FUSION), OTHER_HEAD)
    if any(getattr(open_architecture(target).config, each, None) for each in STREAMS):
        words = say(
            "The layers of '{name}' put out several states of each token, which no head reads.", name=target.name
        )
        raise ModelError(words, say("Choose another draft, or none."))
    count = len(sizes.layers)
    inner = config.get("eagle_config")
    inside = inner.get(LAYER_IDS) if isinstance(inner, dict) else None
    beside = config.get(LAYER_IDS)
    behind = beside if isinstance(beside, list) and beside else [2, count // 2, count - 3]
    layers = tuple(inside) if isinstance(inside, list) and inside else tuple(map(_before, behind))
    in_order = all(type(each) is int and 0 <= each < count for each in layers) and sorted(set(layers)) == list(layers)
    if not in_order or head.tensors[FUSION].shape[-1] != len(layers) * sizes.hidden:
        raise ModelError(
            say(
                "The head '{name}' was made for a model of another size than '{target}'.",
                name=head.name,
                target=target.name,
            ),
            OTHER_HEAD,
        )
    return layers


def _before(layer: object) -> int:
    return layer - 1 if type(layer) is int else -1


class JoinedNorms(nn.Module):
    """In place of a layer's first norm: hidden states [1, n, width] in, joined with those of `embeddings` out."""

    def __init__(self, embedding_norm: nn.Module, hidden_norm: nn.Module) -> None:
        super().__init__()
        self.embedding_norm = embedding_norm
        self.hidden_norm = hidden_norm
        self.is_normed = False  # what comes in is behind `hidden_norm` already
        self.embeddings: Tensor | None = None  # [1, n, width]: of the running pass

    def forward(self, hidden: Tensor) -> Tensor:
        """[1, n, 2 width], the embeddings first."""
        assert self.embeddings is not None, "embeddings come before a pass"
        normed = hidden if self.is_normed else self.hidden_norm(hidden)
        return torch.cat([self.embedding_norm(self.embeddings), normed], -1)


@dataclass(frozen=True, slots=True)
class EagleHead:
    """A head that is ready to run; where it has none of its own, `network` shares the target's embeddings.

    `to_target`: int64 [own vocabulary], the target's ids; None where the vocabularies are one. `vocabulary`: tokens of
    the target.
    """

    network: Network
    to_target: Tensor | None
    vocabulary: int
    nbytes: int

    def enter(self, recorded: Tensor) -> Tensor:
        """Outputs of the target's layers side by side [n, recorded width] as one hidden state each [n, width]."""
        model = self.network.model
        entered: Tensor = model.fc(model.recorded_norm(recorded))
        return entered

    def run(self, tokens: Tensor, hidden: Tensor, last: int, **arguments: Any) -> tuple[Tensor, Tensor]:
        """As `engine.model.heads.head_context.Head.run`."""
        model = self.network.model
        decoder = model.get_decoder()
        norms = decoder.layers[0].input_layernorm
        norms.embeddings = nn.functional.embedding(tokens, decoder.embed_tokens.weight)
        inputs = norms.hidden_norm(hidden[None]) if norms.is_normed else hidden[None]
        outputs: Tensor = decoder(inputs_embeds=inputs, **arguments).last_hidden_state[0]
        return self._spread(model.lm_head(model.last_norm(outputs[-last:]))), outputs

    def _spread(self, logits: Tensor) -> Tensor:
        """[n, own vocabulary] as [n, target's vocabulary]; -inf for what the head cannot say."""
        if self.to_target is None:
            return logits
        spread = logits.new_full((len(logits), self.vocabulary), -torch.inf)
        return spread.index_copy_(1, self.to_target, logits)


def load_eagle(head: Checkpoint, network: Network) -> EagleHead:
    """Load a head beside the target's `network`, on its device and in its number type.

    Raises `ModelError` where weights are missing, or do not fit together or to the target.
    """
    dtype, device = network.dtype, network.device
    architecture = open_architecture(head)
    model = _build(architecture, head, network)
    WeightLoader(model, dtype, architecture.kind).rebuild_buffers(device)
    own = {name: tensor for name, tensor in head.tensors.items() if name != TO_TARGET}
    _require_complete(architecture, model, own)
    weights = {name: LazyTensor(tensor, dtype)[...].to(device) for name, tensor in own.items()}
    model.load_state_dict(weights, strict=False, assign=True)
    to_target = _to_target(head, model.lm_head.weight.shape[0], network)
    made = wrap(model.eval().requires_grad_(False), architecture.attention, head.name)
    return EagleHead(
        network=replace(made, rope=None, vocabulary=model.get_decoder().embed_tokens.weight.shape[0]),
        to_target=to_target,
        vocabulary=network.vocabulary,
        nbytes=sum(weight.nbytes for weight in weights.values()),
    )


def _build(architecture: Architecture, head: Checkpoint, network: Network) -> Any:
    """A Llama of one layer that reads twice the width, on meta but for what is the target's."""
    model = architecture.build_on_meta(network.dtype)
    decoder, tensors = model.get_decoder(), head.tensors
    layer, norm = decoder.layers[0], decoder.norm
    width = norm.weight.shape[0]
    with torch.device("meta"):
        for name in ("q_proj", "k_proj", "v_proj"):
            narrow = getattr(layer.self_attn, name)
            wide = nn.Linear(2 * width, narrow.out_features, bias=narrow.bias is not None, dtype=network.dtype)
            setattr(layer.self_attn, name, wide)
        recorded = tensors[FUSION].shape[-1]
        model.fc = nn.Linear(recorded, width, bias="fc.bias" in tensors, dtype=network.dtype)
        model.recorded_norm = nn.Identity()
        if "recorded_norm.weight" in tensors:
            model.recorded_norm = type(norm)(recorded, norm.variance_epsilon).to(network.dtype)
        rows = tensors["lm_head.weight"].shape[0] if "lm_head.weight" in tensors else network.vocabulary
        model.lm_head = nn.Linear(width, rows, bias=False, dtype=network.dtype)
    layer.input_layernorm = JoinedNorms(layer.input_layernorm, deepcopy(norm))
    layer.input_layernorm.is_normed = head.config.get("norm_before_residual") is True
    model.last_norm, decoder.norm = norm, nn.Identity()  # behind it nothing could be chained
    if "model.embed_tokens.weight" not in tensors:
        decoder.embed_tokens = network.model.get_input_embeddings()
    if "lm_head.weight" not in tensors:
        model.lm_head = network.model.get_output_embeddings()
    return model


def _require_complete(architecture: Architecture, model: Any, own: Mapping[str, TensorInfo]) -> None:
    """Refuse a head that lacks weights, has others, or has them in other shapes than its config.json says."""
    state = model.state_dict()
    missing = [name for name, weight in state.items() if weight.is_meta and name not in own]
    width = model.last_norm.weight.shape[0]
    shared = {"model.embed_tokens.weight", "lm_head.weight"} - own.keys()
    mismatched = [name for name in own.keys() & state.keys() if tuple(state[name].shape) != own[name].shape]
    mismatched += [name for name in shared if state[name].shape[1] != width]
    require_complete(architecture, missing, mismatched, ())
    if unknown := sorted(own.keys() - state.keys()):
        raise ModelError(
            say(
                "'{name}' has weights that an EAGLE-3 head does not have: {tensor}.",
                name=architecture.name,
                tensor=shown(unknown[0]),
            ),
            say("Choose another head, or a draft model."),
        )


def _to_target(head: Checkpoint, count: int, network: Network) -> Tensor | None:
    """The target's id of each token that the head can say; None where they are the same.

    Raises `ModelError` unless every one has an id of its own.
    """
    stored = head.tensors.get(TO_TARGET)
    if stored is None and count == network.vocabulary:
        return None
    offsets = LazyTensor(stored, torch.int64)[...] if stored and stored.shape == (count,) else torch.zeros(0)
    ids = torch.arange(len(offsets)) + offsets
    in_range = bool(((ids >= 0) & (ids < network.vocabulary)).all())
    if len(ids) != count or not in_range or len(set(ids.tolist())) != count:
        raise ModelError(
            say("'{name}' does not say which of the target's tokens it guesses.", name=head.name), OTHER_HEAD
        )
    return ids.to(network.device)

"""What a GGUF file holds, as a checkpoint of transformers would: its config, its weights by their names there."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.errors import ModelError
from engine.gguf_header import FETCH_AGAIN
from engine.model.formats.packed import PackedWeight
from engine.model.gguf.config import config_of, family_of
from engine.model.gguf.header import GgufHeader, GgufTensor
from engine.model.gguf.names import (
    GATES,
    IN_BLOCK,
    NOT_WEIGHTS,
    NOT_WEIGHTS_OF_BLOCKS,
    OUTSIDE,
    UPS,
    Change,
    Family,
    in_transformers,
)
from engine.model.gguf.packed_blocks import Gguf, Order
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say, shown

# Experts by themselves, as the oldest files of Mixtral have them.
OWN_EXPERT = re.compile(r"ffn_(gate|down|up)\.(\d{1,5})", re.ASCII)
MIXTRAL = {"gate": "w1", "down": "w2", "up": "w3"}


@dataclass(slots=True)
class GgufContents:
    """`tensors` are all that is stored; those that are no part of a packed weight are weights as they are."""

    config: dict[str, object]
    tensors: dict[str, TensorInfo] = field(default_factory=dict)
    packed: dict[str, PackedWeight] = field(default_factory=dict)


def contents_of(header: GgufHeader, name: str) -> GgufContents:
    """The contents of the model called `name`.

    Raises `ModelError` for networks that are not known, and for weights that are none of this kind of network's.
    """
    family = family_of(header, name)
    contents = GgufContents(config_of(header, name))
    adding = _Adding(contents, family, name)
    for tensor in header.tensors.values():
        if tensor.name not in NOT_WEIGHTS:
            adding.add(tensor)
    adding.add_gates()
    return contents


class _Adding:
    """Puts tensor after tensor where it belongs."""

    def __init__(self, contents: GgufContents, family: Family, name: str) -> None:
        self._contents = contents
        self._family = family
        self._name = name
        self._gates: dict[tuple[str, str], dict[str, GgufTensor]] = {}

    def add(self, tensor: GgufTensor) -> None:
        """Raises `ModelError` for a tensor of an unknown name, or of a shape that it cannot have."""
        if tensor.name in OUTSIDE:
            change: Change = "norm" if tensor.name == "output_norm.weight" else ""
            self._place(OUTSIDE[tensor.name], tensor, change)
            return
        match = IN_BLOCK.fullmatch(tensor.name)
        name, kind = (match["name"], match["kind"]) if match else ("", "")
        if match is None or name in NOT_WEIGHTS_OF_BLOCKS:
            if match is None:
                raise self._unknown(tensor)
            return
        layer = f"model.layers.{int(match['index'])}."
        expert = OWN_EXPERT.fullmatch(name)
        if name in (GATES, UPS):
            self._gates.setdefault((layer, kind), {})[name] = tensor
        elif expert and self._contents.config["model_type"] == "mixtral" and kind == "weight":
            self._place(f"{layer}mlp.experts.{int(expert[2])}.{MIXTRAL[expert[1]]}.weight", tensor, "")
        else:
            own = in_transformers(self._family, name, kind)
            if not own:
                raise self._unknown(tensor)
            is_norm = name.endswith("norm") and kind == "weight"
            self._place(layer + own, tensor, "norm" if is_norm else self._family.changes.get(name, ""))

    def add_gates(self) -> None:
        """Put gates and ups of experts together, which are one weight in the network."""
        for (layer, kind), tensors in self._gates.items():
            if len(tensors) != 2:
                raise ModelError(
                    say("'{name}' lacks the weights {tensor}.", name=self._name, tensor=f"{layer}{GATES}, {UPS}"),
                    say("Download the model again."),
                )
            gates, ups = tensors[GATES], tensors[UPS]
            shape, dimensions = gates.shape, 3 if kind == "weight" else 2
            if shape != ups.shape or len(shape) != dimensions:
                raise self._misshaped(ups)
            order: Order = "joined"
            whole = (shape[0], 2 * shape[1], *shape[2:])
            if self._family.experts_woven:
                order = "woven turned" if kind == "weight" else "woven"
                whole = (shape[0], *reversed(whole[1:]))
            own = f"{layer}mlp.experts.gate_up_proj" + ("" if kind == "weight" else "_bias")
            self._pack(own, whole, (gates, ups), Gguf((gates.kind, ups.kind), order))

    def _place(self, own: str, tensor: GgufTensor, change: Change) -> None:
        if change == "scalar gate" and len(tensor.shape) == 1:
            tensor = replace(tensor, shape=(1, *tensor.shape))
        shape, form = tensor.shape, Gguf((tensor.kind,))
        if change in ("query", "key"):
            heads = self._heads(change)
            if not shape or shape[0] % (2 * heads):
                raise self._misshaped(tensor)
            form = replace(form, order="heads", heads=heads)
        elif change == "turned" and len(shape) == 3:
            shape, form = (shape[0], shape[2], shape[1]), replace(form, order="turned")
        elif change == "norm" and self._family.norms_plus_one:
            form = replace(form, plus=-1.0)
        if tensor.kind.plain and form == Gguf((tensor.kind,)):
            self._require_new(own)
            self._contents.tensors[own] = _info(tensor)
        else:
            self._pack(own, shape, (tensor,), form)

    def _heads(self, change: Change) -> int:
        count = self._contents.config["num_attention_heads" if change == "query" else "num_key_value_heads"]
        assert isinstance(count, int)
        return max(1, count)

    def _pack(self, own: str, shape: tuple[int, ...], tensors: Sequence[GgufTensor], form: Gguf) -> None:
        self._require_new(own)
        parts = {str(part): _info(tensor) for part, tensor in enumerate(tensors)}
        self._contents.packed[own] = PackedWeight(own, shape, parts, form)
        self._contents.tensors |= {tensor.name: parts[str(part)] for part, tensor in enumerate(tensors)}

    def _require_new(self, own: str) -> None:
        if own in self._contents.packed or own in self._contents.tensors:
            raise ModelError(
                say("'{name}' has the weights {tensor} twice.", name=self._name, tensor=shown(own)), FETCH_AGAIN
            )

    def _unknown(self, tensor: GgufTensor) -> ModelError:
        return ModelError(
            say("'{name}' has the weights {tensor}, which are not known.", name=self._name, tensor=shown(tensor.name)),
            say("Choose another version of the model, or update Coppice."),
        )

    def _misshaped(self, tensor: GgufTensor) -> ModelError:
        return ModelError(
            say("'{name}' has weights of an impossible shape: {tensor}.", name=self._name, tensor=shown(tensor.name)),
            FETCH_AGAIN,
        )


def _info(tensor: GgufTensor) -> TensorInfo:
    kind, shape = tensor.kind, tensor.shape
    if not kind.plain:
        shape = (*shape[:-1], shape[-1] // kind.elements * kind.nbytes)
    return TensorInfo(kind.plain or "U8", shape, tensor.shard, tensor.begin, tensor.end)

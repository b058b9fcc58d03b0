"""What a GGUF file holds, as a checkpoint of transformers would: its config, its weights by their names there."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from engine.errors import ModelError
from engine.gguf_header import FETCH_AGAIN, NUMBERS, WHOLE_NUMBERS, LazyArray, block_type
from engine.model.formats.faults import unknown_weights
from engine.model.formats.packed import PackedWeight
from engine.model.gguf.config import config_of, family_of
from engine.model.gguf.header import GgufHeader, GgufTensor
from engine.model.gguf.networks.names import (
    ACTIVATIONS,
    HASHES,
    IN_BLOCK,
    NGRAM_TABLE,
    NOT_WEIGHTS,
    NOT_WEIGHTS_OF_BLOCKS,
    STACKS,
    Change,
    Family,
    Merge,
    Merged,
    in_transformers,
)
from engine.model.gguf.packed_blocks import Gguf, Order, WholeNumbers
from engine.model.gguf.settings import Settings, predicting_layers
from engine.model.gguf.windows import LINEAR
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say, shown

# Experts by themselves, as the oldest files of Mixtral have them.
OWN_EXPERT = re.compile(r"ffn_(gate|down|up)\.(\d{1,5})", re.ASCII)
MIXTRAL = {"gate": "w1", "down": "w2", "up": "w3"}
FUSED = "attn_qkv"
OUTPUT_NORM, PER_LAYER_TABLE = "output_norm.weight", "per_layer_token_embd.weight"
FLOAT32 = 0  # ggml's number of the type
OF_VALUES = ("values", "values behind keys", "of values", "decay")
STACKED: Mapping[Merge, Order] = {"joined": "joined", "halves": "halves", "woven": "woven turned"}


@dataclass(slots=True)
class GgufContents:
    """`tensors` are all that is stored; those that are no part of a packed weight are weights as they are.

    `predicting_layers` stand behind the others in the file, predict further tokens, and are left out.
    """

    config: dict[str, object]
    tensors: dict[str, TensorInfo] = field(default_factory=dict)
    packed: dict[str, PackedWeight] = field(default_factory=dict)
    predicting_layers: int = 0


def contents_of(header: GgufHeader, name: str) -> GgufContents:
    """The contents of the model called `name`.

    Raises `ModelError` for networks that are not known, and for weights that are none of this kind of network's.
    """
    family = family_of(header, name)
    contents = GgufContents(config_of(header, name), predicting_layers=predicting_layers(Settings(header, name)))
    adding = _Adding(contents, family, name)
    for tensor in header.tensors.values():
        if tensor.name not in NOT_WEIGHTS:
            adding.add(tensor)
    for key in ACTIVATIONS if family.model_type == "apertus" else ():
        adding.add_numbers(key, header)
    for key in HASHES if NGRAM_TABLE in family.outside.get(PER_LAYER_TABLE, "") else ():
        adding.add_hashes(key, header)
    adding.add_merged()
    return contents


class _Adding:
    """Puts tensor after tensor where it belongs."""

    def __init__(self, contents: GgufContents, family: Family, name: str) -> None:
        self._contents = contents
        self._family = family
        self._name = name
        self._merged = {part: merged for merged in family.merged for part in merged.parts}
        self._parts: dict[tuple[str, str, Merged], dict[str, GgufTensor]] = {}

    def add(self, tensor: GgufTensor) -> None:
        """Raises `ModelError` for a tensor of an unknown name, or of a shape that it cannot have."""
        if outside := self._family.outside.get(tensor.name):
            usual: Change = "norm" if tensor.name == OUTPUT_NORM else ""
            change = self._family.changes.get(tensor.name.removesuffix(".weight"), usual)
            self._place(outside.format(layer=self._contents.config.get("hashing_layer")), tensor, change)
            return
        if tensor.name in STACKS and len(tensor.shape) == 3:
            for index, matrix in enumerate(_rows(tensor, [1] * tensor.shape[0])):
                self._place(STACKS[tensor.name].format(index), replace(matrix, shape=tensor.shape[1:]), "")
            return
        match = IN_BLOCK.fullmatch(tensor.name)
        if match is None:
            raise self._unknown(tensor)
        name, kind, index = match["name"], match["kind"] or "weight", int(match["index"])
        if name in NOT_WEIGHTS_OF_BLOCKS | self._family.apart or self._is_beyond(index):
            return
        layer = f"{self._family.layers}.{index}."
        expert = OWN_EXPERT.fullmatch(name)
        if merged := self._merged.get(name):
            self._parts.setdefault((layer, kind, merged), {})[name] = tensor
        elif name == FUSED and not in_transformers(self._family, name, kind):
            for part, rows in zip(("attn_q", "attn_k", "attn_v"), self._apart(tensor), strict=True):
                self.add(replace(rows, name=f"blk.{index}.{part}.{kind}"))
        elif expert and self._contents.config["model_type"] == "mixtral" and kind == "weight":
            self._place(f"{layer}mlp.experts.{int(expert[2])}.{MIXTRAL[expert[1]]}.weight", tensor, "")
        else:
            own = self._in_state(name, kind, index) or in_transformers(self._family, name, kind)
            if not own:
                raise self._unknown(tensor)
            usual = "norm" if name.endswith("norm") and kind == "weight" else ""
            self._place(layer + own, tensor, self._family.changes.get(name, usual))

    def add_numbers(self, key: str, header: GgufHeader) -> None:
        """A weight for each layer, whose only number stands in a list of the metadata."""
        said, layers = header.metadata.get(key), self._number("num_hidden_layers")
        if not isinstance(said, LazyArray) or NUMBERS.get(said.kind) != "f" or said.count < layers:
            raise ModelError(say("'{name}' lacks the weights {tensor}.", name=self._name, tensor=key), FETCH_AGAIN)
        kind = block_type(FLOAT32)
        assert kind is not None
        for index in range(layers):
            own, begin = f"model.layers.{index}.{ACTIVATIONS[key]}", said.begin + index * kind.nbytes
            self._require_new(own)
            # As bytes, which need not lie at multiples of their size.
            part = TensorInfo("U8", (kind.nbytes,), header.shards[0], begin, begin + kind.nbytes)
            shape = (1,) if "alpha" in key else ()
            self._contents.tensors[f"{key}.{index}"] = part
            self._contents.packed[own] = PackedWeight(own, shape, {"0": part}, Gguf((kind,)))

    def add_hashes(self, key: str, header: GgufHeader) -> None:
        """Whole numbers of 64 bits that n-grams are looked up with."""
        said = header.metadata.get(f"{header.architecture}.{key}")
        if "hashing_layer" not in self._contents.config:
            return
        if not isinstance(said, LazyArray) or NUMBERS.get(said.kind) not in ("q", "Q"):
            raise ModelError(say("'{name}' lacks the weights {tensor}.", name=self._name, tensor=key), FETCH_AGAIN)
        own = f"{self._family.layers}.{self._contents.config['hashing_layer']}.{HASHES[key]}"
        self._require_new(own)
        part = TensorInfo("U8", (said.end - said.begin,), header.shards[0], said.begin, said.end)
        self._contents.tensors[key] = part
        self._contents.packed[own] = PackedWeight(own, (said.count,), {"0": part}, WholeNumbers())

    def add_merged(self) -> None:
        """Put together what is one weight in the network."""
        for (layer, kind, merged), tensors in self._parts.items():
            if len(tensors) != len(merged.parts):
                raise ModelError(
                    say(
                        "'{name}' lacks the weights {tensor}.", name=self._name, tensor=layer + ", ".join(merged.parts)
                    ),
                    say("Download the model again."),
                )
            first, last = (tensors[part] for part in merged.parts)
            if merged.merge == "by key heads":
                found = self._by_key_heads(first, last)
            elif merged.merge == "behind":
                found = _behind_each_other(first, last)
            else:
                found = _put_together(merged.merge, kind, first, last)
            if found is None:
                raise self._misshaped(last)
            own = layer + merged.name + ("" if kind == "weight" else f"_{kind}")
            self._pack(own, found[0], (first, last), found[1])

    def _apart(self, tensor: GgufTensor) -> list[GgufTensor]:
        """Queries, keys and values, which lie behind each other."""
        heads, keys = self._number("num_attention_heads"), self._number("num_key_value_heads")
        rows = [count * self._number("head_dim") for count in (heads, keys, keys)]
        if tensor.shape[0] != sum(rows):
            raise self._misshaped(tensor)
        return _rows(tensor, rows)

    def _in_state(self, name: str, kind: str, index: int) -> str:
        """What transformers calls it in a layer that keeps a state; empty in others, and if it is called as there."""
        kinds = self._contents.config.get("layer_types")
        if name not in self._family.of_states or not isinstance(kinds, list) or kinds[index : index + 1] != [LINEAR]:
            return ""
        return f"{self._family.of_states[name]}.{kind}"

    def _is_beyond(self, index: int) -> bool:
        """Whether a layer stands behind those of the language model, and only predicts further tokens."""
        layers = self._contents.config["num_hidden_layers"]
        assert isinstance(layers, int)
        return self._contents.predicting_layers > 0 and index >= layers

    def _place(self, own: str, tensor: GgufTensor, change: Change) -> None:
        if change == "indices" or tensor.kind == WHOLE_NUMBERS:
            self._place_indices(own, tensor, change)
            return
        tensor = replace(tensor, shape=_shape_of(tensor, change))
        sign = 1.0 if change == "log of rates" else -1.0
        shape, form = tensor.shape, Gguf((tensor.kind,), is_log=change.startswith("log"), sign=sign)
        if change in ("query", "key", "one head", "pairs"):
            form = self._of_pairs(tensor, change)
        elif change == "turned" and (len(shape) == 3 or (len(shape) == 2 and own.endswith(".weight"))):
            shape, form = (*shape[:-2], shape[-1], shape[-2]), replace(form, order="turned")
        elif change == "by kind":
            form = replace(form, order="grouped", heads=self._heads("query"), groups=3)
            if shape[0] % (3 * form.heads):
                raise self._misshaped(tensor)
        elif change == "members turned" and len(shape) == 3:
            form = replace(form, order="latent", heads=shape[0], split=shape[2])
            shape = (shape[0] * shape[2], shape[1])
        elif change == "by groups":
            form = self._by_groups(tensor)
        elif change == "rescaled":
            form = replace(form, times=(shape[0] / self._number("hidden_size")) ** 0.5)
        elif change == "norm" and self._family.norms_plus_one:
            form = replace(form, plus=-1.0)
        elif change in OF_VALUES:
            shape, form = self._with_values(own, tensor, change)
        if tensor.kind.plain and form == Gguf((tensor.kind,), sign=sign):
            self._require_new(own)
            self._contents.tensors[own] = info_of(tensor)
        else:
            self._pack(own, shape, (tensor,), form)

    def _of_pairs(self, tensor: GgufTensor, change: Change) -> Gguf:
        """The form of heads whose halves turn together, and lie woven: one head's numbers behind another's, or rows."""
        form, shape = Gguf((tensor.kind,)), tensor.shape
        heads = 1 if change == "pairs" else self._heads(change)
        if not shape or shape[-1 if change == "pairs" else 0] % (2 * heads):
            raise self._misshaped(tensor)
        if change != "pairs":
            return replace(form, order="heads", heads=heads)
        if len(shape) != 2:
            raise self._misshaped(tensor)
        return replace(form, order="grouped columns", heads=2, groups=shape[1] // 2)

    def _place_indices(self, own: str, tensor: GgufTensor, change: Change) -> None:
        if change != "indices" or tensor.kind != WHOLE_NUMBERS or len(tensor.shape) != 2:
            raise self._misshaped(tensor)
        form = WholeNumbers(self._number("n_routed_experts"))
        self._require_new(own)
        part = self._contents.tensors[tensor.name] = info_of(tensor)
        self._contents.packed[own] = PackedWeight(own, tensor.shape, {"0": part}, form)

    def _by_groups(self, tensor: GgufTensor) -> Gguf:
        """The form of queries, keys and values where several heads of queries share one of keys."""
        heads, groups = self._heads("query"), self._heads("key")
        width = tensor.shape[0] // (heads + 2 * groups)
        if len(tensor.shape) != 2 or heads % groups or tensor.shape[0] != width * (heads + 2 * groups):
            raise self._misshaped(tensor)
        return Gguf((tensor.kind,), "by groups", heads=groups, split=heads // groups * width)

    def _with_values(self, own: str, tensor: GgufTensor, change: Change) -> tuple[tuple[int, ...], Gguf]:
        """Shape and form of a weight with something for every value head of a layer with a state."""
        keys, values, width = (
            self._number(f"linear_{name}") for name in ("num_key_heads", "num_value_heads", "key_head_dim")
        )
        groups = 1 if self._family.model_type == "qwen3_next" else values // keys  # there they stay with their keys
        shape, form = tensor.shape, Gguf((tensor.kind,), heads=keys, groups=groups)
        split = 2 * keys * width if change == "values behind keys" else 0
        spread = shape[-1] if change == "of values" else shape[0] - split
        if spread <= 0 or spread % values or (change == "of values" and len(shape) != 2):
            raise self._misshaped(tensor)
        if change == "of values":
            return shape, replace(form, order="grouped columns")
        form = replace(form, order="grouped", split=split, is_log=change == "decay")
        return ((shape[0], 1, shape[1]) if own.endswith("conv1d.weight") and len(shape) == 2 else shape), form

    def _by_key_heads(self, first: GgufTensor, last: GgufTensor) -> tuple[tuple[int, ...], Gguf] | None:
        keys, width = self._number("linear_num_key_heads"), self._number("linear_key_head_dim")
        a, b = first.shape, last.shape
        if len(a) != 2 or len(b) != 2 or a[1] != b[1] or a[0] - b[0] != 2 * keys * width or b[0] % keys:
            return None
        form = Gguf((first.kind, last.kind), "by key heads", heads=keys, split=width)
        return (a[0] + b[0], a[1]), form

    def _number(self, key: str) -> int:
        value = self._contents.config[key]
        assert isinstance(value, int)
        return value

    def _heads(self, change: Change) -> int:
        if change == "one head":
            return 1
        return max(1, self._number("num_attention_heads" if change == "query" else "num_key_value_heads"))

    def _pack(self, own: str, shape: tuple[int, ...], tensors: Sequence[GgufTensor], form: Gguf) -> None:
        self._require_new(own)
        parts = {str(part): info_of(tensor) for part, tensor in enumerate(tensors)}
        self._contents.packed[own] = PackedWeight(own, shape, parts, form)
        self._contents.tensors |= {tensor.name: parts[str(part)] for part, tensor in enumerate(tensors)}

    def _require_new(self, own: str) -> None:
        if own in self._contents.packed or own in self._contents.tensors:
            raise ModelError(
                say("'{name}' has the weights {tensor} twice.", name=self._name, tensor=shown(own)), FETCH_AGAIN
            )

    def _unknown(self, tensor: GgufTensor) -> ModelError:
        return unknown_weights(self._name, tensor.name)

    def _misshaped(self, tensor: GgufTensor) -> ModelError:
        return ModelError(
            say("'{name}' has weights of an impossible shape: {tensor}.", name=self._name, tensor=shown(tensor.name)),
            FETCH_AGAIN,
        )


def _rows(tensor: GgufTensor, counts: Sequence[int]) -> list[GgufTensor]:
    """A tensor in parts of so many rows of its first dimension."""
    row = (tensor.end - tensor.begin) // tensor.shape[0]
    ends = [tensor.begin + row * count for count in accumulate(counts, initial=0)]
    parts = zip(counts, pairwise(ends), strict=True)
    return [replace(tensor, shape=(count, *tensor.shape[1:]), begin=begin, end=end) for count, (begin, end) in parts]


def _shape_of(tensor: GgufTensor, change: Change) -> tuple[int, ...]:
    """The shape that transformers gives a tensor to which the converter may have given another one."""
    shape = tensor.shape
    if change == "row" and len(shape) == 1:
        return (1, *shape)
    if change in ("flat", "log of rates"):
        return (math.prod(shape),)
    if change == "log":
        return tuple(length for length in shape if length > 1) or (1,)
    if change == "log of heads":
        return (1, 1, math.prod(shape), 1)
    if change in ("channels", "members") and len(shape) > 1:
        rows = math.prod(shape[:-1])
        return (rows, 1, shape[-1]) if change == "channels" else (rows, shape[-1])
    return shape


def _behind_each_other(first: GgufTensor, last: GgufTensor) -> tuple[tuple[int, ...], Gguf] | None:
    """Shape and form of a matrix whose first rows are one tensor, and whose others are another one."""
    a, b = first.shape, last.shape
    if len(a) != 2 or len(b) != 2 or a[1] != b[1]:
        return None
    return (a[0] + b[0], a[1]), Gguf((first.kind, last.kind), "behind", split=a[0])


def _put_together(merge: Merge, kind: str, first: GgufTensor, last: GgufTensor) -> tuple[tuple[int, ...], Gguf] | None:
    """Shape and form of a weight that is stored in two tensors; None if these do not fit."""
    a, b = first.shape, last.shape
    form = Gguf((first.kind, last.kind))
    if merge == "latent":
        if kind != "weight" or len(a) != 3 or len(b) != 3 or a[0] != b[0] or a[1] != b[2]:
            return None
        return (a[0] * (a[2] + b[1]), a[1]), replace(form, order="latent", heads=a[0], split=a[2])
    if a != b:
        return None
    if merge == "woven" and kind == "bias" and len(a) == 2:
        return (a[0], 2 * a[1]), replace(form, order="woven")
    if kind != "weight" or len(a) != 3:
        plain = merge == "joined" and kind == "weight" and len(a) == 2
        return ((2 * a[0], a[1]), replace(form, order="joined")) if plain else None
    whole = (a[0], 2 * a[1], a[2]) if merge == "joined" else (a[0], a[2], 2 * a[1])
    return whole, replace(form, order=STACKED[merge])


def info_of(tensor: GgufTensor) -> TensorInfo:
    """Where a tensor lies, with a row of blocks as bytes."""
    kind, shape = tensor.kind, tensor.shape
    if not kind.plain:
        shape = (*shape[:-1], shape[-1] // kind.elements * kind.nbytes)
    return TensorInfo(kind.plain or "U8", shape, tensor.shard, tensor.begin, tensor.end)

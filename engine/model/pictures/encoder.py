"""What a model makes of pictures before its layers read them: its own encoder, loaded as transformers would load it."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

from engine.errors import ModelError
from engine.model.architecture import CONFIG_FAULTS, few_parts, make_config, unloadable
from engine.model.checkpoint import Checkpoint
from engine.model.formats.packed import PackedWeight
from engine.model.safetensors_header import TensorInfo
from engine.model.weight_loader import LazyPacked, LazyTensor, WeightLoader, stored_dtype
from engine.own_thread import in_all_threads
from engine.protocol.sentences import say

HEAD = "lm_head"

Lazy = LazyTensor | LazyPacked
Encode = Callable[[Mapping[str, Tensor]], "Features"]
"""Turns what a processor made of one picture into features."""


@dataclass(frozen=True, slots=True)
class Features:
    """What stands in for the embeddings of a picture's rows: [rows, hidden].

    `deeper`: what is added to the outputs of the first layers, one after the other, likewise; few models have it.
    """

    rows: Tensor
    deeper: tuple[Tensor, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return sum(each.nbytes for each in (self.rows, *self.deeper))

    def to(self, device: torch.device) -> "Features":
        """The same on a device."""
        return Features(self.rows.to(device), tuple(each.to(device) for each in self.deeper))


class _Layer:
    """A layer of the encoder, and where its weights are stored: by the checkpoint's names, with its own."""

    def __init__(self, module: nn.Module, sources: Mapping[str, tuple[str, Lazy]]) -> None:
        self.module = module
        self.sources = sources
        self._empty = dict(module.named_parameters())

    def load(self, device: torch.device) -> None:
        """Read its weights."""
        for name, lazy in self.sources.values():
            self._put(name, nn.Parameter(lazy[...].to(device), requires_grad=False))

    def unload(self) -> None:
        """Give their memory back."""
        for name, empty in self._empty.items():
            self._put(name, empty)

    def _put(self, name: str, parameter: nn.Parameter) -> None:
        path, _, leaf = name.rpartition(".")
        self.module.get_submodule(path)._parameters[leaf] = parameter


class PictureEncoder:
    """The parts of a model that are neither its language model nor its head, made from config.json without weights.

    They are loaded for as long as pictures are encoded, those of its layers one layer at a time: a language model that
    streams needs the memory.
    """

    def __init__(
        self, checkpoint: Checkpoint, weights: Callable[[], Mapping[str, TensorInfo | PackedWeight]], dtype: torch.dtype
    ) -> None:
        """`checkpoint`: with the config of the whole model; `weights`: its weights, or those of the encoder alone.

        Raises `ModelError` where the model cannot be made, or has no encoder of pictures.
        """
        self._checkpoint, self._stored, self._dtype = checkpoint, weights, dtype
        self.config = make_config(checkpoint)
        self._kind = str(self.config.model_type)
        known = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING.get(type(self.config), None)
        if known is None or not hasattr(known, "get_image_features"):
            raise unloadable(checkpoint.name, ValueError(say("its kind of pictures is not known")))
        try:
            config = deepcopy(self.config)
            with torch.device("meta"), few_parts(checkpoint.name):
                self._model = known._from_config(config, dtype=dtype)
        except CONFIG_FAULTS as error:
            raise unloadable(checkpoint.name, error) from error
        self._model.eval().requires_grad_(False)
        decoder = self._model.get_decoder()
        self._text = next(f"{name}." for name, module in self._model.named_modules() if module is decoder)
        self._takes = set(inspect.signature(self._model.get_image_features).parameters)

    @property
    def token(self) -> int:
        """The token that stands for a row of a picture in a text that is encoded."""
        found = getattr(self.config, "image_token_id", None)
        return int(self.config.image_token_index if found is None else found)

    @property
    def nbytes(self) -> int:
        """Bytes of its weights, once they are loaded."""
        return sum(tensor.nbytes for name, tensor in self._model.named_parameters() if not self._is_text(name))

    @property
    def sizes(self) -> frozenset[str]:
        """What of the numbers that a processor makes of a picture tells where its rows stand."""
        return frozenset(inspect.signature(self._index).parameters) if self._index else frozenset()

    def positions(self, is_row: Tensor, pictures: Sequence[Mapping[str, Tensor]]) -> Tensor | None:
        """Where every token of a text stands for the rotary embedding, int64 [axes, tokens]; None: where it stands.

        `is_row`: bool [tokens], of all pictures; `pictures`: the `sizes` of each.
        """
        if self._index is None:
            return None
        tokens = torch.zeros(1, len(is_row), dtype=torch.int64)
        given = {name: torch.cat([each[name] for each in pictures]) for name in pictures[0]}
        found: Tensor = self._index(tokens, mm_token_type_ids=is_row[None].int(), **given)[0]
        return found[:, 0]

    @property
    def _index(self) -> Callable[..., Any] | None:
        return getattr(getattr(self._model, "model", self._model), "get_rope_index", None)

    @contextmanager
    def loaded(self, device: torch.device, check: Callable[[], None]) -> Iterator[Encode]:
        """Within it, turns what the processor made of one picture into features. `check` may raise, between layers.

        Raises `ModelError` for weights that are missing or cannot be read, and what torch raises where memory runs out.
        """
        loader = WeightLoader(self._model, self._dtype, self._kind)
        empty = dict(self._tensors())
        try:
            loader.rebuild_buffers(device)
            weights = self._weights(loader)
            layers = self._layers(loader, weights)
            in_layers = {name for layer in layers for name in layer.sources}
            loader.load({name: lazy for name, lazy in weights.items() if name not in in_layers}, device)
            self._require_complete(layers)
            with self._running(layers, device, check):
                yield lambda given: self._encoded(given, device)
        finally:
            self._put_back(empty)

    def _layers(self, loader: WeightLoader, weights: Mapping[str, Lazy]) -> list[_Layer]:
        """The layers whose weights can be loaded by themselves: each is stored as the network holds it."""
        destinations = loader.destinations(weights)
        stored = {its.name: name for name, its in destinations.items() if not its.converted}
        found: list[_Layer] = []
        inside: tuple[str, ...] = (self._text,)
        for prefix, modules in self._model.named_modules():
            if not isinstance(modules, nn.ModuleList) or f"{prefix}.".startswith(inside):
                continue
            for number, module in enumerate(modules):
                own = {name: stored.get(f"{prefix}.{number}.{name}", "") for name, _ in module.named_parameters()}
                if (
                    own
                    and all(own.values())
                    and all(_shape(weights[name]) == module.get_parameter(leaf).shape for leaf, name in own.items())
                ):
                    found.append(_Layer(module, {name: (leaf, weights[name]) for leaf, name in own.items()}))
                    inside = (*inside, f"{prefix}.{number}.")
        return found

    def _require_complete(self, layers: Sequence[_Layer]) -> None:
        """Raise `ModelError` unless all weights are there, or come with their layers."""
        later = {id(parameter) for layer in layers for parameter in layer.module.parameters()}
        for name, parameter in self._model.named_parameters():
            if parameter.is_meta and id(parameter) not in later and not self._is_text(name):
                raise ModelError(
                    say("'{name}' lacks the weights {tensor}.", name=self._checkpoint.name, tensor=name),
                    say("Download the model again."),
                )

    @torch.inference_mode()
    def _encoded(self, given: Mapping[str, Tensor], device: torch.device) -> Features:
        taken = {
            name: (value.to(device, self._dtype) if value.is_floating_point() else value.to(device))
            for name, value in given.items()
            if name in self._takes
        }
        with in_all_threads():
            found = self._model.get_image_features(**taken, return_dict=True)
        rows = _flat(found.pooler_output).to(self._dtype)
        deeper = getattr(found, "deepstack_features", None) or ()
        return Features(rows, tuple(_flat(each).to(self._dtype) for each in deeper))

    def _is_text(self, name: str) -> bool:
        """Whether a weight of the whole model is the language model's, which is loaded elsewhere."""
        return name.startswith((self._text, HEAD)) or f".{HEAD}." in name

    def _weights(self, loader: WeightLoader) -> dict[str, Lazy]:
        """The checkpoint's weights of the encoder, by its own names; nothing is read."""
        weights = self._stored()
        own = {name for name, its in loader.destinations(weights).items() if not self._is_text(its.name)}
        return {
            name: LazyPacked(weight, self._dtype)
            if isinstance(weight, PackedWeight)
            else LazyTensor(weight, self._read_as(stored_dtype(weight)))
            for name, weight in weights.items()
            if name in own
        }

    def _read_as(self, stored: torch.dtype) -> torch.dtype:
        return self._dtype if stored.is_floating_point else stored

    def _tensors(self) -> Iterator[tuple[tuple[nn.Module, str, bool], Tensor]]:
        for module in self._model.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    yield (module, name, True), parameter
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    yield (module, name, False), buffer

    def _put_back(self, empty: Mapping[tuple[nn.Module, str, bool], Tensor]) -> None:
        for (module, name, is_parameter), tensor in empty.items():
            (module._parameters if is_parameter else module._buffers)[name] = tensor  # type: ignore[assignment]

    @contextmanager
    def _running(self, layers: Sequence[_Layer], device: torch.device, check: Callable[[], None]) -> Iterator[None]:
        """`check` runs before every layer of the encoder; the weights of `layers` are there while these run."""
        hooks = []
        for name, modules in self._model.named_modules():
            if isinstance(modules, nn.ModuleList) and not self._is_text(f"{name}."):
                hooks += [module.register_forward_pre_hook(lambda *_: check()) for module in modules]
        for layer in layers:
            hooks.append(layer.module.register_forward_pre_hook(lambda *_, its=layer: its.load(device)))
            hooks.append(layer.module.register_forward_hook(lambda *_, its=layer: its.unload()))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def _shape(lazy: Lazy) -> tuple[int, ...]:
    return lazy.info.shape if isinstance(lazy, LazyTensor) else lazy.weight.shape


def _flat(found: Any) -> Tensor:
    """Rows of features [rows, hidden] of one picture, whose parts some models return apart, or with more dimensions."""
    parts = found if isinstance(found, list | tuple) else [found]
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])

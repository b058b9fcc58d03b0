"""Gives a decoder layer its weights: as views of a buffer, or decoded into one scratch layer that all layers share."""

from collections.abc import Collection
from math import prod
from typing import Protocol

import torch
from torch import Tensor, nn

from engine.weights.codecs.codec import Decoder
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.siblings import Siblings
from engine.weights.streaming.stored_weight import Products, StoredWeight, Turn, is_usable, multiplied_names

KEPT = 1 << 20  # numbers of a weight that a copy is kept of: a router's, not a matrix's


class Binding(Protocol):
    """Ties one layer to its bytes."""

    def bind(self, buffer: Tensor) -> None:
        """Make the layer run with what lies in `buffer`, uint8 of at least the layout's size."""

    @property
    def is_settled(self) -> bool:
        """Whether the layer has its weights for good, as long as its bytes stay where they are."""


class Scratch:
    """Memory for one layer's weights on the compute device, shared by all layers of the same shapes."""

    def __init__(self, device: torch.device) -> None:
        self.turn: Turn = [None]  # of the memory that weights which are decoded one at a time share
        self._device = device
        self._layers: dict[tuple[tuple[str, torch.Size, torch.dtype], ...], dict[str, Tensor]] = {}
        self._one = torch.empty(0, dtype=torch.uint8, device=device)

    def places_of(self, layer: nn.Module, names: Collection[str]) -> dict[str, Tensor]:
        """Tensors shaped like these weights of the layer, all of them in the same memory, that of the largest one."""
        own = {name: each for name, each in layer.state_dict(keep_vars=True).items() if name in names}
        largest = max((each.numel() * each.itemsize for each in own.values()), default=0)
        if largest > len(self._one):
            self._one = torch.empty(largest, dtype=torch.uint8, device=self._device).zero_()
        return {
            name: self._one[: prod(each.shape) * each.itemsize].view(each.dtype).view(each.shape)
            for name, each in own.items()
        }

    def weights_of(
        self, layer: nn.Module, left_out: str | None = None, elsewhere: Collection[str] = ()
    ) -> dict[str, Tensor]:
        """Tensors shaped like the layer's own, which may be on meta; the same ones for all layers of these shapes.

        None for names that begin with `left_out`, nor for those `elsewhere`.
        """
        every = layer.state_dict(keep_vars=True)
        own = {
            name: each
            for name, each in every.items()
            if name not in elsewhere and (left_out is None or not name.startswith(left_out))
        }
        key = tuple((name, tensor.shape, tensor.dtype) for name, tensor in own.items())
        if key not in self._layers:
            # Zeros that are written: the system finds memory for them now, not in the middle of the first pass.
            self._layers[key] = {
                name: torch.empty(tensor.shape, dtype=tensor.dtype, device=self._device).zero_()
                for name, tensor in own.items()
            }
        return self._layers[key]


class Views:
    """A layer whose stored bytes are its weights: its parameters become views of the buffer they are in."""

    def __init__(self, layer: nn.Module, layout: LayerLayout) -> None:
        self._layer = layer
        self._layout = layout
        self._bound: dict[int, list[tuple[nn.Module, str, Tensor]]] = {}

    @property
    def is_settled(self) -> bool:
        """As `Binding`."""
        return bool(self._bound)

    def bind(self, buffer: Tensor) -> None:
        """Point the layer at its weights in `buffer`, uint8 of at least the layout's size."""
        places = self._bound.get(buffer.data_ptr())
        if places is None:
            places = [_place(self._layer, name, view) for name, view in stored_views(self._layout, buffer).items()]
            self._bound[buffer.data_ptr()] = places
        for place in places:
            _put(*place)


class Decoded:
    """A layer whose stored bytes are an encoding: decoded into the scratch layer just before it runs.

    What its linear modules multiply with stays as it is stored where passes of few rows gain by that, see
    `StoredWeight`.
    """

    def __init__(
        self,
        layer: nn.Module,
        layout: LayerLayout,
        decoder: Decoder,
        scratch: Scratch,
        left_out: str | None = None,
        few_rows: int = 0,
        stays: bool = False,
    ) -> None:
        """Weights whose names begin with `left_out` are bound elsewhere; `few_rows`: see `StoredWeight`, 0 for none.

        `stays`: the layer's bytes lie in one place for good. Of small weights that are stored in another number type
        (norms, routers) it then keeps copies in the network's, instead of making them anew in every pass.
        """
        self._layout = layout
        self._stays, self._is_settled = stays, False
        self._decoder = decoder
        self._layer = layer
        self._views: dict[int, tuple[dict[str, Tensor], Products, list[tuple[nn.Module, str, Tensor]]]] = {}
        linear = multiplied_names(layer) if few_rows else frozenset()
        multiplied = {name for name in linear if left_out is None or not name.startswith(left_out)}
        siblings = Siblings()
        self._multiplied = [
            (name, StoredWeight(name, decoder, place, few_rows, siblings, scratch.turn))
            for name, place in scratch.places_of(layer, multiplied).items()
        ]
        self._weights = scratch.weights_of(layer, left_out, multiplied)
        for name, tensor in self._weights.items():
            _put(*_place(layer, name, tensor))
        for name, stored in self._multiplied:
            path, _, leaf = name.rpartition(".")
            layer.get_submodule(path)._parameters[leaf] = stored  # type: ignore[assignment]  # no `Parameter`: it has no numbers

    @property
    def is_settled(self) -> bool:
        """As `Binding`: nothing is decoded in each pass anew into memory that other layers have too."""
        return self._is_settled

    def bind(self, buffer: Tensor) -> None:
        """Decode what lies in `buffer`; on a GPU this takes its turn on the stream that computes."""
        if buffer.data_ptr() not in self._views:
            self._views[buffer.data_ptr()] = self._seen(stored_views(self._layout, buffer))
        stored, products, ready = self._views[buffer.data_ptr()]
        for _name, waiting in self._multiplied:
            waiting.point(stored, products)
        for place in ready:
            _put(*place)
        for name, weight in self._weights.items():
            if name not in stored:
                self._decoder.decode(stored, name, weight)
            elif not (is_usable(stored[name], weight) or self._keeps(weight)):
                weight.copy_(stored[name])

    def _seen(
        self, stored: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], Products, list[tuple[nn.Module, str, Tensor]]]:
        """What lies in a buffer; weights that are stored in the network's number type are used where they lie."""
        ready = {}
        for name, weight in self._weights.items():
            if name in stored and is_usable(stored[name], weight):
                ready[name] = stored[name]
            elif name in stored and self._keeps(weight):
                ready[name] = stored[name].to(weight.dtype, copy=True)  # also what lies badly
        self._is_settled = self._stays and ready.keys() == self._weights.keys()
        return stored, {}, [_place(self._layer, name, tensor) for name, tensor in ready.items()]

    def _keeps(self, weight: Tensor) -> bool:
        return self._stays and weight.numel() <= KEPT


def stored_views(layout: LayerLayout, buffer: Tensor) -> dict[str, Tensor]:
    """The layout's tensors as views of a buffer that holds the layer's bytes."""
    return {
        entry.name: buffer[entry.begin : entry.begin + entry.nbytes].view(entry.dtype).view(entry.shape)
        for entry in layout.tensors
    }


def _place(layer: nn.Module, name: str, tensor: Tensor) -> tuple[nn.Module, str, Tensor]:
    path, _, leaf = name.rpartition(".")
    module = layer.get_submodule(path)
    # Assigning to `parameter.data` would raise for a parameter on meta; its place in the module is free to take.
    return module, leaf, nn.Parameter(tensor, requires_grad=False) if leaf in module._parameters else tensor


def _put(module: nn.Module, leaf: str, tensor: Tensor) -> None:
    # setattr would check and register all over again, for every weight of every layer of every pass.
    if isinstance(tensor, nn.Parameter):
        module._parameters[leaf] = tensor
    else:
        module._buffers[leaf] = tensor

"""A weight that stays as it is stored: multiplied so for few rows, decoded for many.

Decoding a whole weight moves every number through memory two or three times, which few rows never earn back. Many rows
are multiplied by the processor's library, with blocks that stay in a cache from their decoding on.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.model.formats.packed import PackedFormat, PackedWeight
from engine.model.products.arranged import rounding
from engine.model.products.bfloat_loops import bfloat_loop, loop_for
from engine.model.products.product import Product, Stored, floats
from engine.model.weight_loader import LazyPacked
from engine.own_thread import in_all_threads
from engine.weights.codecs.codec import Decoder, codec_named
from engine.weights.store.layout import is_aligned
from engine.weights.streaming.siblings import Siblings

SMALLEST = 1 << 16  # numbers that are worth being kept narrow
LIGHT, LIGHT_PRODUCTS = 1 << 20, 1 << 23  # numbers of a matrix, times rows, that one thread multiplies in half a ms
SHARED_OUT = 4  # times as many rows the loops multiply, by threads that are awake, sooner than torch wakes its own
TABLE, TABLE_ROWS = "table", 8192  # its name among stored tensors, and how many of its rows are cast at a time

Turn = list[object]
"""Of memory that the places of several weights share: its only item is the weight that was decoded there last."""

Products = dict[str, Product | None]
"""Of stored tensors, by the names of weights; None where there is none."""

_FACTS = {
    *(getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "nbytes", "layout")),
    *(getattr(Tensor, name).__get__ for name in ("requires_grad", "is_meta", "itemsize")),
    *(Tensor.numel, Tensor.size, Tensor.dim, Tensor.element_size, Tensor.is_floating_point),
}  # what is asked of a weight without touching its numbers


class StoredWeight(Tensor):
    """Stands where a network looks for the weight [out, in] of an `nn.Linear`: of its shape and type, without numbers.

    `torch.nn.functional.linear` of at most `few_rows` rows multiplies with the stored tensors, where the decoder has a
    product for them; of more rows it decodes them block by block, or not at all where they are in the type of the
    states. All else, whatever a network does with the weight, finds it decoded.
    """

    _name: str
    _decoder: Decoder
    _place: Tensor
    _few_rows: int
    _stored: Mapping[str, Tensor]
    _is_decoded: bool
    _alone: Tensor | None
    _products: Products
    _siblings: Siblings | None
    _turn: Turn | None

    @staticmethod
    def __new__(
        cls,
        name: str,
        decoder: Decoder,
        place: Tensor,
        few_rows: int,
        siblings: Siblings | None = None,
        turn: Turn | None = None,
    ) -> "StoredWeight":
        """`place`: where the weight is decoded to, of its shape and number type; between two runs others may use it.

        `siblings`: those of its layer, of which some may be multiplied together. `turn`: of the place, where other
        weights of the same layer are decoded there too.
        """
        made: StoredWeight = Tensor._make_wrapper_subclass(cls, place.shape, dtype=place.dtype, device=place.device)
        made._name, made._decoder, made._place, made._few_rows = name, decoder, place, few_rows
        made._siblings, made._turn = siblings, turn
        return made

    def point(self, stored: Mapping[str, Tensor], products: Products | None = None) -> None:
        """For the next run of the layer: its stored tensors, which stay where they are until the run is over.

        `products`: those made of these very tensors in earlier runs, by name.
        """
        self._stored, self._products, self._is_decoded = stored, {} if products is None else products, False
        self._alone = None

    def decoded(self) -> Tensor:
        """The weight itself, for this run of the layer."""
        if self._turn is None or self._ready is not None:
            return self._now()
        if self._alone is None:  # whoever keeps it may ask for another weight of the layer, too
            self._alone = torch.empty_like(self._place)
            self._decoder.decode(self._stored, self._name, self._alone)
        return self._alone

    def _now(self) -> Tensor:
        """The weight itself, until another one of those that share its place is decoded."""
        if (ready := self._ready) is not None:
            self._is_decoded = True
            return ready
        if not self._is_decoded or (self._turn is not None and self._turn[0] is not self):
            self._decoder.decode(self._stored, self._name, self._place)
            self._is_decoded = True
            if self._turn is not None:
                self._turn[0] = self
        return self._place

    @property
    def _ready(self) -> Tensor | None:
        """The weight as it is stored, if nothing has to be decoded."""
        stored = self._stored.get(self._name)
        return stored if stored is not None and is_usable(stored, self._place) else None

    def times(self, states: Tensor, bias: Tensor | None = None) -> Tensor:
        """What `functional.linear` gives: states [..., in] to [..., out], in the states' number type."""
        out, width = self._place.shape
        rows = states.numel() // width
        found = None
        if rows and not self._is_decoded and (product := self._product()) is not None:
            x = states.reshape(rows, width).contiguous()
            found = self._few_times(product, x, states) if rows <= self._few_rows else product.wide(x)
        if found is None:
            with in_all_threads():
                return self._many_times(states, bias)
        found = found.contiguous()  # some networks rely on it, and others are faster with it
        if bias is not None:
            found += bias
        return found.to(states.dtype).reshape(*states.shape[:-1], out)

    def _few_times(self, product: Product, x: Tensor, states: Tensor) -> Tensor:
        loop = bfloat_loop() if x.dtype == torch.bfloat16 else None
        if loop and loop.leaves_plain and len(x) > 1 and (found := product.wide(x)) is not None:
            return found  # nothing to decode: torch's product uses the same unit
        x = x if loop_for(x) else x.float()
        return self._siblings.times(self.few_product, product, x, states) if self._siblings else product(x)

    def few_product(self, rows: int) -> Product | None:
        """What multiplies so many rows with the stored tensors; None if there are too many, or no such product."""
        return self._product() if 0 < rows <= self._few_rows and not self._is_decoded else None

    def _product(self) -> Product | None:
        if self._name not in self._products:
            out, width = self._place.shape
            self._products[self._name] = self._decoder.product(self._stored, self._name, (out, width))
        return self._products[self._name]

    def _many_times(self, states: Tensor, bias: Tensor | None) -> Tensor:
        return functional.linear(states, self._now(), bias)

    def rows(self, numbers: Tensor) -> Tensor:
        """What `functional.embedding` gives."""
        return functional.embedding(numbers, self.decoded())

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Torch's own door for types of tensors: every function that is handed such a weight comes by here."""
        named = dict(kwargs or {})
        if func in _FACTS:
            return super().__torch_function__(func, types, args, named)  # type: ignore[no-untyped-call]  # of torch
        if func is functional.linear and not named and isinstance(args[1], cls) and not isinstance(args[0], cls):
            return args[1].times(args[0], *args[2:])
        if func is functional.embedding and isinstance(args[1], cls):
            return args[1].rows(args[0])
        return func(*map(_decoded, args), **{name: _decoded(each) for name, each in named.items()})

    @classmethod
    def __torch_dispatch__(cls, func: object, *_rest: object) -> Any:
        """Never reached: `__torch_function__` comes first, and hands on tensors that hold numbers."""
        raise AssertionError(f"{func} was handed a weight without numbers")


class NarrowWeight(StoredWeight):
    """A weight in memory, of a layer, an embedding or a head, whose numbers 16 bits hold exactly: kept so.

    Rows that are looked up become what the network computes in; a product of many rows casts some of the table at a
    time.
    """

    @staticmethod
    def of(table: Tensor, dtype: torch.dtype, few_rows: int, siblings: Siblings | None = None) -> "NarrowWeight | None":
        """Of `table` [rows, width], float32 or `dtype`, in the latter; None if that does not hold its numbers."""
        narrow = table.to(dtype)
        pairs = zip(torch.split(narrow, TABLE_ROWS), torch.split(table, TABLE_ROWS), strict=True)
        if table.dtype != dtype and not all(torch.equal(some.float(), whole) for some, whole in pairs):
            return None
        shape = torch.empty(1, dtype=table.dtype).expand(table.shape)  # takes no memory
        made = StoredWeight.__new__(NarrowWeight, TABLE, codec_named("plain"), shape, few_rows, siblings)
        made.point({TABLE: narrow})
        assert isinstance(made, NarrowWeight)
        return made

    @property
    def kept(self) -> Tensor:
        """Its numbers, in 16 bits."""
        return self._stored[TABLE]

    def decoded(self) -> Tensor:
        """All of it in the network's number type; made anew where that is float32."""
        return self.kept.to(self._place.dtype)

    def _many_times(self, states: Tensor, bias: Tensor | None) -> Tensor:
        parts = torch.split(self.kept, TABLE_ROWS)
        found = torch.cat([functional.linear(states, part.to(states.dtype)) for part in parts], -1)
        return found if bias is None else found + bias

    def rows(self, numbers: Tensor) -> Tensor:
        """See `StoredWeight.rows`."""
        return functional.embedding(numbers, self.kept).to(self._place.dtype)


class PackedTable(StoredWeight):
    """An embedding or a head on the processor, which stays as its checkpoint packs it.

    Rows that are looked up are decoded alone, to the network's number type.
    """

    _format: PackedFormat

    @staticmethod
    def of(
        weight: PackedWeight,
        parts: Mapping[str, Tensor],
        few_rows: int,
        dtype: torch.dtype = torch.float32,
        is_rounded: bool = False,
        keeps_few: bool = False,
    ) -> "PackedTable | None":
        """Of a packed matrix, and what is stored of it, in a network of `dtype`; None if no loop multiplies with it.

        `is_rounded`: rows are multiplied in 8 bits where there is a loop for that; `keeps_few`: see `Stored`.
        """
        shape = weight.shape[0], weight.shape[1]
        product = weight.format.product(parts, shape)
        product = rounding(product, keeps_few) if is_rounded else product
        if type(product) is not Stored:
            return None
        place = torch.empty(1, dtype=dtype).expand(shape)  # takes no memory
        made = StoredWeight.__new__(PackedTable, TABLE, codec_named("plain"), place, few_rows)
        assert isinstance(made, PackedTable)
        made._format = weight.format
        made.point(parts, {TABLE: product})
        return made

    @property
    def held_bytes(self) -> int:
        """What it takes."""
        return sum(part.nbytes for part in self._stored.values())

    def decoded(self) -> Tensor:
        """All of it, made anew."""
        whole = torch.empty(self._place.shape, dtype=self._place.dtype)
        self._format.decode(self._stored, whole)
        return whole

    def _now(self) -> Tensor:
        return self.decoded()

    def rows(self, numbers: Tensor) -> Tensor:
        """See `StoredWeight.rows`. Raises `IndexError` where there is no such row."""
        product = self._product()
        assert isinstance(product, Stored), "see `of`"
        if numbers.is_meta:  # only shapes are asked for
            return numbers.new_empty((*numbers.shape, product.columns), dtype=self._place.dtype)
        found = product.some_rows(numbers.flatten().tolist())
        return found.to(self._place.dtype).view(*numbers.shape, product.columns)


class SmallWeight(StoredWeight):
    """A small weight in float32, whose few rows the loops multiply: so its layer takes one call, see `passes.light`."""

    @staticmethod
    def of(weight: Tensor | None) -> "SmallWeight | None":
        """Of a weight on the processor, which stays where it is; None for none, and for others than small ones."""
        if type(weight) is not nn.Parameter or weight.dtype != torch.float32 or not _light_rows(weight):
            return None
        made = StoredWeight.__new__(
            SmallWeight, TABLE, codec_named("plain"), weight.data, SHARED_OUT * _light_rows(weight)
        )
        made.point({TABLE: weight.data})
        assert isinstance(made, SmallWeight)
        return made

    def _now(self) -> Tensor:
        return self._place

    def _product(self) -> Product | None:
        if TABLE not in self._products:
            self._products[TABLE] = floats(self._stored[TABLE])
        return self._products[TABLE]


def is_usable(stored: Tensor, weight: Tensor) -> bool:
    """Whether a stored tensor may stand where it lies for a weight like this: of its type, a matrix aligned."""
    lies_well = stored.ndim < 2 or is_aligned(stored.dtype, stored.data_ptr())
    return stored.dtype == weight.dtype and lies_well


def multiplied_names(layer: nn.Module) -> frozenset[str]:
    """The weights of a layer that its linear modules multiply with, by their names in it."""
    linear = {name for name, module in layer.named_modules() if type(module) is nn.Linear}
    return frozenset(f"{name}.weight" for name in linear)


def light_rows(model: nn.Module, apart: Collection[nn.Module] = ()) -> int:
    """Up to how many rows no matrix of a network is worth waking torch's threads: stored, or a small one.

    0 where one is neither. `apart`: modules that ask for threads themselves, as `share_out_head` has the head do.
    """
    modules = [module for module in model.modules() if not isinstance(module, nn.Embedding) and module not in apart]
    weights = [weight for module in modules for weight in module._parameters.values() if weight is not None]
    return min(map(_light_rows, weights), default=0)


def share_out_head(model: Any) -> tuple[nn.Module, ...]:
    """Have the head of a transformers model compute in all threads, also in a pass that is light but for it.

    A weight that is multiplied as it is stored asks for them by itself. Returns the head; nothing where it is none of
    torch's linear modules.
    """
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear:
        return ()
    weight: Any = head._parameters["weight"]
    if isinstance(weight, StoredWeight):
        return (head,)
    own = head.forward

    def forward(states: Tensor) -> Tensor:
        with in_all_threads():
            return own(states)

    forward.shares_out = True  # type: ignore[attr-defined]  # for `keep_small_tables`
    head.__dict__["forward"] = forward
    return (head,)


def _light_rows(weight: Tensor) -> int:
    if isinstance(weight, StoredWeight):
        return weight._few_rows
    return LIGHT_PRODUCTS // max(1, weight.numel()) if weight.numel() <= LIGHT or weight.ndim < 2 else 0


def narrow_weights(layer: nn.Module, dtype: torch.dtype, few_rows: int) -> None:
    """Keep what a layer's linear modules multiply with in `dtype`, where that holds its numbers."""
    siblings = Siblings()
    for name in multiplied_names(layer):
        module = layer.get_submodule(name.rpartition(".")[0])
        weight = module._parameters["weight"]
        if weight is None or weight.numel() < SMALLEST or weight.dtype not in {torch.float32, dtype}:
            continue
        if (narrow := NarrowWeight.of(weight, dtype, few_rows, siblings)) is not None:
            module._parameters["weight"] = narrow  # type: ignore[assignment]  # no `Parameter`, as it has no numbers


def keep_small(layer: nn.Module) -> None:
    """Have the loops multiply with the weights of a layer's linear modules, if all of them are small ones."""
    modules = [layer.get_submodule(name.rpartition(".")[0]) for name in multiplied_names(layer)]
    small = [SmallWeight.of(module._parameters["weight"]) for module in modules]
    if None not in small:
        for module, weight in zip(modules, small, strict=True):
            module._parameters["weight"] = weight  # type: ignore[assignment]  # no `Parameter`


def keep_small_tables(model: Any) -> None:
    """Have the loops multiply with the head of a transformers model, if it is a small one."""
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    table = head._parameters["weight"] if type(head) is nn.Linear else None
    if (small := SmallWeight.of(table)) is None:
        return
    head._parameters["weight"] = small
    if getattr(head.__dict__.get("forward"), "shares_out", False):  # it asks for threads by itself now
        del head.__dict__["forward"]
    if embedding._parameters.get("weight") is table:
        embedding._parameters["weight"] = small


def held_bytes(weight: Tensor) -> int:
    """What a weight takes in memory."""
    if isinstance(weight, PackedTable):
        return weight.held_bytes
    return weight.kept.nbytes if isinstance(weight, NarrowWeight) else weight.nbytes


def multiplies_stored(model: nn.Module) -> bool:
    """Whether a network multiplies with weights as they are stored."""
    weights = (weight for module in model.modules() for weight in module._parameters.values())
    return any(isinstance(weight, StoredWeight) for weight in weights)


def narrow_tables(model: Any, dtype: torch.dtype, few_rows: int) -> None:
    """Keep embedding and head of a transformers model in `dtype`, where that holds their numbers."""
    made: dict[int, NarrowWeight | None] = {}
    for module in (model.get_input_embeddings(), model.get_output_embeddings()):
        table = module._parameters.get("weight") if isinstance(module, nn.Embedding | nn.Linear) else None
        if table is None or table.dtype not in {torch.float32, dtype} or isinstance(table, StoredWeight):
            continue
        if id(table) not in made:
            made[id(table)] = NarrowWeight.of(table, dtype, few_rows)
        if (narrow := made[id(table)]) is not None:
            module._parameters["weight"] = narrow  # no `Parameter`, as it has no numbers


def keep_packed_tables(
    model: Any, tables: Mapping[str, LazyPacked], few_rows: int, is_rounded: bool = False, keeps_few: bool = False
) -> None:
    """Keep embedding and head of a transformers model as they are packed, where loops multiply with them.

    `tables`: those that may stay, by the model's names; they may be on meta. Others of them are decoded. `is_rounded`,
    `keeps_few`: see `PackedTable.of`. Raises `ModelError` when one cannot be read.
    """
    names: dict[int, list[str]] = defaultdict(list)  # tied ones have two
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[id(parameter)].append(name)
    made: dict[int, Tensor] = {}
    for module in (model.get_input_embeddings(), model.get_output_embeddings()):
        table = module._parameters.get("weight") if isinstance(module, nn.Embedding | nn.Linear) else None
        lazy = next((tables[name] for name in names[id(table)] if name in tables), None)
        if lazy is None:
            continue
        if id(table) not in made:
            packed = PackedTable.of(lazy.weight, lazy.parts(), few_rows, lazy.dtype, is_rounded, keeps_few)
            made[id(table)] = nn.Parameter(lazy[...], requires_grad=False) if packed is None else packed
        module._parameters["weight"] = made[id(table)]


def _decoded(value: Any) -> Any:
    """The value itself, or the weight that it stands for; also inside of lists, as `torch.cat` takes them."""
    if isinstance(value, StoredWeight):
        return value.decoded()
    return type(value)(map(_decoded, value)) if type(value) in (list, tuple) else value
